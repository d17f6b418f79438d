//! Tests of an operator that is one of many.

use std::sync::Arc;

use k8s_openapi::api::authorization::v1::ResourceRule;
use tokio::sync::watch;

use super::{Run, widget_operator};
use crate::sources::api_server::{Granted, Grants, Observed, Owner, Owners, Reach, Subject};

const OPERATOR: &str = "ops/op";

/// An operator that may write the status of all kinds of a group.
fn observed(owners: &Owners) -> Observed {
    let account = ("ops".to_owned(), "op".to_owned());
    let rule = ResourceRule {
        verbs: vec!["update".to_owned()],
        api_groups: Some(vec!["example.io".to_owned()]),
        resources: Some(vec!["*".to_owned()]),
        resource_names: None,
    };
    let granted = Granted { rules: Arc::from([rule]), weight: 100, is_for_people: false };
    let mut grants = Grants::of_accounts([account.clone()].into());
    grants.add(&Subject::Account(account.clone()), "", &granted);

    Observed {
        operator: OPERATOR.to_owned(),
        account,
        grants: watch::Sender::new(Arc::new(grants)).subscribe(),
        owners: owners.clone(),
        shared: Arc::default(),
    }
}

/// Lets the operator own these kinds.
fn own(owners: &Owners, resources: &[&str]) {
    let owner = Owner { operator: OPERATOR.to_owned(), reach: Reach::Everywhere, is_certain: true };
    let kind = |resource: &&str| ("example.io".to_owned(), (*resource).to_owned());
    owners.set(resources.iter().map(|resource| (kind(resource), vec![owner.clone()])).collect());
}

#[tokio::test(start_paused = true)]
async fn an_operator_follows_the_kinds_that_it_owns_as_soon_as_they_change() {
    let owners = Owners::default();
    own(&owners, &["widgets"]);
    let mut run = Run::start(&widget_operator(), |options| {
        options.discovery.observed = Some(observed(&owners));
    });
    assert_eq!(run.kinds_within(20).await.as_deref(), Some("kinds [widgets.example.io@v1]"));

    own(&owners, &["gadgets", "widgets"]);
    assert_eq!(
        run.kinds_within(5).await.as_deref(),
        Some("kinds [gadgets.example.io@v1, widgets.example.io@v1]")
    );

    own(&owners, &["gadgets"]);
    assert_eq!(run.kinds_within(15).await.as_deref(), Some("kinds [gadgets.example.io@v1]"));
}
