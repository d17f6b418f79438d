//! `loopwatch check`: one report on a cluster, a dump or a recording.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use loopwatch_model::finding::Severity;
use loopwatch_model::model::Model;
use loopwatch_model::observation::{Answer, Observation, Probe};
use loopwatch_model::settings::{ALL_FINDINGS, FindingRule, Settings};
use loopwatch_model::snapshot::ObjectState;
use loopwatch_model::time::{Span, Timestamp};

use super::file::no_namespace;
use super::play::{self, Played, Shown};
use crate::app::{self, Outlets, SharedModel};
use crate::config::{ClusterFlags, JudgeFlags, misspelt_kinds, one_of};
use crate::export::presentation::report::{FailOn, OutputFormat, junit};
use crate::export::view::{DumpInput, Input};
use crate::lock::lock;
use crate::recording::{Recording, RecordingError};
use crate::sources::api_server::{Selection, WantedNamespaces};
use crate::sources::decoding::{DecodeOptions, Extra};
use crate::sources::feed::{Clock, Feed, SystemClock};
use crate::sources::offline::Dump;
use crate::sources::supervisor::{Handle, LeaseSelection, Supervisor};
use crate::telemetry::GaugeShare;

/// Limit on rounds of questions about a dump: an answer may lead to another question.
const ANSWER_ROUNDS: i64 = 100;
/// Time to wait for urgent lookups.
const READS_WITHIN: Duration = Duration::from_secs(10);

/// Flags of `check`.
#[derive(Args, Debug)]
pub(super) struct CheckArgs {
    /// Check a dump (a file or folder from `kubectl get -o json|yaml`) or the end of a recording,
    /// instead of a cluster
    #[arg(long, alias = "snapshot", value_name = "FILE|DIR")]
    from: Option<PathBuf>,
    /// Time to report on [default: the newest time in the dump, or the end of the recording]
    #[arg(long, alias = "until", value_name = "RFC3339", requires = "from", value_parser = instant)]
    at: Option<Timestamp>,
    /// List all kinds, and all objects with their states
    #[arg(long)]
    all: bool,
    /// Output format: table, json, yaml or markdown
    #[arg(long, short, value_name = "FORMAT", default_value = "table", value_parser = format)]
    output: OutputFormat,
    /// Also write the findings to this file as JUnit XML, for CI systems; a finding below --fail-on
    /// appears as a skipped test
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Exit with 1 if there is a finding of this severity or higher: critical, warning or info. With
    /// none, findings never change the exit code
    #[arg(long, value_name = "SEVERITY", default_value = "warning", value_parser = severity)]
    fail_on: LowestSeverity,
    /// Also exit with 1 if an object is in one of these states, with or without a finding: for example
    /// failed,overdue
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state, long_help = states_help())]
    fail_on_state: Vec<ObjectState>,
    /// Time after which to print the report even if some lists are incomplete
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = Span::parse, help_heading = "Cluster")]
    timeout: Span,
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
    #[command(flatten)]
    judge: JudgeFlags,
}

/// The lowest severity of a finding that makes the command exit with 1; `None` if none does.
#[derive(Clone, Copy, Debug)]
struct LowestSeverity(Option<Severity>);

