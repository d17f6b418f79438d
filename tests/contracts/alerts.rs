//! The alerts as a set: their thresholds, their recorded series and their runbooks, against
//! `docs/alerts.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use super::*;

const PAGE: &str = "docs/alerts.md";

/// Settings that are no thresholds of findings.
const OTHERS: [&str; 11] = [
    "deadlines",                  // `deadline`, by kind
    "reject_after",               // decides an outcome
    "unsaid_after",               // decides an outcome
    "owner_kind_annotation",      // names
    "owner_namespace_annotation", // names
    "owner_name_annotation",      // names
    "soft_delete_enable",         // names
    "soft_delete_phase",          // names
    "soft_delete_time",           // names
    "soft_delete_finalizer",      // names
    "profile_every",              // an interval
];

/// The default of a setting, as documentation writes it.
fn default_of(settings: &Value, name: &str) -> String {
    let value = &settings[name];
    assert!(!value.is_null(), "there is no setting {name}");

    match value {
        Value::Object(_) => "[limits](tuning.md#thresholds-and-limits)".to_owned(),
        Value::String(text) => {
            Span::parse(text).map_or_else(|_| text.clone(), |span| span.to_string())
        }
        other => other.to_string(),
    }
}

/// The table of findings with their thresholds.
fn findings_table() -> String {
    let settings = serde_json::to_value(Settings::default()).expect("JSON");
    let mut table = String::from(
        "| alert | finding | severity | settings and their defaults |\n|---|---|---|---|\n",
    );
    for info in FINDINGS {
        let alert = alerts_of(info.name, info.severity).pop().map_or_else(
            || "–".to_owned(),
            |name| match info.alert {
                Alert::Page => format!("`{name}`; as a ticket, `LoopwatchFinding`"),
                _ => format!("`{name}`"),
            },
        );
        let thresholds: Vec<String> = info
            .settings
            .iter()
            .map(|name| format!("`{name}` {}", default_of(&settings, name)))
            .collect();

        let thresholds = match (&thresholds[..], info.area.as_str()) {
            ([], "process") => {
                "no setting: the statistics of a [trend](process.md) decide".to_owned()
            }
            ([], _) => "no threshold: it opens when loopwatch sees the problem".to_owned(),
            (some, _) => some.join(", "),
        };

        let name = info.name;
        let severity = match info.alert {
            Alert::Page => {
                format!("critical or warning ([conditions](findings.md#{}))", name.to_lowercase())
            }
            Alert::TicketUnlessMost => {
                format!("warning or critical ([conditions](findings.md#{}))", name.to_lowercase())
            }
            Alert::Ticket | Alert::None => info.severity.as_str().to_owned(),
        };
        let _ = writeln!(
            table,
            "| {alert} | [{name}](runbooks/{name}.md) | {severity} | {thresholds} |"
        );
    }

    table
}

/// The table of recorded thresholds: constants, which must be the first rules of the first file,
/// and therefore also of the `PrometheusRule`.
fn recorded_table() -> String {
    let mut table = String::from(
        "| series | window | default | path in the `PrometheusRule` |\n|---|---|---|---|\n",
    );
    let mut count = 0;
    for rule in rules() {
        let expr = rule["expr"].as_str().expect("an expression");
        count += usize::from(expr.starts_with("vector("));
    }

    let first = yaml(&read("alerts/slo.rules.yaml"))["groups"][0]["rules"].clone();
    for (index, rule) in first.as_array().expect("rules").iter().take(count).enumerate() {
        let expr = rule["expr"].as_str().expect("an expression");
        let number = expr.strip_prefix("vector(").and_then(|rest| rest.strip_suffix(')'));
        let number = number.unwrap_or_else(|| panic!("constants come first: {expr}"));
        let (series, window) =
            (rule["record"].as_str().expect("a record"), rule["labels"]["window"].as_str());
        let window = window.unwrap_or("–");
        let _ = writeln!(
            table,
            "| `{series}` | {window} | {number} | `/spec/groups/0/rules/{index}/expr` |"
        );
    }

    assert!(count >= 10, "{count}");

    table
}

