//! Generates `alerts/tenants/tenants.rules.yaml`: alerts for tenants. Their label `namespace` is
//! the namespace of the objects, so that an `AlertmanagerConfig` in that namespace receives them.

use loopwatch_model::finding::{Area, FINDINGS, FindingInfo, Severity};

use super::{WAITS, rule, selector};

/// The name of the alert.
const TENANT: &str = "LoopwatchTenantFinding";

/// The areas of the findings about objects. The others are about the operator and loopwatch, which
/// tenants cannot fix.
const AREAS: [Area; 4] = [Area::Deletion, Area::Ownership, Area::References, Area::Convergence];

const HEAD: &str = r#"# Generated from model/src/finding/table.rs by `UPDATE=1 cargo test --lib`; do not edit.
#
# Opt-in: alerts for tenants, in addition to those for the people who run the operator. docs/alerts.md describes them.
#
# - The label `namespace` is the namespace of the objects, as an AlertmanagerConfig expects. `operator_namespace` is that of
#   loopwatch, and `team` is the team of the namespace, if loopwatch runs with --team-label.
# - The label `audience="tenant"` keeps these alerts apart from the others: route it, so that nobody gets both.
# - Only findings about objects in a namespace alert; `explained` ones do not, so that tenants get no page while the operator is
#   down.
groups:
  - name: loopwatch-tenants
    interval: 1m
    rules:
      # The team of each namespace, which is the same for all operators. While its label changes, replicas may disagree for a scrape,
      # and a join allows only one team.
      - record: target_namespace:loopwatch_namespace:info
        expr: >-
          topk by (cluster, namespace, job, target_namespace) (1, max without (pod, instance, operator) (loopwatch_namespace_info))

      # The open findings about objects in namespaces. findings.rules.yaml records the open findings.
      - record: target_namespace_finding:loopwatch_findings:max
        expr: >-
          <selector>

"#;

/// The expression of a rule with the selectors `<tenants>`.
const PLAIN: &str = "<tenants> > 0";

/// The replacement for [`PLAIN`].
const EXPR: &str = r#"label_replace(
            label_replace(
              target_namespace_finding:loopwatch_findings:max
                * on (cluster, namespace, job, target_namespace) group_left (team)
                target_namespace:loopwatch_namespace:info
              or
              target_namespace_finding:loopwatch_findings:max
                unless on (cluster, namespace, job, target_namespace)
                target_namespace:loopwatch_namespace:info,
              "operator_namespace", "$1", "namespace", "(.*)"
            ),
            "namespace", "$1", "target_namespace", "(.*)"
          ) > 0"#;

#[must_use]
pub(super) fn tenants() -> String {
    let findings: Vec<&FindingInfo> =
        FINDINGS.iter().filter(|info| AREAS.contains(&info.area)).collect();
    let of_tenants = selector(&findings, &[Severity::Critical, Severity::Warning]).replacen(
        '{',
        "{target_namespace!=\"\",",
        1,
    );
    let severity = "'{{ $labels.severity }}'\n          audience: tenant";

    // The annotations refer to series with the operator's namespace.
    let text = rule((TENANT, WAITS[1]), &findings, "<tenants>", severity)
        .replace(PLAIN, EXPR)
        .replace("$labels.namespace", "$labels.operator_namespace");
    format!("{}{text}", HEAD.replace("<selector>", &of_tenants))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_for_tenants_are_generated_from_the_table() {
        let text = tenants();
        assert!(text.contains(EXPR), "the template of rules has changed");

        crate::golden::check("alerts/tenants/tenants.rules.yaml", &text);
    }
}
