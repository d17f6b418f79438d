//! Profiles of the operator.

use super::*;

/// An exporter with one profile, and the name of its file.
fn with_profiles(options: ExportOptions) -> (Arc<Exporter>, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("profiles");
    let name = "2026-01-31T12-00-00.123Z-heap-operator-7f9c.pb.gz".to_owned();
    std::fs::create_dir(&dir).expect("created");
    std::fs::write(dir.join(&name), "the profile").expect("written");
    std::fs::write(dir.join("other"), "another file").expect("written");
    std::fs::write(folder.path().join(&name), "outside").expect("written");

    let exporter = exporter(sample(), options);
    exporter.set_profiles(crate::sources::profiles::ProfileStore::new(Some(&dir)));
    (exporter, name, folder)
}

#[tokio::test]
async fn profiles_are_listed_and_downloaded() {
    let (exporter, name, _folder) = with_profiles(ExportOptions::default());
    let (status, body) = get(&exporter, "/api/v1/profiles").await;
    let listed: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let path = format!("/api/v1/profiles/{name}");
    let expected = serde_json::json!([
        { "name": name, "kind": "heap", "taken_at": "2026-01-31T12:00:00.123Z", "bytes": 11, "path": path }
    ]);

    assert_eq!((status.as_u16(), &listed["profiles"]), (200, &expected));
    assert!(listed["directory"].as_str().is_some_and(|dir| dir.ends_with("/profiles")), "{body}");
    assert_eq!(get(&exporter, &path).await, (StatusCode::OK, "the profile".to_owned()));

    for outside in
        ["other", "..", "../other", "%2e%2e", ".%2E%2F", "..%2Fprofiles%2Fother", "", "%00"]
            .map(str::to_owned)
            .into_iter()
            .chain([
                format!("..%2F{name}"),
                format!("%2e%2e/{name}"),
                format!("x/../{name}"),
                name.replace("heap", "cpu"),
            ])
    {
        let (status, body) = get(&exporter, &format!("/api/v1/profiles/{outside}")).await;
        assert_eq!(status, 404, "{outside}: {body}");
    }

    let (_, body) = get(&exporter, "/metrics").await;
    assert!(
        body.contains("path=\"/api/v1/profiles/{name}\"") && !body.contains("operator-7f9c.pb.gz"),
        "{body}"
    );
}

#[tokio::test]
async fn profiles_stay_on_loopback_even_if_the_page_is_exposed() {
    let (exporter, name, _folder) =
        with_profiles(ExportOptions { expose_ui: true, ..ExportOptions::default() });
    for path in ["/api/v1/profiles".to_owned(), format!("/api/v1/profiles/{name}")] {
        for (peer, host, expected) in [
            ("10.1.2.3:5000", "localhost", 403),
            ("127.0.0.1:5000", "evil.example", 403),
            ("127.0.0.1:5000", "localhost evil.example", 403),
            ("127.0.0.6:5000", "localhost", 403),
            ("127.0.0.1:5000", "localhost:9917", 200),
        ] {
            let (status, body) = request_from(&exporter, peer, host, &path).await;
            assert_eq!(status.as_u16(), expected, "{peer} {host} {path}: {body}");
        }
    }

    let (_, body) = request_from(&exporter, "10.1.2.3:5000", "localhost", "/api/v1/profiles").await;
    assert!(body.contains("kubectl port-forward") && !body.contains("--expose-ui"), "{body}");
}

#[tokio::test]
async fn an_unreadable_directory_is_named() {
    let (exporter, name, folder) = with_profiles(ExportOptions::default());
    let file = folder.path().join(&name);
    exporter.set_profiles(crate::sources::profiles::ProfileStore::new(Some(&file)));

    for path in ["/api/v1/profiles".to_owned(), format!("/api/v1/profiles/{name}")] {
        let (status, body) = get(&exporter, &path).await;
        assert_eq!(status, 500, "{body}");

        for expected in [&*file.to_string_lossy(), "Not a directory", "--profile-dir"] {
            assert!(body.contains(expected), "{body}");
        }
    }
}

#[tokio::test]
async fn without_a_cluster_there_are_no_profiles() {
    let exporter = exporter(sample(), ExportOptions::default());
    let (status, body) = get(&exporter, "/api/v1/profiles").await;

    assert_eq!((status.as_u16(), body.as_str()), (200, r#"{"directory":null,"profiles":[]}"#));
    assert_eq!(get(&exporter, "/api/v1/profiles/a.pb.gz").await.0, 404);
}
