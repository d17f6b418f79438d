use super::*;
use loopwatch_model::time::Span;

#[test]
fn keys_are_the_names_of_the_flags() {
    let (file, problems) = File::parse(
        "deadline: [5m, example.io/Widget=30m]\nwatch: example.io/Widget\nmax-watches: 7\nsettings:\n  settle: 3s\n  limits: {objects: 10}\n",
        Author::User,
    );

    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(file.values["watch"], ["example.io/Widget"]);
    assert_eq!(file.values["max-watches"], ["7"]);
    assert_eq!((file.settings.settle, file.settings.limits.objects), (Span::secs(3), 10));
    assert_eq!((file.settings.deadline, file.settings.deadlines.len()), (Span::mins(5), 1));

    for empty in ["", "\n", "# nothing\n", "---\n"] {
        assert!(File::parse(empty, Author::User).1.is_empty(), "{empty:?}");
    }
}

#[test]
fn rules_about_findings_are_a_key_of_their_own() {
    for text in [
        "findings: {Overdue: {severity: critical}}\nsettings: {settle: 3s}\n",
        "settings: {settle: 3s}\nfindings: {Overdue: {severity: critical}}\n",
    ] {
        let (file, problems) = File::parse(text, Author::User);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            (file.settings.settle, file.settings.findings.len()),
            (Span::secs(3), 1),
            "{text}"
        );
    }

    let (_, problems) = File::parse(
        "findings: {Overdue: {enabled: false}}\nsettings: {findings: {}}\n",
        Author::User,
    );

    assert!(problems.len() == 1 && problems[0].contains("settings: unknown key"), "{problems:?}");
}

#[test]
fn a_problem_names_the_mistake_and_the_correction() {
    for (text, expected) in [
        ("deadlin: 5m", "did you mean \"deadline\"?"),
        ("settings: {settel: 5s}", "settings: unknown key \"settel\"; did you mean \"settle\"?"),
        ("settings: {limits: {object: 5}}", "did you mean \"objects\"?"),
        ("settings: {settle: soon}", "\"soon\" is not a duration"),
        ("settings: {settle: 5}", "expected"),
        ("settings: [settle]", "expected keys and values"),
        ("max_watches: many", "max_watches: expected a whole number"),
        ("listen: 9917", "listen: expected a string"),
        ("namespace: [x, y]", "namespace: expected a string; put the value in quotes"),
        ("listen: nowhere", "listen: expected ADDRESS:PORT"),
        ("listen: ['127.0.0.1:1', '127.0.0.1:2']", "cannot be used multiple times"),
        ("deadline: 0s", "deadline: expected more than 0s"),
        ("deadline: example.io/Widget=0m", "deadline: expected more than 0s"),
        ("settings: {deadline: 0s}", "settings.deadline: expected more than 0s, not 0s"),
        (
            "settings: {deadlines: {example.io/Widget: 0s}}",
            "settings.deadlines: expected more than 0s, not 0s",
        ),
        ("settings: {page_percent: 500}", "settings.page_percent: expected 1 to 100, not 500"),
        ("settings: {failing_percent: 0}", "settings.failing_percent: expected 1 to 100, not 0"),
        (
            "settings: {regressed_after: 0s}",
            "settings.regressed_after: expected more than 0s, not 0s",
        ),
        ("settings: {regressed_after: -5m}", "is not a duration"),
        ("settings: {status_reverts: 9}", "settings.status_reverts: expected 1 to 8, not 9"),
        ("settings: {memory_levels: [5, 0]}", "settings.memory_levels: expected at least 1, not 0"),
        ("settings: {limits: {objects: 0}}", "settings.limits.objects: expected at least 1, not 0"),
        ("namespace: [Team-a]", "namespace: expected the name of a namespace"),
        ("exclude_namespace: [team-]", "exclude_namespace: expected the name of a namespace"),
        ("exclude_namespace: []", "exclude_namespace: names nothing"),
        ("orphan_allow: []", "orphan_allow: names nothing"),
        ("orphan_allow: ['team-:Secret']", "orphan_allow: \"team-\" does not name namespaces"),
        ("findings: {Overdue: []}", "findings.Overdue: has no rule"),
        (
            "findings: {Overdue: {namespaces: {include: [], exclude: [a]}, enabled: false}}",
            "findings.Overdue.namespaces: include is empty",
        ),
        ("deadline: [5m, soon]", "deadline: \"soon\" is not a duration"),
        ("deadline: widgets.example.io=5m", "deadline: expected GROUP/KIND"),
        ("namespace: ''", "namespace: expected the name of a namespace"),
        ("context: ''", "context: a value is required"),
        ("expose_ui: perhaps", "expose_ui: expected true or false"),
        ("kubeconfig: ''", "kubeconfig: a value is required"),
        ("config: other.yaml", "unknown key \"config\""),
        ("findings: {Overdeu: {enabled: false}}", "did you mean \"Overdue\"?"),
        ("zebra: 1", "valid keys are kubeconfig, context"),
        ("- a\n- b", "expected keys and values"),
        ("a: [1", "invalid YAML"),
        ("{{{{", "invalid YAML"),
        ("watch: {a: b}", "expected a string or a list"),
    ] {
        let (file, problems) = File::parse(text, Author::User);
        let [message] = &problems[..] else { panic!("{text:?} gave {problems:?}") };

        assert!(message.contains(expected), "{text:?} gave {message:?}");
        assert!(!message.contains('\n'), "{message:?} is one line");
        assert!(
            file.values.is_empty() && file.settings == Settings::default(),
            "{text:?} has no valid part"
        );
    }
}

