//! `loopwatch what-if`: predicts what a deletion would take with it, and what would stop it.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Context as _;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use loopwatch_model::cascade::{Cascade, Graph, NodeId, Operator, Request};
use loopwatch_model::observation::{LeftOut, ObjectAddress, Scope};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Timestamp;

use super::connection::ConnectionFlags;
use super::file::{find_in_file, for_each_observation, no_namespace};
use super::object::{self, ObjectArgs};
use super::{FINDINGS, SUCCESS, check};
use crate::app;
use crate::config::{JudgeFlags, one_of, operator_name};
use crate::export::presentation::report::{Forecast, OutputFormat, Style};
use crate::export::view::{BlindSpot, ObjectQuestion};
use crate::sources::api_server::{ApiResources, Cluster, OperatorName, WantedNamespaces};
use crate::sources::offline::ObservedObjects;
use crate::sources::survey::{
    Installation, ListProgress, OwnershipGraph, find_object, kind_name, kind_named,
};

/// Flags of `what-if`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct WhatIfArgs {
    #[command(subcommand)]
    action: Action,
    /// Output format: table, json, yaml or markdown
    #[arg(long, short, value_name = "FORMAT", default_value = "table", value_parser = super::check::format, global = true)]
    output: OutputFormat,
    #[command(flatten)]
    connection: ConnectionFlags,
}

const EXAMPLES: &str = "\
Examples:
  loopwatch what-if delete widget web -n team-a         What else is deleted, and what blocks it?
  loopwatch what-if delete deploy/web --cascade=orphan  What stays behind without an owner?
  loopwatch what-if delete namespace team-a             Which finalizers keep it in deletion?
  loopwatch what-if uninstall ops/widget-operator       Which finalizers would no controller remove?
  loopwatch what-if delete widget web --from dump.json  Without a cluster, from a dump or a recording

what-if sends only get and list requests, and deletes nothing. It follows the rules of the
Kubernetes garbage collector:
  - It deletes a dependent when the last owner is gone. An owner in another namespace counts as gone.
  - A finalizer keeps its object in deletion until a controller removes it. After a background
    deletion, the dependents of this object stay until the object is gone.
  - background deletes the object first, and foreground deletes its blocking dependents first.
    orphan keeps the dependents and removes their references.
The report names the kinds that the account may not list. Its numbers are then lower limits.";

#[derive(Debug, Subcommand)]
enum Action {
    /// Predict the deletion of one object: `kubectl delete KIND NAME`
    Delete(DeleteArgs),
    /// Predict the removal of an operator: its workload, its service account, and the roles of this
    /// account. It needs a cluster, because dumps and recordings show no rules of roles
    Uninstall(UninstallArgs),
}

#[derive(Args, Debug)]
struct DeleteArgs {
    #[command(flatten)]
    object: ObjectArgs,
    /// Namespace of the object [default: that of the context; with --from, any]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Predict from a dump (a file or folder from `kubectl get -o json|yaml`) or a recording, instead
    /// of a cluster. The deletion may also take objects of kinds that the file lacks
    #[arg(long, value_name = "FILE|DIR")]
    from: Option<PathBuf>,
    /// Time in the recording at which to delete the object [default: its end]
    #[arg(long, value_name = "RFC3339", requires = "from", value_parser = check::instant)]
    at: Option<Timestamp>,
    /// How to treat dependents: background, foreground or orphan
    #[arg(long, value_name = "POLICY", default_value = "background", value_parser = cascade)]
    cascade: Cascade,
}

#[derive(Args, Debug)]
struct UninstallArgs {
    /// The Deployment or StatefulSet of the operator
    #[arg(value_name = "NAMESPACE/DEPLOYMENT", value_parser = operator_name)]
    operator: OperatorName,
    /// Also delete the definitions of the kinds whose status the operator may write, and with them
    /// all of their objects
    #[arg(long)]
    definitions: bool,
}

