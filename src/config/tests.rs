use super::*;

#[test]
fn each_flag_has_a_variable_and_commands_keep_their_own_flags() {
    let command = Command::new("loopwatch").subcommand(keys().arg(Arg::new("once").long("once")));
    let command = with_variables(command, &keys(), &["listen".to_owned()]);
    let run = command.get_subcommands().next().expect("the subcommand");

    for arg in run.get_arguments() {
        let long = arg.get_long().expect("each flag has a long name");
        let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned());
        let expected = (!["once", "listen"].contains(&long)).then(|| super::variable(long));

        assert_eq!(variable, expected, "{long}");
    }
}

#[test]
fn only_named_secrets_are_read_unless_the_user_says_otherwise() {
    let options = |arguments: &[&str]| {
        let matches = keys().try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        let flags = <Flags as clap::FromArgMatches>::from_arg_matches(&matches)
            .map_err(|error| error.to_string())?;

        Ok::<_, String>(
            flags.cluster.source_options(HashKey([0; 16]), &Settings::default()).discovery.secrets,
        )
    };

    assert_eq!(options(&[]), Ok(SecretAccess::Named));
    assert_eq!(options(&["--secrets=metadata"]), Ok(SecretAccess::Metadata));
    assert_eq!(options(&["--secrets=off"]), Ok(SecretAccess::Off));
    assert!(
        options(&["--secrets=yes"])
            .is_err_and(|error| error.contains("expected named, metadata or off"))
    );
}

#[test]
fn the_team_label_is_a_key_and_none_by_default() {
    let options = |arguments: &[&str]| {
        let matches = keys().try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        let flags = <Flags as clap::FromArgMatches>::from_arg_matches(&matches)
            .map_err(|error| error.to_string())?;

        Ok::<_, String>(
            flags.cluster.source_options(HashKey([0; 16]), &Settings::default()).team_label,
        )
    };

    assert_eq!(options(&[]), Ok(None));
    assert_eq!(options(&["--team-label=example.io/team"]), Ok(Some("example.io/team".to_owned())));

    for wrong in ["--team-label=", "--team-label=team=red", "--team-label=a/b/c"] {
        assert!(
            options(&[wrong]).is_err_and(|error| error.contains("expected the key of a label")),
            "{wrong}"
        );
    }
}

#[test]
fn scrapes_are_at_least_a_second_apart() {
    let options = |arguments: &[&str]| {
        let matches = keys().try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        let flags = <Flags as clap::FromArgMatches>::from_arg_matches(&matches)
            .map_err(|error| error.to_string())?;

        Ok::<_, String>(flags.cluster.source_options(HashKey([0; 16]), &Settings::default()).scrape)
    };

    assert_eq!(options(&[]), Ok(ScrapeOptions::default()));

    let set = options(&["--scrape=off", "--scrape-interval=1m", "--operator=a/b"]).expect("valid");

    assert_eq!(
        (set.target, set.interval, set.standalone),
        (ScrapeTarget::Off, Duration::from_secs(60), true)
    );

    for (arguments, expected) in [
        ("--scrape-interval=500ms", "at least 1 s"),
        ("--scrape-interval=soon", "is not a duration"),
        ("--scrape=somewhere", "expected http:// or https://"),
    ] {
        let error = options(&[arguments]).expect_err(arguments);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn variables_are_the_names_of_the_flags() {
    assert_eq!(variable("max-object-series"), "LOOPWATCH_MAX_OBJECT_SERIES");
}
