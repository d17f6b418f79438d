//! Documents, alert rules and dashboards generated from tables and code. `UPDATE=1` rewrites the files; without it, the
//! tests fail if a file is out of date.

mod alert_noise; // docs/alerts.md: the alerts of each incident
mod alert_times; // docs/alerts.md: the time from a fault to its page
mod dashboards; // dashboards/*.json
mod findings_page; // docs/findings.md, and the headings of runbooks
mod metrics_page; // docs/metrics.md
mod rules; // alerts/findings.rules.yaml, and the rules for tenants