#[test]
fn the_thresholds_of_all_alerts_are_in_one_place() {
    let text = read(PAGE);
    let mut wanted = text.clone();
    for (name, table) in [("findings", findings_table()), ("recorded thresholds", recorded_table())]
    {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
        let (before, rest) = wanted.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no {end}"));
        wanted = format!("{before}{begin}{table}{end}{after}");
    }

    if std::env::var_os("UPDATE").is_some() {
        fs::write(root().join(PAGE), &wanted).expect(PAGE);
    }

    assert!(read(PAGE) == wanted, "{PAGE} is out of date; run with UPDATE=1");

    let mut alerts: BTreeSet<String> =
        rules().iter().filter_map(|rule| Some(rule["alert"].as_str()?.into())).collect();
    alerts.insert("LoopwatchWatchdog".to_owned());
    for alert in alerts {
        let starts = [" |", ";"].map(|after| format!("| `{alert}`{after}"));
        let row = wanted.lines().any(|line| starts.iter().any(|it| line.starts_with(it)));
        assert!(row, "{PAGE} has no row for {alert}");
    }
}

#[test]
fn every_threshold_among_the_settings_belongs_to_a_finding() {
    let all = serde_json::to_value(Settings::default()).expect("JSON");
    let used: BTreeSet<&str> =
        FINDINGS.iter().flat_map(|info| info.settings.iter().copied()).collect();
    let names: BTreeSet<&str> =
        all.as_object().expect("settings").keys().map(String::as_str).collect();

    for setting in &used {
        assert!(
            names.contains(setting),
            "a finding names the setting {setting}, which does not exist"
        );
        assert!(!OTHERS.contains(setting), "{setting}");
    }

    for setting in names {
        // `findings` is absent if it is empty.
        let known = used.contains(setting) || OTHERS.contains(&setting) || setting == "findings";
        assert!(known, "no row in model/src/finding/table.rs names the setting {setting}");
    }
}

/// Numbers in burn alerts are recorded, so that nobody needs to edit an alert to change one.
#[test]
fn no_alert_on_the_error_budget_contains_a_threshold() {
    for rule in rules().iter().filter(|rule| rule["alert"] == "LoopwatchErrorBudgetBurn") {
        let expr = rule["expr"].as_str().expect("an expression");
        let words = expr.split(|c: char| !(c.is_ascii_alphanumeric() || "_:.".contains(c)));
        let numbers: BTreeSet<&str> = words.filter(|word| word.parse::<f64>().is_ok()).collect();

        // The numbers in `1 - objective`, in `> 0` overdue objects, and those that make up for what
        // `increase` loses.
        assert!(
            numbers.is_subset(&BTreeSet::from(["0", "0.7", "1", "2"])),
            "{numbers:?} in {expr}"
        );
    }
}

/// Replaces `name{a,b}` by `namea` and `nameb`.
fn expanded(name: &str) -> Vec<String> {
    match name.split_once('{') {
        Some((stem, rest)) => {
            rest.trim_end_matches('}').split(',').map(|part| format!("{stem}{part}")).collect()
        }
        None => vec![name.to_owned()],
    }
}