/// Everything that the report needs.
struct Predicted {
    graph: Graph,
    request: Request,
    operator: Option<String>,
    shared: Vec<LeftOut>,
    left_out: Vec<LeftOut>,
}

pub(super) fn what_if(args: WhatIfArgs) -> anyhow::Result<u8> {
    let runtime = app::runtime()?;
    let predicted = match &args.action {
        Action::Delete(delete) => {
            let Some((kind, name)) = delete.object.kind_and_name() else {
                return Ok(object::refuse_without_name("what-if delete"));
            };
            let predicted = match &delete.from {
                Some(path) => runtime.block_on(read_file(path, delete, kind, name)),
                None => runtime.block_on(read_delete(&args, delete, kind, name)),
            };
            predicted.map_err(|error| delete.object.with_advice(error))?
        }
        Action::Uninstall(uninstall) => runtime.block_on(read_uninstall(&args, uninstall))?,
    };

    let Predicted { graph, request, operator, shared, left_out } = &predicted;
    let prediction = graph.predict(request);
    let forecast = Forecast {
        graph,
        request,
        prediction: &prediction,
        operator: operator.as_deref(),
        shared,
        left_out,
    };

    super::print(&match args.output {
        format if format.is_for_programs() => format.convert(&forecast.json())?,
        format => forecast.text(Style::of_stdout(format)),
    })?;

    Ok(if forecast.is_clear() { SUCCESS } else { FINDINGS })
}

async fn connect(args: &WhatIfArgs) -> anyhow::Result<(Cluster, ApiResources)> {
    let cluster = app::connect(&args.connection.access(None)).await?;
    let resources = ApiResources::read(&cluster)
        .await
        .context("cannot read the kinds that the API server serves")?;

    Ok((cluster, resources))
}

async fn read_delete(
    what_if: &WhatIfArgs,
    args: &DeleteArgs,
    kind: &str,
    name: &str,
) -> anyhow::Result<Predicted> {
    let (cluster, resources) = connect(what_if).await?;
    let kind = kind_named(&resources, kind)?;
    let namespace = match (&args.namespace, kind.namespaced) {
        (Some(namespace), true) => namespace.clone(),
        (None, true) => cluster.namespace().to_owned(),
        (_, false) => String::new(),
    };
    let object = ObjectAddress {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        namespace: namespace.clone(),
        name: name.to_owned(),
    };

    let found = match find_object(&cluster, kind, &object).await {
        Ok(found) => found,
        Err(failure) if failure.status == Some(404) => {
            let within = if namespace.is_empty() {
                String::new()
            } else {
                format!(" in the namespace {namespace}")
            };

            anyhow::bail!("there is no {} {name}{within}", kind_name(kind));
        }
        Err(failure) => anyhow::bail!("cannot read {} {name}: {failure}", kind_name(kind)),
    };

    let scope = if namespace.is_empty() {
        Scope::AllNamespaces
    } else {
        Scope::Namespace(namespace.clone())
    };
    let mut read =
        OwnershipGraph::read(&cluster, &resources, &scope, cluster.namespace(), show).await;

    show_nothing();
    read.ensure(&object, Some(found));

    let cascade = args.cascade;
    Ok(predicted(read, &[object], |targets| Request { targets, cascade, operator: None }))
}

