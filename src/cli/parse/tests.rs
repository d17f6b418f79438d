use super::super::Command;
use super::*;

/// Parses arguments as outside a Pod, wherever the tests run.
fn parse(arguments: &[OsString]) -> Result<Parsed, clap::Error> {
    parse_with(arguments, Path::new(config::DEFAULT_FILE), Author::User)
}

fn arguments(line: &str) -> Vec<OsString> {
    line.split(' ').map(Into::into).collect()
}

fn config(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, text).expect("written");

    let argument = format!("--config={}", path.display());
    (folder, argument)
}

#[test]
fn a_usage_error_is_one_line_that_names_the_problem() {
    for (line, expected) in [
        ("loopwatch check --snapsot x", "--snapshot"),
        ("loopwatch chek", "check"),
        ("loopwatch check --watch apps/v1", "does not name a kind"),
        ("loopwatch check --operator nonsense", "NAMESPACE/DEPLOYMENT"),
        ("loopwatch check --deadline soon", "not a duration"),
        ("loopwatch check --from dump.yaml --watch Widget", "--watch"),
        ("loopwatch rights --from recording.jsonl --watch Widget", "--watch"),
        ("loopwatch check --deadline 0s", "expected more than 0s"),
        ("loopwatch check --context run --no-such-flag", "--no-such-flag"),
        ("loopwatch check -o xml", "invalid value 'xml' for '--output <FORMAT>': expected table"),
    ] {
        let arguments = arguments(line);
        let error = one_line(&parse(&arguments).expect_err(line), &arguments);

        assert!(error.contains(expected) && !error.contains('\n'), "{line:?} gave {error:?}");
        assert!(!error.contains("LOOPWATCH_"), "no variable is set: {line:?} gave {error:?}");
    }
}

#[test]
fn only_the_help_of_run_says_what_holds_for_run() {
    let help = |command: &str| {
        let asked = arguments(&format!("loopwatch {command} --help"));
        parse(&asked).expect_err("the help").to_string()
    };
    let run = help("run");
    assert!(run.contains("[::]:9917") && run.contains("/etc/loopwatch/config.yaml"), "{run}");

    for command in ["check", "explain", "record", "replay", "demo", "rights"] {
        let text = help(command);
        for of_run in ["`run`", "for run", "[::]:9917", "/etc/loopwatch"] {
            assert!(!text.contains(of_run), "{command}: {of_run} in {text}");
        }
    }
}

#[test]
fn at_and_until_are_the_same_flag() {
    for line in [
        "check --from dump.yaml --until 2026-01-31T12:00:00Z",
        "explain widget web --from dump.yaml --until 2026-01-31T12:00:00Z",
        "rights --from recording.jsonl --until 2026-01-31T12:00:00Z",
        "replay recording.jsonl --at 2026-01-31T12:00:00Z",
    ] {
        assert!(parse(&arguments(&format!("loopwatch {line}"))).is_ok(), "{line}");
    }
}

#[test]
fn an_invalid_url_is_not_quoted_because_any_part_of_it_may_be_secret() {
    for url in [
        "user:S3CRET@host:9093",
        "https:/user:S3CRET@host",
        "https//user:S3CRET@host",
        "https://user:S3CRET/x@host",
        "https://S3CRET:pass?word@host",
        "https://user:x'S3CRET@host",
        "ftp://host/'S3CRET",
    ] {
        for flag in ["alertmanager", "notify", "otlp"] {
            let arguments = arguments(&format!("loopwatch run --{flag} {url}"));
            let Parsed { problems, .. } = parse(&arguments).expect("run always starts");

            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(
                problems[0].contains(&format!("--{flag}")) && !problems[0].contains("S3CRET"),
                "{problems:?}"
            );
        }
    }
}

#[test]
fn the_value_of_an_unknown_flag_is_not_quoted_because_it_may_be_secret() {
    let nearest = "--alertmanager-token-file";
    for (given, named) in [
        (vec!["--alertmanager-token=S3CRET"], nearest),
        (vec!["--alertmanager-token", "S3CRET"], nearest),
        (vec!["--alertmanager-token S3CRET"], "--alertmanager-token"),
        (vec!["--alertmanager-token", "two words S3CRET", "--expose-ui"], nearest),
        (vec!["-t", "S3CRET"], "-t"),
        (vec!["-tS3CRET"], "-t"),
        (vec!["-t=S3CRET"], "-t"),
    ] {
        let line = |command: &str| {
            let line = ["loopwatch", command].into_iter().chain(given.iter().copied());
            line.map(OsString::from).collect::<Vec<_>>()
        };
        let Parsed { problems, .. } = parse(&line("run")).expect("run always starts");
        let shown = problems.join("; ");

        assert!(shown.contains(named) && !shown.contains("S3CRET"), "{given:?}: {shown}");

        let error = one_line(&parse(&line("check")).expect_err("an unknown flag"), &line("check"));
        assert!(error.contains("'-") && !error.contains("S3CRET"), "{given:?}: {error}");
    }

    let Parsed { problems, .. } =
        parse(&arguments("loopwatch run --expose-ui word")).expect("run always starts");

    assert!(problems[0].contains("'word'"), "the value of no flag: {problems:?}");
}

