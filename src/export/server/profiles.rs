//! Serves the operator's profiles for download.

use std::io;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::exporter::Exporter;
use crate::sources::operator::{KeptProfile, ProfileStore};

pub(super) async fn list(State(exporter): State<Arc<Exporter>>) -> Response {
    // Without a cluster there are none.
    let Some(store) = exporter.profiles() else { return listed(Value::Null, &[]) };
    match blocking(move || Ok((store.dir().map(|dir| dir.display().to_string()), store.list()?)))
        .await
    {
        Ok((dir, profiles)) => listed(json!(dir), &profiles),
        Err(error) => unreadable(&error),
    }
}

pub(super) async fn download(
    State(exporter): State<Arc<Exporter>>,
    name: Result<Path<String>, PathRejection>,
) -> Response {
    let Ok(Path(name)) = name else { return absent() }; // not UTF-8
    let (store, file) = (exporter.profiles(), name.clone());
    let content =
        blocking(move || store.as_ref().map_or(Ok(None), |store: &ProfileStore| store.read(&file)))
            .await;
    match content {
        Ok(Some(content)) => {
            // No character in the name of a profile has a meaning in a header.
            let disposition = format!("attachment; filename=\"{name}\"");
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream"),
                (header::CONTENT_DISPOSITION, &disposition),
            ];

            (headers, content).into_response()
        }
        Ok(None) => absent(),
        Err(error) => unreadable(&error),
    }
}

fn absent() -> Response {
    let error = json!({ "error": "no such profile; see /api/v1/profiles" });
    (StatusCode::NOT_FOUND, Json(error)).into_response()
}

fn listed(dir: Value, profiles: &[KeptProfile]) -> Response {
    let profile = |profile: &KeptProfile| {
        let KeptProfile { name, kind, taken, bytes } = profile;
        json!({ "name": name, "kind": kind.as_str(), "taken_at": taken, "bytes": bytes, "path": format!("/api/v1/profiles/{name}") })
    };
    let profiles: Vec<Value> = profiles.iter().map(profile).collect();

    Json(json!({ "directory": dir, "profiles": profiles })).into_response()
}

fn unreadable(error: &io::Error) -> Response {
    let error = format!(
        "cannot read the profiles in {error}; check the directory of --profile-dir and its permissions"
    );
    (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "error": error }))).into_response()
}

/// Runs the work on another thread, because a disk may be slow.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
