//! Images for a real node, built from programs on this machine.

use std::path::{Path, PathBuf};

use super::guard::Program;
use super::repository;

/// The name of an image, and the archive that contains it.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its name with its tag. No registry has it.
    pub name: String,
    /// The archive, which `ctr images import` reads.
    pub archive: PathBuf,
}

/// Builds the image that users get, from a loopwatch that is already built.
pub fn loopwatch(directory: &Path, program: &Path) -> Image {
    let image = Image::new(directory, "loopwatch");
    let build = Program::new("image", repository("deploy/image/build"), directory)
        .arg("--program")
        .arg(program)
        .arg("--archive")
        .arg(&image.archive)
        .arg("--tag")
        .arg(&image.name);

    succeed(&build);
    image
}

/// Builds an image that contains only one program, which needs no libraries. The first word of the
/// entry point is its path in the image.
pub fn of(directory: &Path, name: &str, program: &Path, entrypoint: &[&str]) -> Image {
    let image = Image::new(directory, name);
    let context = directory.join(format!("{name}.context"));
    std::fs::create_dir_all(&context).expect("our own folder");
    std::fs::copy(program, context.join("program")).expect("a program and our own folder");

    let text = format!(
        "FROM scratch\nCOPY program {}\nUSER 65532:65532\nENTRYPOINT {}\n",
        entrypoint[0],
        serde_json::to_string(entrypoint).expect("a list of words"),
    );
    std::fs::write(context.join("Dockerfile"), text).expect("our own folder");

    let archive = format!("docker-archive:{}:{}", image.archive.display(), image.name);
    succeed(
        &buildah(directory)
            .args(["build", "--isolation", "chroot", "--quiet", "--tag", &image.name])
            .arg(&context),
    );
    succeed(&buildah(directory).args(["push", "--quiet", &image.name, &archive]));
    image
}

impl Image {
    fn new(directory: &Path, name: &str) -> Self {
        let archive = directory.join(format!("{name}.tar"));
        Self { name: format!("localhost/{name}:test"), archive }
    }
}

/// buildah with a store in a folder, and without user namespaces.
fn buildah(directory: &Path) -> Program {
    let at = |name: &str| directory.join(name).display().to_string();
    Program::new("buildah", "buildah", directory).args([
        "--root",
        &at("buildah"),
        "--runroot",
        &at("buildah-run"),
        "--storage-driver",
        "vfs",
    ])
}

fn succeed(program: &Program) {
    let output = program.run();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}
