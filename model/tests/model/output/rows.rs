//! What the row of an object shows.

use loopwatch_model::observation::{Manager, OwnerReference};
use loopwatch_model::snapshot::ObjectState;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, spec_by, watch};

#[test]
fn the_owners_of_an_object_follow_it() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    let owner = |name: &str| OwnerReference {
        kind: "Stack".into(),
        name: name.into(),
        ..OwnerReference::default()
    };

    for owners in [vec!["s1"], vec!["s1", "s2"], vec!["s2"], vec![]] {
        let mut view = lab.view(&widget);
        view.owners = owners.iter().map(|name| owner(name)).collect();
        lab.apply_view(view);

        let expected: Vec<String> = owners.iter().map(|name| format!("Stack/{name}")).collect();
        assert_eq!(lab.row("web").owners, expected);
    }
}

#[test]
fn an_object_that_becomes_ready_after_hours_is_converged_since_then() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.advance(Span::hours(3));

    let ready = lab.now;
    lab.apply(widget.ready());
    lab.advance(Span::secs(20));

    assert_eq!((lab.row("web").state, lab.row("web").since), (ObjectState::Converged, ready));
}

#[test]
fn the_last_writer_of_the_status_is_named_and_not_the_last_writer_of_the_spec() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.status_written = Some(lab.ago(Span::mins(1)));
    widget.spec(2, lab.now);

    let mut view = lab.view(&widget);
    view.managers.push(spec_by("vpa-recommender", lab.now));
    view.managers.push(Manager {
        name: "label-controller".into(),
        time: Some(lab.now),
        ..Manager::default()
    });
    lab.apply_view(view);

    lab.advance(Span::mins(10));
    assert!(lab.evidence().contains("last status writer widget-operator"), "{}", lab.evidence());
    assert_eq!(watch(), lab.kind().watches[0].watch);
}
