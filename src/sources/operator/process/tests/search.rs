//! Which of the visible processes is the operator's?

use super::*;

fn search(fake: &FakeProc, clue: &OperatorClue) -> ProcessSearch {
    find(&fake.proc(), OWN, clue)
}

fn process(pid: u32, start_ticks: u64) -> ProcessSearch {
    ProcessSearch::Process(ProcessIdentity { pid, start_ticks })
}

fn started(seconds_after_boot: f64) -> OperatorClue {
    OperatorClue { started_seconds: Some(BOOTED + seconds_after_boot), ..OperatorClue::default() }
}

#[test]
fn the_oldest_process_of_the_only_other_container_is_the_operator() {
    let fake = FakeProc::pod();
    fake.process(7, "manager", 0, 20_000, OPERATOR);
    fake.process(9, "git", 7, 30_000, OPERATOR);
    fake.process(40, "sh", 0, 31_000, OPERATOR); // kubectl exec
    fake.process(41, "loopwatch", 30, 31_000, OWN);

    assert_eq!(search(&fake, &OperatorClue::default()), process(7, 20_000));
}

#[test]
fn a_process_that_has_just_started_may_belong_to_a_container_that_prepares_the_operator() {
    let fake = FakeProc::pod();
    let young = ((UPTIME - 29.0) * procfs::TICKS_PER_SECOND) as u64;
    fake.process(7, "migrate", 0, young, OTHER);

    assert_eq!(search(&fake, &OperatorClue::default()), ProcessSearch::Nothing);
    assert_eq!(
        search(&fake, &started(UPTIME - 29.0)),
        process(7, young),
        "the metrics leave no doubt"
    );
}

#[test]
fn wrappers_are_not_the_operator_but_the_largest_program_that_they_run() {
    let fake = FakeProc::pod();
    fake.process(7, "tini", 0, 20_000, OPERATOR);

    assert_eq!(search(&fake, &OperatorClue::default()), ProcessSearch::Nothing);

    fake.process(8, "run.sh", 7, 20_010, OPERATOR);
    fake.process(9, "tee", 8, 20_020, OPERATOR);
    fake.process(12, "java", 8, 20_030, OPERATOR); // larger, by its number
    fake.process(20, "git", 12, 20_040, OPERATOR);

    assert_eq!(search(&fake, &OperatorClue::default()), process(12, 20_030));
}

#[test]
fn several_containers_are_told_apart_by_the_start_in_the_metrics() {
    let fake = FakeProc::pod();
    fake.process(7, "manager", 0, 20_000, OPERATOR);
    fake.process(8, "helper", 0, 20_050, OTHER);

    let ProcessSearch::Ambiguous(why) = search(&fake, &OperatorClue::default()) else {
        panic!("not clear")
    };

    assert_eq!(why, "2 containers may be the operator's: manager (7), helper (8)");
    fake.process(8, "\u{1b}[31m", 0, 20_050, OTHER);
    let ProcessSearch::Ambiguous(why) = search(&fake, &OperatorClue::default()) else {
        panic!("not clear")
    };

    assert!(why.ends_with(r"\u{1b}[31m (8)"), "{why}");
    assert_eq!(search(&fake, &started(200.0)), process(7, 20_000));
    assert_eq!(search(&fake, &started(200.5)), process(8, 20_050));

    // A child that the operator starts at once is not the operator.
    fake.process(9, "git", 7, 20_001, OPERATOR);
    assert_eq!(search(&fake, &started(200.0)), process(7, 20_000));

    // A Java virtual machine notes its start late. Both containers are then possible.
    assert!(matches!(search(&fake, &started(201.4)), ProcessSearch::Ambiguous(_)));

    fake.process(8, "helper", 0, 30_000, OTHER);
    assert_eq!(search(&fake, &started(201.4)), process(7, 20_000));

    // A clue that matches no process, for example after the clock was set, is ignored.
    assert!(matches!(search(&fake, &started(5_000.0)), ProcessSearch::Ambiguous(_)));
}

#[test]
fn several_containers_are_told_apart_by_the_ids_in_the_status_of_the_pod() {
    let fake = FakeProc::pod();
    fake.process(7, "manager", 0, 20_000, OPERATOR);
    fake.process(8, "helper", 0, 20_000, OTHER);

    let clue = |ids: &[&str]| OperatorClue {
        containers: ids.iter().map(|id| (*id).to_owned()).collect(),
        ..OperatorClue::default()
    };

    assert_eq!(
        search(&fake, &clue(&["cccccccccccc", "bbbbbbbbbbbb"])),
        process(8, 20_000),
        "the first one runs it"
    );
    assert_eq!(search(&fake, &clue(&["bbbbbbbbbbbb"])), process(7, 20_000));
    assert!(matches!(
        search(&fake, &clue(&["dddddddddddd", "b", ""])),
        ProcessSearch::Ambiguous(_)
    ));

    // A container runtime that hides the ID in the cgroup shows it in the mounts.
    fake.process(8, "helper", 0, 20_000, "0::/../x\n");
    fake.write(
        "8/mountinfo",
        "9 8 0:1 /var/lib/containers/eeeeeeeeeeee/hosts /etc/hosts rw - ext4 /dev/sda rw\n",
    );

    assert_eq!(search(&fake, &clue(&["eeeeeeeeeeee"])), process(8, 20_000));
}

#[test]
fn known_proxies_are_not_the_operator() {
    let fake = FakeProc::pod();
    fake.process(6, "kube-rbac-proxy", 0, 19_000, OTHER);

    assert_eq!(search(&fake, &OperatorClue::default()), ProcessSearch::Nothing);

    fake.process(7, "manager", 0, 20_000, OPERATOR);
    assert_eq!(search(&fake, &OperatorClue::default()), process(7, 20_000));
}

#[test]
fn on_a_node_only_certain_clues_count() {
    let fake = FakeProc::pod();
    fake.process(1, "systemd", 0, 1, "0::/init.scope\n");
    fake.process(2, "kthreadd", 0, 1, "0::/\n");
    fake.process(7, "manager", 0, 20_000, OPERATOR);

    let ProcessSearch::Ambiguous(why) =
        find(&fake.proc(), "0::/kubepods/own\n", &OperatorClue::default())
    else {
        panic!("a guess")
    };

    assert!(why.contains("hostPID"), "{why}");
    assert_eq!(find(&fake.proc(), "0::/kubepods/own\n", &started(200.0)), process(7, 20_000));
}

#[test]
fn a_clue_replaces_a_guess_and_one_that_leads_nowhere_does_not() {
    let fake = FakeProc::pod();
    fake.process(7, "helper", 0, 20_000, OTHER);

    let clues = watch::Sender::default();
    let mut reader = fake.reader(&clues);

    assert_eq!(say(&reader.read(NOW)), "restricted, op/pod is 7");

    fake.process(8, "manager", 0, 50_000, OPERATOR);
    assert_eq!(say(&reader.read(NOW)), "restricted, op/pod is 7");

    clues.send_replace(started(5_000.0));
    assert_eq!(say(&reader.read(NOW)), "restricted, op/pod is 7", "the process still runs");

    clues.send_replace(started(500.0));
    assert_eq!(say(&reader.read(NOW)), "restricted, op/pod is gone, op/pod is 8");
}