#[test]
fn addresses_of_metrics_beyond_the_limit_are_a_problem() {
    for (count, problem) in
        [(50, None), (53, Some("--scrape: 53 addresses; loopwatch reads only the first 50"))]
    {
        let urls: Vec<String> =
            (1..=count).map(|port| format!("http://127.0.0.1:{port}")).collect();
        let line = format!("run --scrape {}", urls.join(","));
        let Parsed { problems, .. } =
            parse(&arguments(&format!("loopwatch {line}"))).expect("valid");

        assert_eq!(problems, Vec::from_iter(problem.map(str::to_owned)));
    }
}

#[test]
fn speed_is_a_number() {
    for line in ["demo --speed NaN", "replay x --serve --speed nan"] {
        let arguments = arguments(&format!("loopwatch {line}"));
        let error = one_line(&parse(&arguments).expect_err(line), &arguments);

        assert!(error.contains("expected a positive number"), "{error}");
    }

    assert!(parse(&arguments("loopwatch demo --speed 1e3")).is_ok());
}

#[test]
fn run_starts_without_its_invalid_flags() {
    let line = "loopwatch run --no-such-flag --watch apps/v1 --listen nowhere --expose-ui";
    let Parsed { cli, problems, .. } = parse(&arguments(line)).expect("run always starts");

    assert!(matches!(cli.command, Command::Run(_)));
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(parse(&arguments("loopwatch run --strict --no-such-flag")).is_err());

    for line in [
        "run -w apps/v1",
        "run -wapps/v1",
        "run extra",
        "run --deadline",
        "run --listen --expose-ui",
    ] {
        let Parsed { cli, problems, .. } =
            parse(&arguments(&format!("loopwatch {line}"))).expect(line);

        assert_eq!(problems.len(), 1, "{line}: {problems:?}");

        let Command::Run(args) = cli.command else { panic!("{line}") };
        assert_eq!(args.flags.serve.expose_ui, line.contains("expose-ui"), "{line}");
    }

    for line in [
        "run --max-watches 7 run",
        "--bogus run --max-watches 7",
        "--context x run --max-watches 7",
    ] {
        let Parsed { cli, problems, .. } =
            parse(&arguments(&format!("loopwatch {line}"))).expect(line);

        assert_eq!(problems.len(), 1, "{line}: {problems:?}");

        let Command::Run(args) = cli.command else { panic!("{line}") };
        assert_eq!(args.flags.cluster.max_watches, 7, "{line}");
    }

    for line in ["run --deadline -5m", "run -zw a/B"] {
        let Parsed { cli, problems, .. } =
            parse(&arguments(&format!("loopwatch {line}"))).expect(line);

        assert!(matches!(cli.command, Command::Run(_)));
        assert_eq!(problems.len(), 2, "{line}: {problems:?}");
    }

    assert!(
        parse(&arguments("loopwatch chekc --context run")).is_err(),
        "another command stays an error"
    );
}

/// An invalid part that may be about access must not open the port to everybody.
#[test]
fn the_port_stays_closed_if_an_invalid_part_may_be_about_access() {
    let (_misspelt, misspelt) = config("web_auht: kubernetes\n");
    let (_invalid, invalid) = config("listen: 127.0.0.1:99999\n");
    let (_broken, broken) = config("web_auth: [\n");
    let (_threshold, threshold) = config("deadline: soon\n");
    for (line, author, is_unclear) in [
        ("--web-auth token", Author::User, true),
        ("--web-auth=token", Author::Cluster, true),
        ("--web-auth", Author::User, true),
        ("--web-auth=none --web-auth=kubernetes", Author::User, true),
        ("--web-config-fiel web.yml", Author::User, true),
        ("--tls", Author::User, true),
        ("web.yml", Author::User, true),
        ("--listen 127.0.0.1:99999", Author::User, true),
        ("--listen 127.0.0.1 :9917", Author::User, true),
        (&misspelt, Author::User, true),
        (&invalid, Author::User, true),
        (&broken, Author::User, true),
        ("--config=/no/such/file", Author::User, true),
        ("--bogus 1", Author::User, true),
        ("-web-auth", Author::User, true),
        ("-web-auth=kubernetes", Author::User, true),
        ("-web.config.file=/etc/web.yml", Author::Cluster, true),
        ("-network-policy=strict", Author::User, true),
        ("-w=a.io/A -n team-a", Author::User, false),
        ("--dedline 4m", Author::User, false),
        ("--dedline=4m", Author::User, false),
        (&misspelt, Author::Cluster, false),
        (&broken, Author::Cluster, false),
        (&threshold, Author::User, false),
        ("--deadline soon", Author::User, false),
        ("--watch apps/v1", Author::User, false),
        ("--ui-port 0", Author::User, false),
        ("--web-auth=kubernetes --listen 127.0.0.1:1", Author::User, false),
    ] {
        let arguments = arguments(&format!("loopwatch run {line}"));
        let default = Path::new(config::DEFAULT_FILE);
        let Parsed { cli, problems, .. } = parse_with(&arguments, default, author).expect(line);
        let Command::Run(args) = cli.command else { panic!("{line}") };
        let says_so = problems.iter().any(|problem| problem.contains("only health checks"));

        assert_eq!(args.flags.web.is_unclear, is_unclear, "{line}, {author:?}: {problems:?}");
        assert_eq!(says_so, is_unclear, "{line}, {author:?}: {problems:?}");
    }
}

