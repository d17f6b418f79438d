//! What the account may not read.

use crate::export::view::{Check, CheckState, Topic};
use crate::sources::api_server::Cluster;
use crate::sources::survey::{MissingRights, missing_rights};

pub(super) async fn check(cluster: &Cluster, namespace: &str) -> Check {
    match missing_rights(cluster, namespace).await {
        Ok(missing) => judge(&missing),
        Err(failure) => Check::new(
            Topic::Rights,
            CheckState::Unknown,
            format!("Cannot review the permissions of the account: {failure}."),
        ),
    }
}

fn judge(missing: &MissingRights) -> Check {
    let mut features: Vec<&str> = missing.needs.iter().map(|need| need.feature).collect();
    features.dedup();

    if features.is_empty() {
        let text = "The account has all permissions that components/reader-rights grants.";
        return Check::new(Topic::Rights, CheckState::Well, text);
    }

    let uncertain = if missing.is_uncertain {
        " The API server cannot list all rules, so this may be wrong."
    } else {
        ""
    };
    let text = format!("The account lacks permissions for: {}.{uncertain}", features.join(", "));
    let state = if missing.is_uncertain { CheckState::Unknown } else { CheckState::Limited };
    Check::new(Topic::Rights, state, text).advise(
        "List components/reader-rights in the kustomization of the operator; the table in deploy/README.md says what each permission is for.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs::NEEDS;

    #[test]
    fn missing_permissions_limit_loopwatch_and_are_no_problem() {
        assert_eq!(judge(&MissingRights::default()).state, CheckState::Well);

        let leader = NEEDS.iter().find(|need| need.feature == "leader").expect("a row");
        let missing = MissingRights { needs: vec![leader], is_uncertain: false };
        let check = judge(&missing);
        assert!(check.state == CheckState::Limited && check.text.contains("leader"), "{check:?}");

        let check = judge(&MissingRights { is_uncertain: true, ..missing });
        assert!(check.state == CheckState::Unknown && check.text.contains("wrong"), "{check:?}");
    }
}