#[test]
fn every_recorded_series_is_documented_with_its_labels() {
    let page = read(PAGE);
    let (_, section) = page.split_once("## Recorded series\n").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut documented: BTreeMap<String, String> = BTreeMap::new();

    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        for name in expanded(cells[1].trim_matches('`')) {
            documented.insert(name, cells[2].to_owned());
        }
    }

    let tenants = yaml(&read("alerts/tenants/tenants.rules.yaml"))["groups"][0]["rules"].clone();
    let all: Vec<Value> =
        rules().into_iter().chain(tenants.as_array().cloned().expect("rules")).collect();
    let recorded: BTreeSet<String> =
        all.iter().filter_map(|rule| Some(rule["record"].as_str()?.into())).collect();
    let names: BTreeSet<String> = documented.keys().cloned().collect();

    assert_eq!(names, recorded);

    for (name, labels) in documented {
        let (level, rest) =
            name.split_once(':').unwrap_or_else(|| panic!("{name} is not level:metric:operations"));

        assert_eq!(rest.matches(':').count(), 1, "{name} is not level:metric:operations");

        let level = level.replace("target_namespace", "namespace");
        for word in level.split('_').filter(|word| !["loopwatch", "job"].contains(word)) {
            let label = match word {
                "revision" => "operator_revision",
                "namespace" => "target_namespace",
                word => word,
            };

            assert!(labels.contains(&format!("`{label}`")), "{name}: no label {label} in {labels}");
        }
    }
}

/// What a rule must keep: otherwise, clusters or operators that one Prometheus scrapes would be
/// mixed.
#[test]
fn recorded_series_keep_the_cluster() {
    for rule in rules().iter().filter(|rule| rule["record"].is_string()) {
        let expr = rule["expr"].as_str().expect("an expression");
        let by = expr.split(" by (").skip(1).map(|rest| rest.split(')').next().unwrap_or_default());
        for labels in by {
            assert!(labels.split(", ").any(|label| label == "cluster"), "{rule}");
        }

        let without =
            expr.split("without (").skip(1).map(|rest| rest.split(')').next().unwrap_or_default());
        for labels in without {
            let dropped: Vec<&str> = labels.split(", ").collect();
            assert!(
                !["cluster", "namespace", "job", "operator"]
                    .iter()
                    .any(|label| dropped.contains(label)),
                "{rule}"
            );
        }

        for aggregation in ["sum(", "max(", "min(", "avg(", "count(", "group("] {
            assert!(!expr.contains(aggregation), "{aggregation} drops all labels: {rule}");
        }
    }
}

/// The names and the texts of all runbooks.
fn runbooks() -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join("docs/runbooks")).expect("runbooks");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let named = |path: std::path::PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = read(&path);
        (name, text)
    };

    let all: Vec<_> = paths.map(named).collect();
    assert!(all.len() >= 60, "{}", all.len());
    all
}

/// The blocks of code of a text, each with its language.
fn blocks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'))
}

/// A person reads a runbook at night, so it begins with what is broken for whom, and with the
/// command to run first.
#[test]
fn every_runbook_has_its_first_command_within_ten_lines() {
    const LINES: usize = 10;

    for (name, text) in runbooks() {
        assert!(text.starts_with(&format!("# {name}\n\n")), "{name}: its title");

        let begin: Vec<&str> = text.lines().take(LINES).collect();
        let opens = begin.iter().position(|line| *line == "```sh");
        let opens = opens.unwrap_or_else(|| panic!("{name}: no command within {LINES} lines"));
        let command = begin.get(opens + 1).copied().unwrap_or_default();
        let is_known = ["kubectl ", "loopwatch "].iter().any(|tool| command.starts_with(tool));
        assert!(is_known, "{name}: its first command: {command}");

        let impact = begin[1..opens].join(" ");
        assert!(!impact.contains('#'), "{name}: a heading before the first command");
        assert!(
            impact.split_whitespace().count() >= 8,
            "{name}: what is broken for whom: {impact}"
        );

        let closes = text.find("\n```\n").expect("the end of the command");
        let (first, _) = text.split_at(closes);
        assert_eq!(changing(first), None, "{name}: its first command changes something");
    }
}