#[test]
fn run_starts_with_arguments_that_are_no_flags() {
    use std::os::unix::ffi::OsStringExt as _;

    let text = |text: &str| OsString::from(text);
    let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    for (given, problem) in [
        (vec![text("-debug")], "-d"),
        (vec![text("-xw"), text("a.io/A")], "-x"),
        (vec![text("--watch a.io/A")], "--watch a.io/A"),
        (vec![text("extra word")], "extra word"),
        (vec![text("--context"), bytes(b"\xff")], "UTF-8"),
        (vec![bytes(b"--context=\xff")], "UTF-8"),
        (vec![bytes(b"-n\xff")], "UTF-8"),
        (vec![bytes(b"\xff")], "\u{fffd}"),
        (vec![bytes(b"--\xff")], "\u{fffd}"),
    ] {
        let mut line = arguments("loopwatch run");
        line.extend(given);
        line.push("--expose-ui".into());

        let Parsed { cli, problems, .. } = parse(&line).expect("run always starts");
        assert!(problems[0].contains(problem), "{line:?}: {problems:?}");

        let Command::Run(args) = cli.command else { panic!("{line:?}") };
        assert!(args.flags.serve.expose_ui, "{line:?}");
    }
}

#[test]
fn an_empty_value_is_a_problem() {
    for line in ["run --log=", "run --namespace=", "run --context=", "run --namespace=a,"] {
        let Parsed { problems, .. } = parse(&arguments(&format!("loopwatch {line}"))).expect(line);
        assert_eq!(problems.len(), 1, "{line}: {problems:?}");
    }
}

#[test]
fn flags_override_the_file_and_the_file_overrides_defaults() {
    let text = "max_watches: 7\nlisten: 127.0.0.1:1\nexpose-ui: true\nwatch: a.io/A, a.io/B\nnamespace: [x, z]\nstate_dir: /state\n\
                object_series: all\nmax_object_series: 9\ncontext: file\n";
    let (_folder, config) = config(text);
    let line = format!("loopwatch run {config} --max-watches 8 -n z");
    let Parsed { cli, settings, problems, .. } = parse(&arguments(&line)).expect("valid");
    let Command::Run(args) = cli.command else { panic!("run") };

    assert_eq!(problems, Vec::<String>::new());

    let (cluster, serve) = (&args.flags.cluster, &args.flags.serve);
    assert_eq!(
        (cluster.max_watches, &cluster.namespace[..], cluster.watch.len()),
        (8, &["z".to_owned()][..], 2)
    );
    assert_eq!((serve.listen.map(|listen| listen.port()), serve.expose_ui), (Some(1), true));
    assert_eq!(args.flags.state_dir, Some("/state".into()));
    assert_eq!(serve.object_series, crate::export::metrics::ObjectSeries::All);

    assert_eq!(settings.limits.object_series, 9);
    assert_eq!(cluster.context.as_deref(), Some("file"));

    let Parsed { cli, .. } = parse(&arguments("loopwatch run")).expect("valid");
    let Command::Run(args) = cli.command else { panic!("run") };

    assert_eq!(args.flags.cluster.max_watches, crate::sources::api_server::DEFAULT_MAX_WATCHES);
}

