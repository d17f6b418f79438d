//! Names of field managers that do not identify an operator. Code that uses a list may add further
//! names.

/// Names that many programs share, because they are the defaults of frameworks and client
/// libraries.
pub const GENERIC_MANAGERS: [&str; 8] = [
    "Go-http-client",
    "controller",
    "main",
    "manager",
    "node-fetch",
    "okhttp",
    "operator",
    "unknown",
];

/// Prefixes of the names of tools that write on behalf of people: clients, and tools that deploy
/// manifests or restore backups.
pub const CLIENT_MANAGERS: [&str; 9] = [
    "Terraform",
    "argocd",
    "before-first-apply",
    "flux",
    "helm",
    "kubectl",
    "kustomize",
    "pulumi",
    "velero",
];