#[test]
fn every_runbook_says_what_to_do_when_it_is_over_and_what_to_do_about_false_alarms() {
    for (name, text) in runbooks() {
        let sections: Vec<(&str, &str)> = text
            .split("\n## ")
            .skip(1)
            .map(|section| section.split_once('\n').unwrap_or((section, "")))
            .collect();
        let headings: Vec<&str> = sections.iter().map(|(heading, _)| *heading).collect();

        assert_eq!(
            headings,
            ["Diagnosis", "Mitigation", "Recovery", "False alarms", "Meaning"],
            "{name}"
        );

        for (heading, section) in &sections {
            let words = section.split_whitespace().count();
            assert!(words >= 8, "{name}: {words} words under {heading}");
        }

        let [(_, diagnosis), (_, mitigation), (_, recovery), ..] = sections[..] else {
            panic!("{name}: its sections");
        };
        let rows = diagnosis.lines().filter(|line| line.starts_with("| ")).count();
        assert!(rows >= 3, "{name}: no table from output to cause and action");
        assert!(mitigation.starts_with("\n- "), "{name}: no list of actions");
        assert!(blocks(recovery).next().is_some(), "{name}: nothing shows that it is over");

        let alerts = FINDINGS.iter().all(|info| info.name != name || info.alert != Alert::None);
        assert!(!alerts || blocks(mitigation).next().is_some(), "{name}: no command to act");
    }
}

/// What a command of a text changes in the cluster or in Alertmanager, if any does.
fn changing(text: &str) -> Option<&'static str> {
    const CHANGES: [&str; 15] = [
        "kubectl annotate",
        "kubectl apply",
        "kubectl create",
        "kubectl debug",
        "kubectl delete",
        "kubectl edit",
        "kubectl label",
        "kubectl patch",
        "kubectl replace",
        "kubectl rollout restart",
        "kubectl rollout undo",
        "kubectl scale",
        "kubectl set",
        "silence add",
        "silence expire",
    ];

    CHANGES.into_iter().find(|change| blocks(text).any(|(_, code)| code.contains(change)))
}

/// The items of the lists of a text, each with all that belongs to it.
fn items(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    for line in text.lines() {
        let begins = line.starts_with("- ") || line.starts_with("#");
        let numbered =
            line.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
        if begins || numbered {
            items.push(String::new());
        }

        let item = items.last_mut().expect("an item");
        item.push_str(line);
        item.push('\n');
    }

    items
}

/// The reader must know what a command interrupts or destroys before running it, and how to undo
/// it.
#[test]
fn every_action_of_a_runbook_names_its_danger_and_how_to_undo_it() {
    let mut count = 0;
    for (name, text) in runbooks() {
        for item in items(&text) {
            let changes = changing(&item)
                .or_else(|| blocks(&item).any(|(lang, _)| lang == "yaml").then_some("a setting"));
            let Some(change) = changes else { continue };

            for mark in ["**Danger:**", "**Undo:**"] {
                assert!(item.contains(mark), "{name}: `{change}` without {mark}\n{item}");
            }
            count += 1;
        }
    }

    assert!(count >= 200, "{count}");
}

/// Commands that a person copies under stress must not destroy anything by themselves.
#[test]
fn no_command_of_a_runbook_destroys_anything_when_it_is_copied() {
    const FORBIDDEN: [&str; 7] = [
        "--force",
        "finalizers\":null",
        "finalizers: []",
        "delete --all",
        "--grace-period=0",
        "delete namespace",
        "delete crd",
    ];

    for (name, text) in runbooks() {
        let commands: Vec<&str> = blocks(&text).flat_map(|(_, code)| code.lines()).collect();
        for command in &commands {
            for word in FORBIDDEN {
                assert!(!command.contains(word), "{name}: a command with {word}");
            }

            let destroys =
                command.contains("kubectl delete") || command.contains("\"op\":\"remove\"");
            let tries = command.contains("--dry-run=server");
            assert!(!destroys || tries, "{name}: without --dry-run=server: {command}");
        }

        let words: Vec<&str> = text.split_whitespace().collect();
        let says = words.join(" ").contains("leave out `--dry-run=server`");
        let tries = commands.iter().any(|command| command.contains("--dry-run=server"));
        assert!(!tries || says, "{name}: nothing says that --dry-run=server changes nothing");
    }
}