#[test]
fn deadlines_of_file_and_flags_are_merged() {
    let (_folder, config) =
        config("deadline: [5m, a.io/A=1m, a.io/B=2m]\nsettings: {deadline: 3m}\n");
    let line = format!("loopwatch run {config} --deadline a.io/B=3m");
    let Parsed { cli, mut settings, .. } = parse(&arguments(&line)).expect("valid");
    let Command::Run(args) = cli.command else { panic!("run") };

    args.flags.apply(&mut settings);
    let shown: Vec<String> =
        settings.deadlines.iter().map(|(kind, span)| format!("{kind} {span}")).collect();

    assert_eq!(
        (settings.deadline.to_string().as_str(), &shown[..]),
        ("5m", &["a.io/A 1m".to_owned(), "a.io/B 3m".to_owned()][..])
    );
}

#[test]
fn run_reads_the_default_file_if_it_exists_and_the_user_names_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let default = folder.path().join("config.yaml");
    let parsed = |line: &str| parse_with(&arguments(line), &default, Author::User).expect("valid");
    let missing = parsed("loopwatch run");

    assert_eq!((missing.file.as_deref(), missing.problems.len()), (Some(default.as_path()), 0));

    std::fs::write(&default, "settings: {settle: 3s}\n").expect("written");
    assert_eq!(parsed("loopwatch run").settings.settle.to_string(), "3s");
    assert_eq!(parsed("loopwatch check").settings, Settings::default(), "run only");

    let (_folder, named) = config("settings: {settle: 4s}\n");
    assert_eq!(parsed(&format!("loopwatch run {named}")).settings.settle.to_string(), "4s");
    assert!(parsed("loopwatch run --config /does/not/exist").problems[0].contains("cannot read"));

    std::fs::write(&default, "settings: {settle: soon}\n").expect("written");
    assert!(!parsed("loopwatch run").file_is_valid);
    assert!(
        parsed(&format!("loopwatch run {named} --no-such-flag")).file_is_valid,
        "only the flag is invalid"
    );
}

#[test]
fn a_file_may_set_flags_that_the_command_does_not_take() {
    let (_folder, config) = config("kubeconfig: /k\noperator: a/b\nlisten: 127.0.0.1:1\n");
    let line = format!("loopwatch check {config} --from dump.yaml");
    let Parsed { problems, .. } =
        parse(&arguments(&line)).expect("a dump conflicts with flags, not with the file");

    assert_eq!(problems, Vec::<String>::new());
}

/// Each flag of the section "Cluster" is refused beside `--from`, but for the two that divide a dump.
#[test]
fn a_flag_without_effect_on_a_file_is_refused_and_a_key_is_noted() {
    let cluster = "--kubeconfig=k --context=c --team-label=t --watch=Widget --operator=a/b \
                   --max-watches=3 --children=none --secrets=off --scrape=off \
                   --scrape-interval=1m --pid=1 --timeout=1m";
    for command in ["check", "rights"] {
        for flag in cluster.split_whitespace() {
            let line = arguments(&format!("loopwatch {command} --from dump.yaml {flag}"));
            let error = one_line(&parse(&line).expect_err(flag), &line);
            let name = flag.split('=').next().expect("a name");
            assert!(error.contains("cannot be used with") && error.contains(name), "{error}");
        }

        let line = format!("loopwatch {command} --from dump.yaml -n a --exclude-namespace b");
        assert!(parse(&arguments(&line)).is_ok(), "{line}");
    }

    for command in ["explain Widget web", "what-if delete Widget web"] {
        let line = arguments(&format!("loopwatch {command} --from dump.yaml --context c"));
        assert!(parse(&line).is_err(), "{command}");
    }

    let (_folder, config) = config("team_label: t\nnamespace: [a]\ndeadline: 5m\n");
    let line = format!("loopwatch check {config} --from dump.yaml");
    let Parsed { note, problems, cli, .. } = parse(&arguments(&line)).expect("valid");
    let (note, Command::Check(args)) = (note.expect("a note"), &cli.command) else {
        panic!("{cli:?}")
    };

    assert_eq!(problems, Vec::<String>::new());
    assert!(note.contains("the key team_label of the file"), "{note}");
    assert!(note.contains("namespace") && !note.contains("deadline"), "{note}");
    assert!(args.cluster.namespace.is_empty() && args.cluster.team_label.is_none());
}

#[test]
fn a_file_without_its_flag_is_named_with_it() {
    for line in ["check dump.json", "rights run.jsonl.gz", "explain widget web dump.yaml"] {
        let line = arguments(&format!("loopwatch {line}"));
        let error = one_line(&parse(&line).expect_err("no such argument"), &line);
        let file = line.last().expect("an argument").to_string_lossy();
        assert!(error.contains(&format!("use --from {file}")), "{error}");
    }

    let line = arguments("loopwatch explain widget web another");
    let error = one_line(&parse(&line).expect_err("no such argument"), &line);
    assert!(!error.contains("--from"), "{error}");
}
