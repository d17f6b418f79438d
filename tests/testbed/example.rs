//! The test bed for interactive use: `cargo run --example testbed` starts the cluster and the zoo,
//! prints how to reach them, and stops everything on Ctrl-C.

use std::io::Read;

use loopwatch_testbed::{
    binaries, controlplane::ControlPlane, guard, operator, operator::Operator,
};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program at a terminal")]
fn main() {
    guard::stand_guard_if_asked();
    let binaries = match binaries::find() {
        Ok(binaries) => binaries,
        Err(missing) => {
            eprintln!("{missing}");
            std::process::exit(1);
        }
    };

    let plane = ControlPlane::start(binaries);
    operator::install(&plane);

    let zoo = Operator::start(&plane, "widget-operator", "", &["--leader-elect"]);
    plane.kube.namespace("team-a");
    plane.kube.apply_file("tests/zoo/widget-operator/config/samples/all.yaml", "team-a");
    println!("export KUBECONFIG={}", plane.kube.kubeconfig.display());
    println!(
        "# faults: curl -X PUT 127.0.0.1:{}/faults/Overdue?namespace=team-a",
        zoo.fault_port()
    );

    println!("# metrics of the operator: http://{}/metrics", zoo.metrics);
    println!("# profiles of the operator: http://{}/debug/pprof/", zoo.pprof);
    println!(
        "# its own account: {}",
        plane.directory().join("widget-operator.kubeconfig").display()
    );
    println!("# logs: {}; everything ends with Ctrl-C or Ctrl-D", plane.directory().display());

    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