/// A command that does not exist wastes the reader's time.
#[test]
fn every_loopwatch_command_of_a_runbook_exists() {
    let cli = read("src/cli.rs");
    let (_, commands) = cli.split_once("enum Command {").expect("the commands");
    let (commands, _) = commands.split_once("\n}").expect("their end");
    let is_command = |name: &str| {
        let variant: String =
            name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
        commands.lines().any(|line| {
            line.trim().strip_prefix(&variant).is_some_and(|rest| rest.starts_with(['(', ',']))
        })
    };

    assert!(is_command("what-if") && !is_command("what") && !is_command("destroy"));

    for (name, text) in runbooks() {
        let lines =
            blocks(&text).filter(|(lang, _)| *lang == "sh").flat_map(|(_, code)| code.lines());
        for line in lines.filter_map(|line| line.trim().strip_prefix("loopwatch ")) {
            let command = line.split(' ').next().unwrap_or_default();
            assert!(is_command(command), "{name}: loopwatch {command}");
        }
    }
}

/// The placeholders of a text, in its order.
fn placeholders(text: &str) -> Vec<&str> {
    let parts = text.split('<').skip(1);
    let names = parts.filter_map(|part| Some(part.split_once('>')?.0));
    names.filter(|name| name.starts_with(|c: char| c.is_alphanumeric())).collect()
}

/// Spellings of placeholders that other documents use, and runbooks do not.
const OTHER_SPELLINGS: [&str; 7] =
    ["KIND", "GROUP", "NAME", "NAMESPACE", "POD", "OPERATOR", "DURATION"];

/// `<namespace>` must not be that of the operator in one runbook and that of the object in another.
#[test]
fn every_placeholder_of_a_runbook_has_one_documented_meaning_and_one_spelling() {
    let page = read("docs/alerts.md");
    let (_, table) = page.split_once("## Placeholders in runbooks\n").expect("the section");
    let rows = table.split("\n## ").next().unwrap_or_default().lines();
    let cells = rows.filter_map(|row| row.strip_prefix("| `<")?.split_once("` | "));
    let known: BTreeSet<String> = cells
        .flat_map(|(names, _)| {
            names.split("`, `<").map(|name| name.trim_end_matches('>').to_owned())
        })
        .collect();

    let mut used = BTreeSet::new();
    for (runbook, text) in runbooks() {
        for name in placeholders(&text) {
            assert!(known.contains(name), "{runbook}: <{name}> has no meaning");
            used.insert(name.to_owned());
        }

        for line in text.lines() {
            let of_operator = ["<pod>", "<deployment>", "<account>", "<container>"];
            let is_about_operator = of_operator.iter().any(|name| line.contains(name));
            let accepts = !line.contains("-n <namespace>") || line.contains("auth can-i");
            assert!(!is_about_operator || accepts, "{runbook}: {line}");
        }

        for word in blocks(&text).flat_map(|(_, code)| code.split([' ', '/', '=', '\n'])) {
            assert!(
                !OTHER_SPELLINGS.contains(&word),
                "{runbook}: {word} instead of a <placeholder>"
            );
        }
    }

    assert_eq!(used, known, "the table has no other rows");
}

/// The labels of the rule for tenants, with these values.
fn of_tenant<'a>(namespace: &'a str, team: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let rules = yaml(&read("alerts/tenants/tenants.rules.yaml"))["groups"][0]["rules"].clone();
    let alert = rules
        .as_array()
        .expect("rules")
        .iter()
        .find(|rule| rule["alert"].is_string())
        .cloned()
        .expect("an alert");

    assert_eq!(
        (&alert["alert"], &alert["labels"]["audience"]),
        (&"LoopwatchTenantFinding".into(), &"tenant".into())
    );

    let mut labels = vec![
        ("alertname", "LoopwatchTenantFinding"),
        ("audience", "tenant"),
        ("severity", "critical"),
    ];

    labels.push(("namespace", namespace));
    labels.extend(team.map(|team| ("team", team)));
    labels
}

