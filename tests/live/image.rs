//! The image that users get, without a node: its files are enough to find and trust an API server by
//! its name, and two builds give one digest.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::json;

use crate::bed::{bed, test_where};
use loopwatch_testbed::guard::Program;
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE};
use loopwatch_testbed::repository;

/// A name in the certificate of the API server.
const NAME: &str = "kubernetes.default.svc";

/// Where the name server of this test listens. Port 53 is the only one that `resolv.conf` can name.
const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 77);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test_where(
            "image::names_and_certificates",
            "chroot and a port below 1024 need root",
            || UdpSocket::bind((NAME_SERVER, 53)).is_ok(),
            names_and_certificates,
        ),
        test_where("image::one_digest", "buildah and root", can_build, one_digest),
    ]
}

/// loopwatch in the files of the image reads the cluster by the name of the API server, whose
/// authority is among those of the system.
fn names_and_certificates() {
    let (root, program) = (bed().directory().join("image-root"), env!("CARGO_BIN_EXE_loopwatch"));
    let collect = Command::new(repository("deploy/image/root")).arg(program).arg(&root).status();
    assert!(collect.is_ok_and(|status| status.success()));

    let file = |name: &str| root.join(name);
    let authorities = file("etc/ssl/certs/ca-certificates.crt");
    let public = fs::read_to_string(&authorities).expect("the authorities of the system");
    assert!(public.matches("BEGIN CERTIFICATE").count() > 50, "those of the public");

    let ours = fs::read_to_string(bed().directory().join("certs/apiserver.crt")).expect("ours");
    // Without an authority of its own, loopwatch trusts those of the system.
    let token = bed().kube.token(NAMESPACE, ACCOUNT);
    let server = format!("https://{NAME}:{}", bed().port);
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "image",
        "clusters": [{"name": "image", "cluster": {"server": server}}],
        "users": [{"name": "image", "user": {"token": token}}],
        "contexts": [{"name": "image", "context": {"cluster": "image", "user": "image"}}],
    });
    fs::write(file("kubeconfig"), kubeconfig.to_string()).expect("our folder");

    let check = Program::new("image-check", "chroot", bed().directory()).arg(&root).args([
        "/usr/local/bin/loopwatch",
        "check",
        "--kubeconfig=/kubeconfig",
        "-o",
        "json",
    ]);
    let said = |expected: &str| {
        let output = check.run();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains(expected), "{expected}: {said}");
    };

    fs::write(file("etc/resolv.conf"), "").expect("our folder");
    said(NAME); // nobody knows the name

    fs::write(file("etc/hosts"), format!("127.0.0.1 {NAME}\n")).expect("our folder");
    said("ertificate"); // nobody trusts the authority

    fs::write(&authorities, public + &ours).expect("our file");
    said("\"group\":\"zoo.loopwatch.dev\"");

    fs::remove_file(file("etc/hosts")).expect("our file");
    fs::write(file("etc/resolv.conf"), format!("nameserver {NAME_SERVER}\n")).expect("our folder");
    serve_names();
    said("\"group\":\"zoo.loopwatch.dev\"");
}

/// Two builds of the image from one program give one digest.
fn one_digest() {
    let build = |number: u8| {
        let archive = bed().directory().join(format!("image-{number}.tar"));
        let build = Program::new("image", repository("deploy/image/build"), bed().directory())
            .args(["--format", "oci", "--program", env!("CARGO_BIN_EXE_loopwatch"), "--archive"])
            .arg(&archive)
            // The time of the last commit may change in between.
            .env("SOURCE_DATE_EPOCH", "1800000000");
        let output = build.run();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();

        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(archive.metadata().is_ok_and(|archive| archive.len() > 1_000_000));
        fs::remove_file(archive).expect("our file");

        let (_, digest) = said.trim().rsplit_once("sha256:").expect("a digest");
        assert_eq!(digest.len(), 64, "{said}");
        digest.to_owned()
    };

    assert_eq!(build(1), build(2));
}

fn can_build() -> bool {
    Path::new("/usr/bin/buildah").exists() && PathBuf::from("/root").read_dir().is_ok()
}

/// Answers each question for an IPv4 address with this machine, until nobody asks for a minute.
fn serve_names() {
    let server = UdpSocket::bind((NAME_SERVER, 53)).expect("port 53 of a loopback address");
    server.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");

    std::thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((length, client)) = server.recv_from(&mut packet) {
            let _ = server.send_to(&answer(&packet[..length]), client);
        }
    });
}

/// The answer to a question (RFC 1035, section 4): the question, and the address 127.0.0.1 if it
/// asks for one.
fn answer(question: &[u8]) -> Vec<u8> {
    let end =
        12 + question[12..].iter().position(|byte| *byte == 0).expect("the end of a name") + 5;
    let wants_address = question[end - 4..end - 2] == [0, 1];
    let mut answer = question[..end].to_vec();

    // A response with recursion, one question, and no other sections than the answers.
    answer[2..4].copy_from_slice(&[0x81, 0x80]);
    answer[4..12].copy_from_slice(&[0, 1, 0, u8::from(wants_address), 0, 0, 0, 0]);
    if wants_address {
        // The name of the question, an IPv4 address, for a minute.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }

    answer
}