#[test]
fn zero_and_large_values_are_valid_where_they_have_a_meaning() {
    let text = "settings: {scrape_expected_within: 0s, settle: 0s, learn_after: 0, memory_jump_percent: 300, \
                memory_levels: [], soft_delete_time: 0s, limits: {object_series: 0}}\n";
    let (file, problems) = File::parse(text, Author::User);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!((file.settings.memory_jump_percent, &*file.settings.soft_delete_time), (300, "0s"));
}

#[test]
fn the_valid_part_of_a_file_applies() {
    let text = "listen: nowhere\nmax_watches: 7\nsettings: {settle: soon, learn_after: 3, limits: {objects: 5, phases: -1}}\n";
    let (file, problems) = File::parse(text, Author::User);

    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(
        problems.iter().any(|problem| problem.starts_with("settings.limits.phases: ")),
        "{problems:?}"
    );
    assert_eq!(file.values.keys().collect::<Vec<_>>(), ["max-watches"]);
    assert_eq!((file.settings.learn_after, file.settings.limits.objects), (3, 5));
    assert_eq!(file.settings.settle, Settings::default().settle);
}

#[test]
fn every_flag_is_a_key_in_both_spellings() {
    for arg in keys().get_arguments().filter(|arg| arg.get_long() != Some(CONFIG)) {
        let name = arg.get_long().expect("each flag has a long name");
        for key in [name.to_owned(), name.replace('-', "_")] {
            let (_, problems) = File::parse(&format!("{key}:\n"), Author::User);
            assert!(problems.is_empty(), "{problems:?}");
        }
    }
}

#[test]
fn a_file_of_the_cluster_cannot_decide_where_loopwatch_connects() {
    let allowed = "findings: {Overdue: {enabled: false}}\nsettings: {settle: 3s}\ndeadline: 5m\n";
    let kubeconfig = "kubeconfig: /etc/loopwatch/attacker\n";
    let (file, problems) = File::parse(&format!("{allowed}{kubeconfig}"), Author::Cluster);

    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert!(problem.starts_with("kubeconfig: not allowed in a file in a Pod"), "{problem}");
    assert!(problem.contains("(--kubeconfig) or variables (LOOPWATCH_KUBECONFIG)"), "{problem}");
    assert!(!problem.contains("attacker"), "{problem}");

    assert_eq!(file.values.keys().collect::<Vec<_>>(), ["deadline"]);
    assert_eq!((file.settings.settle, file.settings.deadline), (Span::secs(3), Span::mins(5)));
    assert_eq!(File::parse(kubeconfig, Author::User).1, Vec::<String>::new());
}

#[test]
fn each_flag_that_connects_listens_sends_or_writes_belongs_to_the_spec_of_the_pod() {
    let command = keys();
    let all = command.get_arguments().filter_map(Arg::get_long).filter(|name| *name != CONFIG);
    let refused: Vec<&str> = all
        .filter(|name| !File::parse(&format!("{name}:\n"), Author::Cluster).1.is_empty())
        .collect();

    assert_eq!(
        refused,
        [
            "kubeconfig",
            "context",
            "namespace",
            "watch",
            "operator",
            "all-operators",
            "secrets",
            "scrape",
            "pid",
            "listen",
            "expose-ui",
            "export-protected-metrics",
            "external-url",
            "grafana-url",
            "runbook-url",
            "ui-port",
            "web-config-file",
            "web-auth",
            "notify",
            "notify-findings",
            "notify-token-file",
            "notify-ca-file",
            "alertmanager",
            "alertmanager-token-file",
            "alertmanager-ca-file",
            "alert-label",
            "otlp",
            "otlp-token-file",
            "otlp-ca-file",
            "pprof",
            "profile-dir",
            "profile-wait",
            "state-dir",
        ]
    );
}

#[test]
fn the_examples_of_the_documentation_are_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tuning.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let examples: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect();

    assert!(examples.len() >= 4, "{}", examples.len());

    for example in examples {
        let (file, problems) = File::parse(example, Author::Cluster);
        assert!(
            problems.is_empty() && file.settings != Settings::default(),
            "{example}: {problems:?}"
        );
    }
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.yaml");
    std::fs::write(&path, "#".repeat(MAX_BYTES as usize + 1)).expect("written");

    let (_, problems) = File::read(&path, Author::User);
    assert!(problems[0].contains("large.yaml: the file has 65537 bytes"), "{problems:?}");
}

#[test]
fn a_pipe_a_device_and_a_folder_are_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");

    assert!(made.success());

    for path in [&pipe, folder.path(), Path::new("/dev/zero")] {
        let (_, problems) = File::read(path, Author::User);
        assert_eq!(problems, [format!("{}: not a regular file", path.display())]);
    }
}

#[test]
fn many_problems_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("many.yaml");
    std::fs::write(&path, (0..1000).map(|number| format!("k{number}: 1\n")).collect::<String>())
        .expect("written");

    let (_, problems) = File::read(&path, Author::User);
    assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    assert!(problems[MAX_PROBLEMS].ends_with("and 980 more problems"), "{problems:?}");
}

#[test]
fn aliases_do_not_fill_the_memory() {
    let text = format!(
        "a: &a [{}]\nb: &b [{}]\nnamespace: [*b, *b, *b]\n",
        "x,".repeat(200),
        "*a,".repeat(200)
    );
    let (_, problems) = File::parse(&text, Author::User);

    assert!(problems.len() == 1 && problems[0].contains("budget"), "{problems:?}");
}

#[test]
fn one_key_in_two_spellings_is_a_problem() {
    let (file, problems) = File::parse("max-watches: 5\nmax_watches: 6\n", Author::User);
    assert!(problems.len() == 1 && problems[0].contains("twice"), "{problems:?}");
    assert_eq!(file.values["max-watches"], ["5"]);
}
