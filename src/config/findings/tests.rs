use loopwatch_model::model::tuning::{TuningTarget, tuned};

use super::*;

fn parse(yaml: &str) -> (BTreeMap<String, Vec<FindingRule>>, Vec<String>) {
    read(serde_saphyr::from_str(yaml).expect("YAML"))
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn rules_are_read_in_every_form() {
    let (findings, problems) = parse(
        "overdue: {severity: critical}\nRegressed:\n- {namespaces: [staging-*, ci], enabled: false}\n\
         - {kinds: 'widgets.example.io, Pod', severity: info}\nall: {namespaces: {include: [a*], exclude: ab}, \
         kinds: [example.io/*], enabled: true}\nFailing:\n",
    );

    assert_eq!(problems, Vec::<String>::new());

    let names: Vec<&str> = findings.keys().map(String::as_str).collect();
    assert_eq!(names, ["Overdue", "Regressed", "all"], "names are those of the table");
    assert_eq!(findings["Overdue"][0].severity, Some(Severity::Critical));

    let [first, second] = &findings["Regressed"][..] else { panic!("two rules: {findings:?}") };
    assert_eq!(
        (first.enabled, &first.namespaces.include),
        (Some(false), &list(&["staging-*", "ci"]))
    );
    assert_eq!(
        (second.severity, &second.kinds.include),
        (Some(Severity::Info), &list(&["example.io/widgets", "Pod"]))
    );

    let all = &findings["all"][0];
    assert_eq!(
        (&all.namespaces.exclude, &all.kinds.include),
        (&list(&["ab"]), &list(&["example.io/*"]))
    );
}

#[test]
fn allowed_orphans_prevail_over_the_rules_of_the_file() {
    let allow = |text: &str| text.parse::<OrphanAllow>();
    let (findings, _) = parse("Orphan: [{enabled: true, severity: critical}]");
    let mut settings = Settings { findings, ..Settings::default() };

    for text in ["team-*:ConfigMap", "*:apps/*", "team-*:ConfigMap"] {
        allow(text).expect("a rule").apply(&mut settings);
    }

    let rules = &settings.findings["Orphan"];
    assert_eq!(rules.len(), 3, "the same rule twice is one: {rules:?}");

    let is_allowed = |group, kind, namespace| {
        let target = TuningTarget { group, kind, namespace, resource: "" };
        !tuned(&settings, FindingCode::Orphan, &target, []).enabled
    };

    assert!(is_allowed("", "ConfigMap", "team-a") && is_allowed("apps", "Deployment", "other"));
    assert!(is_allowed("apps", "Deployment", ""), "all namespaces include none");
    assert!(!is_allowed("", "ConfigMap", "other") && !is_allowed("", "Secret", "team-a"));
    assert!(!is_allowed("", "ConfigMap", ""));

    for (text, expected) in [
        ("ConfigMap", "expected NAMESPACE:KIND"),
        ("Team_A:ConfigMap", "\"Team_A\" does not name namespaces"),
        ("team-a:", "does not name a kind"),
        (":ConfigMap", "\"\" does not name namespaces"),
        ("a:b:c", "\"b:c\""),
    ] {
        let error = allow(text).expect_err(text);
        assert!(error.contains(expected) && !error.contains('\n'), "{text:?} gave {error:?}");
    }
}

#[test]
fn a_problem_names_the_rule_and_the_mistake() {
    for (yaml, expected) in [
        (
            "Overdeu: {enabled: false}",
            "findings: unknown key \"Overdeu\"; did you mean \"Overdue\"?",
        ),
        (
            "Overdue: {sevrity: info}",
            "findings.Overdue: unknown key \"sevrity\"; did you mean \"severity\"?",
        ),
        (
            "Overdue: {severity: urgent}",
            "findings.Overdue.severity: expected critical, warning or info, not \"urgent\"",
        ),
        ("Overdue: {enabled: maybe}", "findings.Overdue.enabled: expected true or false"),
        ("Overdue: false", "findings.Overdue: expected a rule"),
        ("Overdue: {namespaces: [a]}", "findings.Overdue: a rule needs `enabled` or `severity`"),
        (
            "Overdue: [{enabled: true}, {kinds: [a/b/c/d], enabled: true}]",
            "findings.Overdue[1].kinds: \"a/b/c/d\"",
        ),
        ("Overdue: {kinds: ['a b*'], enabled: true}", "does not name kinds"),
        ("Overdue: {namespaces: [Team_A], enabled: true}", "\"Team_A\" does not name namespaces"),
        ("Overdue: {namespaces: [42], enabled: true}", "put each value in quotes"),
        ("Overdue: {namespaces: [], enabled: true}", "names nothing"),
        ("Overdue: {namespaces: {exlude: [a]}, enabled: true}", "did you mean \"exclude\"?"),
        ("[Overdue]", "findings: expected names of findings"),
    ] {
        let (findings, problems) = parse(yaml);
        let [problem] = &problems[..] else { panic!("{yaml:?} gave {problems:?}") };

        assert!(problem.contains(expected), "{yaml:?} gave {problem:?}");
        assert!(
            findings.values().flatten().all(|rule| rule.enabled == Some(true)),
            "{yaml:?} has no other rule"
        );
    }
}

/// Each detection looks at the rules, and anybody who may write the ConfigMap can multiply them with
/// aliases.
#[test]
fn too_many_rules_or_names_are_refused_together() {
    let rules = |count, names: usize| {
        let names: Vec<String> = (0..names).map(|number| format!("team-{number}-*")).collect();
        let rule = format!("- {{enabled: false, namespaces: [{}]}}\n", names.join(", "));
        parse(&format!("all:\n{}", rule.repeat(count)))
    };

    assert_eq!(rules(200, 5).1, Vec::<String>::new());
    for (count, names) in [(201, 1), (2, 501)] {
        let (findings, problems) = rules(count, names);
        assert!(findings.is_empty() && problems.len() == 1, "{problems:?}");
        assert!(problems[0].contains("the maximum is 200 rules with 1000"), "{problems:?}");
    }
}
