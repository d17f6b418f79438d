//! Names of field managers that do not identify an operator. Each user of a list may add names of
//! its own.

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

/// The beginnings of the names of tools that write for people: clients, and tools that deploy
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