/// Reads the objects of a dump or a recording.
async fn read_file(
    path: &Path,
    args: &DeleteArgs,
    kind: &str,
    name: &str,
) -> anyhow::Result<Predicted> {
    let judge = JudgeFlags::default();
    let (model, input) = check::judge_file(
        path,
        args.at,
        &judge,
        &WantedNamespaces::default(),
        Settings::default(),
    )?;
    let model = Mutex::new(model);
    let question = ObjectQuestion {
        group: String::new(),
        kind: kind.to_owned(),
        namespace: args.namespace.clone(),
        name: name.to_owned(),
    };
    let mut objects = ObservedObjects::default();
    for_each_observation(path, args.at, |observation| objects.see(observation))?;

    let (object, mut read) = if question.is_about_namespace() {
        let object = namespace_in_file(path, &objects, name)?;
        (object, objects.graph_with_namespace(name))
    } else {
        (find_in_file(path, &model, &question).await?, objects.graph())
    };
    let unread = input.unread().into_iter(); // the ages of specs do not matter here
    read.left_out.extend(unread.map(|BlindSpot { what, why }| LeftOut { what, why }));

    let cascade = args.cascade;
    Ok(predicted(read, &[object], |targets| Request { targets, cascade, operator: None }))
}

/// A namespace of a dump or a recording, which need not have the namespace itself.
fn namespace_in_file(
    path: &Path,
    objects: &ObservedObjects,
    name: &str,
) -> anyhow::Result<ObjectAddress> {
    let namespaces = objects.namespaces();
    if !namespaces.contains(name) {
        anyhow::bail!(no_namespace(path, &namespaces, name));
    }

    let (kind, name) = ("Namespace".to_owned(), name.to_owned());
    Ok(ObjectAddress { group: String::new(), kind, namespace: String::new(), name })
}

async fn read_uninstall(what_if: &WhatIfArgs, args: &UninstallArgs) -> anyhow::Result<Predicted> {
    let (cluster, resources) = connect(what_if).await?;
    let OperatorName { namespace, name } = &args.operator;
    let installation =
        match Installation::read(&cluster, &resources, &args.operator, args.definitions).await {
            Ok(installation) => installation,
            Err(failure) if failure.status == Some(404) => {
                anyhow::bail!(
                    "there is no Deployment or StatefulSet {name} in the namespace {namespace}"
                )
            }
            Err(failure) => anyhow::bail!("cannot read the operator {namespace}/{name}: {failure}"),
        };

    let mut read =
        OwnershipGraph::read(&cluster, &resources, &Scope::AllNamespaces, namespace, show).await;
    show_nothing();
    installation.objects.iter().for_each(|object| read.ensure(object, None));

    let (primaries, definitions) = (installation.primaries, args.definitions);
    let operator = Some(Operator { primaries, definitions });
    let request = |targets| Request { targets, cascade: Cascade::Background, operator };
    let mut predicted = predicted(read, &installation.objects, request);

    predicted.operator = Some(format!("{namespace}/{name}"));
    predicted.shared = installation.shared;
    predicted.left_out.extend(installation.left_out);
    predicted.left_out.sort();
    predicted.left_out.dedup();

    Ok(predicted)
}

fn predicted(
    read: OwnershipGraph,
    objects: &[ObjectAddress],
    request: impl FnOnce(Vec<NodeId>) -> Request,
) -> Predicted {
    let OwnershipGraph { nodes, kinds, silent, left_out, .. } = read;
    let graph = Graph::new(nodes, kinds, silent);
    let find = |ObjectAddress { group, kind, namespace, name }: &ObjectAddress| {
        graph.find(group, kind, namespace, name)
    };
    let targets = objects.iter().filter_map(find).collect();

    Predicted { request: request(targets), graph, operator: None, shared: Vec::new(), left_out }
}

/// Shows the progress on a terminal.
pub(super) fn show(progress: ListProgress) {
    if std::io::stderr().is_terminal() {
        let ListProgress { listed, kinds, objects } = progress;
        super::progress_line(&format!("{listed} of {kinds} kinds listed, {objects} objects"));
    }
}

/// Removes the progress line.
pub(super) fn show_nothing() {
    if std::io::stderr().is_terminal() {
        super::progress_line("");
    }
}

fn cascade(text: &str) -> Result<Cascade, String> {
    let all = [Cascade::Background, Cascade::Foreground, Cascade::Orphan];
    one_of(text, &all.map(|cascade| (cascade.as_str(), cascade)))
}
