//! Names of controllers: whether a lease, its holder, a field manager or a domain belongs to one.
use crate::observation::{GENERIC_MANAGERS, pod_of_holder};

/// A controller, by everything that is known about it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ControllerName<'a> {
    /// Its field manager.
    pub(crate) manager: Option<&'a str>,
    /// The domain of its finalizer.
    pub(crate) domain: Option<&'a str>,
}

/// The relation of a lease to a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It is the controller's lease.
    Own,
    /// It is named after the domain of the controller's group, which other operators may use, too.
    SameDomain,
    None,
}

/// The shortest label of a domain that identifies an operator in the name of a lease.
const SHORTEST_LABEL: usize = 4;

/// Further names of field managers that say nothing about the program behind them.
const GENERIC: [&str; 9] = [
    "OpenAPI-Generator",
    "ansible-operator",
    "app",
    "controller-manager",
    "default",
    "fabric8-kubernetes-client",
    "java",
    "python-requests",
    "server",
];

/// Returns whether a field manager's name says nothing about the program behind it.
pub(crate) fn is_generic(manager: &str) -> bool {
    manager.is_empty() || GENERIC_MANAGERS.contains(&manager) || GENERIC.contains(&manager)
}

/// Returns whether a domain equals `parent` or is a subdomain of it.
pub(crate) fn is_within(domain: &str, parent: &str) -> bool {
    let prefix = domain.strip_suffix(parent);
    !parent.is_empty() && prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
}

/// Returns the relation of a lease, as `namespace/name`, to a controller, according to its name and
/// holder.
pub(crate) fn relation(key: &str, holder: &str, controller: ControllerName<'_>) -> Relation {
    let name = key.split_once('/').map_or(key, |(_, name)| name);
    let by_manager =
        controller.manager.filter(|manager| !is_generic(manager)).is_some_and(|manager| {
            name.contains(manager)
                || (name.len() >= 4 && manager.contains(name))
                || workload(holder) == manager
        });

    if by_manager || controller.domain.is_some_and(|domain| is_within(name, domain)) {
        return Relation::Own;
    }

    // `6ab5f5a3.example.io`: a random part, or the name of the operator, and the domain of all its
    // groups.
    let domain_of_lease =
        name.split_once('.').map(|(_, domain)| domain).filter(|domain| domain.contains('.'));
    let same_domain = controller
        .domain
        .zip(domain_of_lease)
        .is_some_and(|(domain, lease)| is_within(domain, lease));

    // `rabbitmq-cluster-operator-leader-election` for the group `rabbitmq.com`.
    let same_word =
        controller.domain.and_then(own_label).is_some_and(|label| has_word(name, label));
    if same_domain || same_word { Relation::SameDomain } else { Relation::None }
}

/// Returns the label of a domain that its owner has chosen: `rabbitmq` of `rabbitmq.com` or
/// `a.rabbitmq.com`.
pub(crate) fn own_label(domain: &str) -> Option<&str> {
    let (rest, _) = domain.rsplit_once('.')?;
    let label = rest.rsplit('.').next().unwrap_or(rest);
    (label.len() >= SHORTEST_LABEL).then_some(label)
}

/// Returns whether a text contains a word, which no letters or digits continue.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let ends = |byte: Option<&u8>| !byte.is_some_and(u8::is_ascii_alphanumeric);
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (text.as_bytes()[..at].last(), text.as_bytes().get(at + word.len()));
        ends(before) && ends(after)
    })
}

/// Returns the name of the Deployment whose Pod holds a lease: `operator-7d9f8c6b5-x2x4v_6f1c…` is
/// of `operator`.
pub(crate) fn workload(holder: &str) -> &str {
    let pod = pod_of_holder(holder);
    let mut parts = pod.rsplitn(3, '-');
    let (_, _, name) = (parts.next(), parts.next(), parts.next());
    name.unwrap_or(pod)
}