#[test]
fn the_example_of_alertmanager_routes_alerts_for_tenants_to_their_team_and_to_nobody_else() {
    let config = root().join("deploy/examples/prometheus/alertmanager.yml");
    assert_eq!(receivers(&config, &of_tenant("team-a", Some("storage"))), "team-storage");

    for other in [Some("network"), None] {
        assert_eq!(
            receivers(&config, &of_tenant("team-a", other)),
            "none",
            "the pager gets its own alert"
        );
    }

    // Near miss: the alert for the people who run the operator, about an object of that team.
    assert_eq!(receivers(&config, &[("severity", "critical"), ("team", "storage")]), "pager");
}

/// The Prometheus Operator adds the route of an `AlertmanagerConfig` in front of the others, with a
/// matcher for its namespace.
#[test]
fn an_alertmanager_config_in_the_namespace_of_a_tenant_receives_the_alerts_for_it() {
    let tenant = yaml(&read("deploy/examples/prometheus/tenant.yaml"));
    let namespace = tenant["metadata"]["namespace"].as_str().expect("a namespace");
    let matcher = &tenant["spec"]["route"]["matchers"][0];
    let matcher =
        ["name", "matchType", "value"].map(|part| matcher[part].as_str().expect("a matcher"));
    let route = format!(
        "  routes:\n    - receiver: tenant\n      continue: true\n      matchers: ['{}{}\"{}\"', 'namespace=\"{namespace}\"']\n",
        matcher[0], matcher[1], matcher[2]
    );

    let shipped = read("deploy/examples/prometheus/alertmanager.yml");
    let text = shipped
        .replacen("  routes:\n", &route, 1)
        .replace("receivers:\n", "receivers:\n  - name: tenant\n");
    let config = std::env::temp_dir().join(format!("loopwatch-tenant-{}.yml", std::process::id()));

    fs::write(&config, text).expect("written");
    assert_eq!(receivers(&config, &of_tenant(namespace, None)), "tenant,none");
    assert_eq!(receivers(&config, &of_tenant(namespace, Some("storage"))), "tenant,team-storage");
    assert_eq!(receivers(&config, &of_tenant("team-b", None)), "none", "another tenant");

    // Near miss: an alert about the operator that runs in this namespace is not for the tenant.
    let own = [
        ("alertname", "LoopwatchOperatorDown"),
        ("namespace", namespace),
        ("severity", "critical"),
    ];

    assert_eq!(receivers(&config, &own), "pager");

    let _ = fs::remove_file(config);
}

#[test]
fn the_alert_on_the_error_budget_gives_way_to_the_pages_that_inhibit_it() {
    let (example, rules) =
        (read("deploy/examples/prometheus/alertmanager.yml"), read("alerts/slo.rules.yaml"));
    let lists =
        example.split("finding=~\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default());
    for (list, about) in lists.zip(["OperatorDown", "ReconcileFailing"]) {
        assert!(list.contains(about) && rules.contains(&format!("finding=~\"{list}\"")), "{list}");
    }
}

#[test]
fn the_example_of_alertmanager_names_findings_that_exist() {
    let example = read("deploy/examples/prometheus/alertmanager.yml");
    let lists =
        example.split("finding=~\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default());
    let named: Vec<&str> = lists.flat_map(|list| list.split('|')).collect();

    assert!(!named.is_empty());

    for name in named {
        assert!(
            FINDINGS.iter().any(|info| info.name == name && info.area.as_str() == "operator"),
            "{name}"
        );
    }
}