pub(super) fn check(args: CheckArgs, mut settings: Settings) -> anyhow::Result<u8> {
    args.judge.apply(&mut settings);
    if args.cluster.namespace.is_empty() {
        enable_lints(&mut settings);
    }

    let (model, input) = match &args.from {
        Some(path) => {
            let namespaces = args.cluster.wanted_namespaces();
            judge_file(path, args.at, &args.judge, &namespaces, settings)?
        }
        None => {
            // The permissions of an operator's account show which kinds the operator owns.
            // Administrators want to see all kinds.
            let select = match args.cluster.access().operator {
                Some(_) => Selection::OperatorPermissions,
                None => Selection::EveryKindWithStatus,
            };
            let looked = judge_cluster(&args.cluster, args.timeout, select, settings);
            app::runtime()?.block_on(looked)?
        }
    };

    let shown =
        Shown { model: &model, input: &input, timeline: None, all: args.all, offers_all: true };
    let snapshot = shown.print(args.output)?;
    for note in misspelt_kinds(model.settings(), &snapshot.kinds) {
        super::print_error(&note);
    }

    let fail_on = FailOn { severity: args.fail_on.0, states: args.fail_on_state };
    if let Some(file) = &args.junit {
        let tests = junit(&snapshot, &input, &fail_on)?;
        std::fs::write(file, tests).with_context(|| format!("cannot write {}", file.display()))?;
    }

    Ok(play::exit_code(&snapshot, &input, &fail_on))
}

/// Enables the findings about weaknesses of programs, unless a rule of the user decides. Those who look at
/// single namespaces want to know about their objects.
fn enable_lints(settings: &mut Settings) {
    let rule = FindingRule { enabled: Some(true), ..Default::default() };
    settings.findings.entry(ALL_FINDINGS.to_owned()).or_default().push(rule);
}

/// Judges a dump or a recording.
pub(super) fn judge_file(
    path: &Path,
    at: Option<Timestamp>,
    judge: &JudgeFlags,
    namespaces: &WantedNamespaces,
    settings: Settings,
) -> anyhow::Result<(Model, Input)> {
    anyhow::ensure!(
        path != Path::new("-"),
        "loopwatch reads no dump from standard input; write it to a file, and name the file"
    );

    if path.is_file() {
        match Recording::open(path) {
            Ok(recording) => {
                anyhow::ensure!(
                    *namespaces == WantedNamespaces::default(),
                    "{} is a recording, which --namespace and --exclude-namespace cannot divide; record only the \
                     namespaces that you need, or filter the JSON of this report",
                    path.display()
                );
                return judge_recording(path, recording, at, judge, settings);
            }
            Err(error @ RecordingError::TooNew { .. }) => return Err(error.into()),
            Err(_) => {} // a dump, or a file that `Dump::read` rejects
        }
    }

    judge_dump(path, at, namespaces, settings)
}

/// Checks that the dump has objects in the namespaces. Prints a note about each that it lacks.
///
/// # Errors
/// If it has none of those that the user wants to see: a report on nothing would say that all is
/// well.
fn expect_namespaces(wanted: &WantedNamespaces, path: &Path, dump: &Dump) -> anyhow::Result<()> {
    let known = dump.namespaces();
    let is_absent = |name: &&String| !known.contains(name.as_str());

    let absent: Vec<&String> = wanted.namespaces.iter().filter(is_absent).collect();
    if !absent.is_empty() && absent.len() == wanted.namespaces.len() {
        anyhow::bail!(no_namespace(path, &known, absent[0]));
    }

    for name in absent.into_iter().chain(wanted.excluded.iter().filter(is_absent)) {
        super::print_error(&no_namespace(path, &known, name));
    }
    Ok(())
}

