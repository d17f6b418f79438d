//! Finds the files of a kubeconfig and refuses irregular ones. kube reads them on the thread that
//! runs everything, so a named pipe would block loopwatch, and a device may have no end.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;

/// The kubeconfig files: the named one, those of `KUBECONFIG`, or that of the home directory.
pub(super) fn kubeconfigs(
    named: Option<&Path>,
    variable: Option<&OsStr>,
    home: Option<&Path>,
) -> Vec<PathBuf> {
    match (named, variable) {
        (Some(file), _) => vec![file.to_owned()],
        (None, Some(files)) => {
            std::env::split_paths(files).filter(|file| !file.as_os_str().is_empty()).collect()
        }
        (None, None) => home.map(Path::to_owned).into_iter().collect(),
    }
}

/// The files that the named context, or else the current one, refers to.
pub(super) fn named_by(kubeconfig: &Kubeconfig, context: Option<&str>) -> Vec<PathBuf> {
    let current = context.or(kubeconfig.current_context.as_deref());
    let contexts =
        kubeconfig.contexts.iter().filter(|context| Some(context.name.as_str()) == current);
    let mut files = Vec::new();

    for context in contexts.filter_map(|context| context.context.as_ref()) {
        let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster);
        files.extend(
            cluster.and_then(|cluster| cluster.cluster.as_ref()?.certificate_authority.clone()),
        );

        let user =
            kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
        if let Some(user) = user.and_then(|user| user.auth_info.as_ref()) {
            files.extend(
                [&user.client_certificate, &user.client_key, &user.token_file]
                    .into_iter()
                    .flatten()
                    .cloned(),
            );
        }
    }

    files.into_iter().map(PathBuf::from).collect()
}

/// Why not to read these files: one of them exists but is not a regular file.
pub(super) fn problem(files: &[PathBuf]) -> Option<String> {
    let irregular =
        |file: &&PathBuf| std::fs::metadata(file).is_ok_and(|metadata| !metadata.is_file());
    let file = files.iter().find(irregular)?;
    Some(format!(
        "{} is not a regular file; loopwatch reads no pipes, folders or devices here",
        file.display()
    ))
}
