//! Reasons of Kubernetes Events that may be label values.

/// The maximum length of a reason, the same as in the API `events.k8s.io/v1`.
const MAX_REASON: usize = 128;

/// Reasons of the controllers of Kubernetes about objects that operators watch, in alphabetical
/// order. They never count as `_other`.
const OF_KUBERNETES: &[&str] = &[
    "BackOff",
    "BackoffLimitExceeded",
    "Completed",
    "Created",
    "DeadlineExceeded",
    "Evicted",
    "ExternalProvisioning",
    "Failed",
    "FailedAttachVolume",
    "FailedBinding",
    "FailedComputeMetricsReplicas",
    "FailedCreate",
    "FailedDelete",
    "FailedGetExternalMetric",
    "FailedGetResourceMetric",
    "FailedMount",
    "FailedScheduling",
    "Killing",
    "LeaderElection",
    "NodeNotReady",
    "OwnerRefInvalidNamespace",
    "Preempted",
    "Provisioning",
    "ProvisioningFailed",
    "ProvisioningSucceeded",
    "Pulled",
    "Pulling",
    "ScalingReplicaSet",
    "Scheduled",
    "Started",
    "SuccessfulAttachVolume",
    "SuccessfulCreate",
    "SuccessfulDelete",
    "SuccessfulRescale",
    "Unhealthy",
    "WaitForFirstConsumer",
];

/// Returns whether a reason is one of Kubernetes itself.
pub(super) fn is_of_kubernetes(reason: &str) -> bool {
    OF_KUBERNETES.binary_search(&reason).is_ok()
}

/// Returns whether a reason is one word, as the API's conventions ask, rather than free text.
pub(super) fn is_word(reason: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    !reason.is_empty() && reason.len() <= MAX_REASON && reason.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_reasons_are_sorted_words() {
        assert!(OF_KUBERNETES.is_sorted() && OF_KUBERNETES.iter().all(|reason| is_word(reason)));
        assert!(is_of_kubernetes("OwnerRefInvalidNamespace") && !is_of_kubernetes("Reconciled"));
    }

    #[test]
    fn free_text_is_no_word() {
        for reason in ["Reconciled", "FAILED_TO_SYNC", "cert-manager.io/Issued"] {
            assert!(is_word(reason), "{reason}");
        }
        for reason in ["", "failed to sync", "a\nb", "ünder", "a\"}", &"x".repeat(129)] {
            assert!(!is_word(reason), "{reason}");
        }
    }
}