fn judge_dump(
    path: &Path,
    at: Option<Timestamp>,
    namespaces: &WantedNamespaces,
    settings: Settings,
) -> anyhow::Result<(Model, Input)> {
    let annotations = settings.annotations();
    let dump = Dump::read(
        path,
        DecodeOptions { key: &app::hash_key(), annotations: &annotations, extra: Extra::None },
    )?;
    let now = SystemClock::new().wall();

    // Users often check a dump long after taking it. That time must not count towards deadlines.
    let newest = dump.newest(now);
    if let (Some(at), Some(newest)) =
        (at, newest.filter(|newest| at.is_some_and(|at| at < *newest)))
    {
        super::print_error(&format!(
            "{} contains times up to {newest}, so this report on {at} also shows what happened later",
            path.display()
        ));
    }

    let at = at.or(newest).unwrap_or(now).min(now);
    expect_namespaces(namespaces, path, &dump)?;
    dump.problems.iter().for_each(|problem| super::print_error(problem));

    // Time does not pass in a dump.
    let (dangling_after, owner_missing_after, orphan_after) = (Span::ZERO, Span::ZERO, Span::ZERO);
    let mut model = Model::for_one_look(Settings {
        dangling_after,
        owner_missing_after,
        orphan_after,
        ..settings
    });
    let found = dump.index();
    let input = Input { dump: Some(described(&dump)), ..Input::default() };

    for observation in dump.observations(&found) {
        let namespace = match &observation {
            Observation::Listed { object, .. } => Some(&object.key.namespace),
            Observation::NamespaceSeen(view) if view.deleted.is_some() => Some(&view.name),
            _ => None,
        };
        if namespace.is_none_or(|namespace| namespace.is_empty() || namespaces.allows(namespace)) {
            model.apply(at, observation);
        }
    }

    model.apply(at, Observation::Tick);
    answer_probes(&mut model, at, |probe| found.answer(probe));
    Ok((model, input))
}

/// Answers the model's questions until it has no more.
fn answer_probes(model: &mut Model, at: Timestamp, answer: impl Fn(&Probe) -> Answer) {
    for round in 1..=ANSWER_ROUNDS {
        model.apply(at.after(Span(round)), Observation::Tick); // handles what waits for answers
        model.look_up_all_references();

        let probes = model.all_probes();
        if probes.is_empty() {
            break;
        }

        for probe in probes {
            let answer = answer(&probe);
            model.apply(at, Observation::Answered { probe, answer });
        }
    }
}

fn described(dump: &Dump) -> DumpInput {
    let without = dump.objects().filter(|object| object.managers.is_empty()).count();
    let (objects, without_managed_fields) = (dump.objects().count() as u64, without as u64);
    DumpInput {
        objects,
        without_managed_fields,
        older_copies: dump.older_copies,
        problems: dump.problems.clone(),
        may_hide_objects: dump.is_broken,
    }
}

/// Judges the end of a recording, or the time that `--at` gives.
fn judge_recording(
    path: &Path,
    recording: Recording,
    at: Option<Timestamp>,
    judge: &JudgeFlags,
    settings: Settings,
) -> anyhow::Result<(Model, Input)> {
    let file = path.display().to_string();
    let settings = play::settings(&recording, judge, settings);
    let Played { model, input, .. } = play::play(&file, recording, settings, Some(judge), at)?;
    let Some(last) = input.recording.as_ref().and_then(|recording| recording.shows) else {
        anyhow::bail!("the recording {file} contains no observations");
    };
    let shown = at.map_or_else(|| format!("its end ({last})"), |at| at.to_string());

    super::print_error(&format!(
        "{file} is a recording; this report shows {shown}. To see its timeline, run `loopwatch replay {file}`"
    ));
    Ok((model, input))
}

