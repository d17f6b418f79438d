//! An operator as a user could have written it with kube-rs. It misbehaves on request.

mod faults;
mod http;
mod metrics;
mod reconciler;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use faults::Faults;
use futures::StreamExt as _;
use kube::runtime::Controller;
use kube::runtime::controller::Config;
use kube::runtime::watcher;
use kube::{Api, Client};
use metrics::Metrics;
use reconciler::{Context, Gizmo, error_policy, reconcile};

const FLAGS: [&str; 5] = ["--namespace", "--metrics-listen", "--fault-listen", "--ready-after", "--concurrency"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flags = flags()?;
    let flag = |name: &str| flags.get(name).map(String::as_str);
    let client = Client::try_default().await?;
    let ready_after = Duration::from_secs_f64(flag("--ready-after").unwrap_or("1").parse()?);
    let (metrics, faults) = (Arc::new(Metrics::default()), Arc::new(Faults::default()));

    if let Some(address) = flag("--metrics-listen") {
        let metrics = Arc::clone(&metrics);
        http::serve(address, move |_, path| match path {
            "/metrics" => (200, metrics::CONTENT_TYPE, metrics.text()),
            _ => (404, "text/plain", String::new()),
        })?;
    }

    if let Some(address) = flag("--fault-listen") {
        faults::serve(&faults, address)?;
    }

    let api: Api<Gizmo> = match flag("--namespace") {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    // Without the flag, there is no limit, as by default.
    let concurrency = flag("--concurrency").unwrap_or("0").parse()?;
    let context = Arc::new(Context { client, metrics, faults, ready_after });

    Controller::new(api, watcher::Config::default())
        .with_config(Config::default().concurrency(concurrency))
        .run(reconcile, error_policy, context)
        .for_each(|result| {
            if let Err(error) = result {
                eprintln!("gizmo-operator: {error}");
            }
            std::future::ready(())
        })
        .await;

    Ok(())
}

fn flags() -> Result<HashMap<String, String>, String> {
    let pairs = std::env::args().skip(1).map(|argument| match argument.split_once('=') {
        Some((name, value)) if FLAGS.contains(&name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{argument} is not one of {FLAGS:?} with a value")),
    });

    pairs.collect()
}