/// Judges one look at a cluster.
pub(super) async fn judge_cluster(
    flags: &ClusterFlags,
    timeout: Span,
    select: Selection,
    settings: Settings,
) -> anyhow::Result<(Model, Input)> {
    let cluster = app::connect(&flags.access()).await?;
    let mut options = flags.source_options(app::hash_key(), &settings);
    options.lease = LeaseSelection::Off;
    options.discovery.select = select;
    options.discovery.once = true;

    let model: SharedModel = Arc::new(Mutex::new(Model::for_one_look(settings)));
    let (feed, observations) = app::channel(&cluster);
    let clock = cluster.clock().clone();
    let mut handle = Supervisor::start(cluster, options, feed.clone());

    // The run is too short for audits.
    let pump = tokio::spawn(app::pump(
        observations,
        model.clone(),
        None,
        GaugeShare::default(),
        handle.reader(),
        Outlets::default(),
    ));

    let within = Duration::from_millis(timeout.0.unsigned_abs());
    let lists = tokio::time::timeout(within, first_lists(&mut handle)).await;
    let lists_timed_out = lists.is_err();
    if lists_timed_out {
        super::print_error(&format!(
            "some lists were incomplete after {timeout}, so this report is incomplete, too; see --timeout and --watch"
        ));
    } else if tokio::time::timeout(READS_WITHIN, urgent_reads(&model, &feed)).await.is_err() {
        let left = lock(&model).urgent_reads();
        super::print_error(&format!(
            "{left} reads had no answer after {} s, so this report says nothing about the objects in question",
            READS_WITHIN.as_secs()
        ));
    }

    drop(feed);
    handle.shutdown().await;
    pump.await?;
    clock.ticks().for_each(|(at, tick)| lock(&model).apply(at, tick));

    let model =
        Arc::into_inner(model).ok_or_else(|| anyhow::anyhow!("the model is still in use"))?;
    let model = model.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok((model, Input { lists_timed_out, ..Input::default() }))
}

/// Waits for the first lists of all watches. Shows the progress on a terminal.
async fn first_lists(handle: &mut Handle) {
    let sync = handle.initial_sync().clone();
    let terminal = std::io::stderr().is_terminal();
    let done = sync.done();
    tokio::pin!(done);

    loop {
        tokio::select! {
            _ = &mut done => break,
            reason = handle.ended() => {
                super::print_error(&format!("a bug in loopwatch stopped the lists, so this report is incomplete: {reason}"));
                break;
            }
            () = tokio::time::sleep(Duration::from_millis(200)) => if terminal {
                let progress = sync.progress();
                let (listed, watches) = (progress.listed + progress.failed, progress.watches);
                super::progress_line(&format!(
                    "{listed} of {watches} lists complete, {} objects", progress.objects
                ));
            },
        }
    }

    if terminal {
        super::progress_line("");
    }
}

/// Waits until no urgent lookup is left. Shows the progress on a terminal.
async fn urgent_reads(model: &SharedModel, feed: &Feed) {
    let terminal = std::io::stderr().is_terminal();
    loop {
        // The pump applies at once what it takes from the channel. If the channel is empty, the
        // model knows everything.
        let left = lock(model).urgent_reads();
        if feed.is_empty() && left == 0 {
            break;
        }

        if terminal {
            super::progress_line(&format!("{left} reads of objects in doubt left"));
        }

        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    if terminal {
        super::progress_line("");
    }
}

pub(super) fn instant(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| {
        format!("expected an RFC 3339 time, for example 2026-01-31T12:00:00Z, not {text:?}")
    })
}

fn severity(text: &str) -> Result<LowestSeverity, String> {
    let severities = [Severity::Critical, Severity::Warning, Severity::Info];
    let [critical, warning, info] =
        severities.map(|severity| (severity.as_str(), LowestSeverity(Some(severity))));
    one_of(text, &[critical, warning, info, ("none", LowestSeverity(None))])
}

/// The help of `--fail-on-state`, with the meaning of each state.
fn states_help() -> String {
    let states = ObjectState::ALL.iter();
    let lines = states.map(|state| format!("\n  {:<12} {}", state.as_str(), state.meaning()));

    format!(
        "Also exit with 1 if an object is in one of these states, with or without a finding: for example \
         failed,overdue{}",
        lines.collect::<String>()
    )
}

fn state(text: &str) -> Result<ObjectState, String> {
    let states: Vec<_> = ObjectState::ALL.iter().map(|state| (state.as_str(), *state)).collect();
    one_of(text, &states)
}

pub(super) fn format(text: &str) -> Result<OutputFormat, String> {
    let all = [
        ("table", OutputFormat::Table),
        ("json", OutputFormat::Json),
        ("yaml", OutputFormat::Yaml),
        ("markdown", OutputFormat::Markdown),
    ];
    one_of(text, &all)
}
