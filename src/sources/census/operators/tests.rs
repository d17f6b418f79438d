use std::sync::Arc;

use k8s_openapi::api::authorization::v1::ResourceRule;

use super::*;
use crate::sources::api_server::{Granted, Subject};
use crate::sources::census::workloads::ScrapedPod;

const GROUP: &str = "example.io";

const NAMESPACE: &str = "ops";

/// A census of workloads, and the permissions of their accounts.
struct Cluster {
    census: Census,
    grants: Vec<(Subject, &'static str, Granted)>,
    wanted: WantedNamespaces,
    known: BTreeSet<OperatorName>,
}

impl Cluster {
    fn new() -> Self {
        Self {
            census: Census::default(),
            grants: Vec::new(),
            wanted: WantedNamespaces::default(),
            known: BTreeSet::new(),
        }
    }

    /// Adds a Deployment with an account of its name, which may write this in the whole cluster.
    fn with(self, name: &str, may_write: &[(&str, &str)]) -> Self {
        let may_write = may_write.iter();
        may_write.fold(self.deploy(name, name), |cluster, (group, resource)| {
            cluster.grant(name, "", group, resource)
        })
    }

    fn deploy(self, name: &str, account: &str) -> Self {
        self.put(NAMESPACE, name, account, &[], false)
    }

    fn put(
        self,
        namespace: &str,
        name: &str,
        account: &str,
        watched: &[&str],
        has_sidecar: bool,
    ) -> Self {
        let workload = Workload {
            account: account.to_owned(),
            watched_namespaces: watched.iter().map(|name| (*name).to_owned()).collect(),
            has_sidecar,
            is_cron_job: false,
        };
        self.census.deployments.put((namespace.to_owned(), name.to_owned()), workload);
        self
    }

    /// Adds a CronJob.
    fn schedule(self, name: &str, account: &str) -> Self {
        let workload =
            Workload { account: account.to_owned(), is_cron_job: true, ..Workload::default() };
        self.census.cron_jobs.put((NAMESPACE.to_owned(), name.to_owned()), workload);
        self
    }

    /// Lets an account write something in a namespace, or in the whole cluster.
    fn grant(self, account: &str, namespace: &'static str, group: &str, resource: &str) -> Self {
        let subject = Subject::Account((NAMESPACE.to_owned(), account.to_owned()));
        self.bind(subject, namespace, group, resource, false)
    }

    fn bind(
        mut self,
        subject: Subject,
        namespace: &'static str,
        group: &str,
        resource: &str,
        is_for_people: bool,
    ) -> Self {
        let rule = ResourceRule {
            verbs: vec!["update".to_owned()],
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            resource_names: None,
        };
        self.grants.push((
            subject,
            namespace,
            Granted { rules: Arc::from([rule]), weight: 100, is_for_people },
        ));
        self
    }

    fn find(&self) -> Found {
        let mut accounts = BTreeSet::new();
        let mut see = |(namespace, _): &Name, workload: &Workload| {
            accounts.insert((namespace.clone(), workload.account.clone()));
        };
        self.census.workloads().into_iter().for_each(|table| table.each(&mut see));
        let mut grants = Grants::of_accounts(accounts);
        for (subject, namespace, granted) in &self.grants {
            grants.add(subject, namespace, granted);
        }
        let kinds = [(GROUP, "widgets"), (GROUP, "gadgets"), ("apps", "deployments")];
        self.census.find_operators(&grants, &served(&kinds), &self.wanted, &self.known)
    }
}

fn served(kinds: &[(&str, &str)]) -> ApiResources {
    let kind = |(group, resource): &(&str, &str)| ApiKind {
        group: (*group).to_owned(),
        version: "v1".to_owned(),
        kind: (*resource).to_owned(),
        resource: (*resource).to_owned(),
        namespaced: true,
        watchable: true,
        ..ApiKind::default()
    };
    kinds.iter().map(kind).collect()
}

fn names(found: &Found) -> Vec<&str> {
    found.operators.iter().map(|it| it.name.name.as_str()).collect()
}

fn skipped(found: &Found) -> Vec<(&str, NotJudged)> {
    found.skipped.iter().map(|it| (it.name.name.as_str(), it.why)).collect()
}

fn claimants<'a>(found: &'a Found, resource: &str) -> Vec<&'a str> {
    let claims = found.claims.get(&(GROUP.to_owned(), resource.to_owned()));
    claims.into_iter().flatten().map(|claim| claim.operator.name.as_str()).collect()
}

#[test]
fn an_operator_may_write_the_status_of_a_custom_resource() {
    let found = Cluster::new()
        .with("op", &[(GROUP, "widgets/status")])
        .with("wide", &[(GROUP, "*")])
        .with("shop", &[])
        .with("client", &[(GROUP, "widgets")])
        .with("scaler", &[("apps", "deployments/status")])
        .find();

    assert_eq!(names(&found), ["op", "wide"]);
    assert_eq!(claimants(&found, "widgets"), ["op", "wide"]);
    assert_eq!(claimants(&found, "gadgets"), ["wide"]);
    assert_eq!(found.skipped, []);

    let claims = &found.claims[&(GROUP.to_owned(), "widgets".to_owned())];
    assert_eq!(claims.iter().map(|it| it.is_named).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn finalizers_alone_are_a_claim_only_if_nobody_writes_the_status() {
    let owner = Cluster::new().with("guard", &[(GROUP, "widgets/finalizers")]);
    assert_eq!(claimants(&owner.find(), "widgets"), ["guard"]);

    let other = owner.with("op", &[(GROUP, "widgets/status")]).find();
    assert_eq!(claimants(&other, "widgets"), ["op"]);
}

#[test]
fn who_may_write_everything_is_no_operator_without_signs() {
    let found = Cluster::new().with("all", &[("*", "*")]).find();
    assert_eq!((names(&found), found.unrestricted.len()), (vec![], 1));
    assert!(found.claims.is_empty());
}

/// An administrator of a namespace may grant what the role `admin` holds, which operators extend.
#[test]
fn a_claim_in_one_namespace_takes_nothing_from_one_in_the_whole_cluster() {
    let evil = Subject::Account(("aaa".to_owned(), "evil".to_owned()));
    let found = Cluster::new()
        .with("op", &[(GROUP, "widgets/status")])
        .put("aaa", "evil", "evil", &[], false)
        .bind(evil.clone(), "aaa", GROUP, "widgets/status", false)
        .find();
    assert_eq!(claimants(&found, "widgets"), ["op"]);

    let guarded = Cluster::new()
        .with("guard", &[(GROUP, "widgets/finalizers")])
        .put("aaa", "evil", "evil", &[], false)
        .bind(evil, "aaa", GROUP, "widgets/status", false)
        .find();
    let claims = &guarded.claims[&(GROUP.to_owned(), "widgets".to_owned())];
    assert_eq!(claims.len(), 2, "who has finalizers only stays");
    assert!(claims.iter().any(|it| it.reach == Reach::Everywhere));
}

#[test]
fn nobody_makes_an_operator_of_somebody_elses_workload() {
    let group = Subject::Group(format!("system:serviceaccounts:{NAMESPACE}"));
    let found = Cluster::new()
        .deploy("shop", "shop")
        .grant("shop", "aaa", GROUP, "widgets/status")
        .bind(group, "aaa", GROUP, "gadgets/status", false)
        .find();
    assert_eq!((names(&found), found.claims.len()), (vec![], 0));
}

#[test]
fn a_cron_job_is_no_operator_and_takes_no_kind() {
    let found = Cluster::new()
        .with("op", &[(GROUP, "widgets/status")])
        .schedule("backup", "op")
        .schedule("sweep", "sweeper")
        .schedule("report", "reporter")
        .grant("sweeper", "", GROUP, "gadgets/status")
        .find();

    assert_eq!(names(&found), ["op"]);
    assert_eq!(claimants(&found, "gadgets"), Vec::<&str>::new());
    assert_eq!(
        skipped(&found),
        [("backup", NotJudged::RunsAtTimes), ("sweep", NotJudged::RunsAtTimes)]
    );
}

/// Thousands of workloads with a right each cost little, and take nothing from others.
#[test]
fn a_crowd_in_one_namespace_is_left_out() {
    let mut cluster = Cluster::new().with("op", &[(GROUP, "gadgets/status")]);
    for number in 0..MAX_PER_NAMESPACE + 20 {
        let name = format!("evil-{number:03}");
        let account = Subject::Account(("aaa".to_owned(), name.clone()));
        cluster = cluster.put("aaa", &name, &name, &[], false).bind(
            account,
            "aaa",
            GROUP,
            "widgets/status",
            false,
        );
    }
    let found = cluster.find();

    assert_eq!((found.operators.len(), found.crowd), (MAX_PER_NAMESPACE + 1, 20));
    assert_eq!(claimants(&found, "gadgets"), ["op"]);

    let last = OperatorName { namespace: "aaa".to_owned(), name: "evil-069".to_owned() };
    assert!(!found.operators.iter().any(|it| it.name == last));
    cluster.known.insert(last.clone());
    let found = cluster.find();
    assert!(found.operators.iter().any(|it| it.name == last), "who is known comes first");
}

#[test]
fn roles_for_people_make_no_operators() {
    let runner = Subject::Account((NAMESPACE.to_owned(), "runner".to_owned()));
    let found = Cluster::new()
        .deploy("runner", "runner")
        .bind(runner, NAMESPACE, GROUP, "widgets/status", true)
        .find();
    assert_eq!(names(&found), Vec::<&str>::new());
}

#[test]
fn a_claim_reaches_as_far_as_the_bindings_and_the_workload_say() {
    let reach = |cluster: Cluster| {
        let found = cluster.find();
        found.claims.values().flatten().map(|claim| claim.reach.clone()).collect::<Vec<_>>()
    };
    let within =
        |names: &[&str]| vec![Reach::In(names.iter().map(|it| (*it).to_owned()).collect())];
    let operator = |watched: &[&str]| {
        let cluster = Cluster::new().put(NAMESPACE, "op", "op", watched, false);
        ["ops", "team-a", "team-b"].into_iter().fold(cluster, |cluster, namespace| {
            cluster.grant("op", namespace, GROUP, "widgets/status")
        })
    };

    assert_eq!(reach(operator(&[])), within(&["ops"]), "it does not say that it watches others");
    assert_eq!(reach(operator(&["team-a", "team-c"])), within(&["ops", "team-a"]));

    let mut unwanted = operator(&["team-a"]);
    unwanted.wanted.excluded = vec!["ops".to_owned()];
    assert_eq!(reach(unwanted), within(&["team-a"]));
    let mut elsewhere = operator(&[]);
    elsewhere.wanted.namespaces = vec!["team-b".to_owned()];
    assert_eq!(reach(elsewhere), []);
}

#[test]
fn an_operator_with_a_loopwatch_of_its_own_is_left_to_it() {
    let cluster = Cluster::new()
        .with("plain", &[(GROUP, "gadgets/status")])
        .put(NAMESPACE, "beside", "beside", &[], true)
        .grant("beside", "", GROUP, "widgets/status");
    let found = cluster.find();
    assert_eq!(names(&found), ["plain"]);
    assert_eq!(skipped(&found), [("beside", NotJudged::HasSidecar)]);
    assert_eq!(claimants(&found, "widgets"), ["beside"], "nobody else gets its kinds");

    let pod = ScrapedPod { controller: "plain-5f".to_owned(), hash: "5f".to_owned() };
    cluster.census.scraped_pods.put((NAMESPACE.to_owned(), "plain-5f-x".to_owned()), pod);
    assert_eq!(names(&cluster.find()), Vec::<&str>::new(), "an injected one");
}

#[test]
fn one_workload_speaks_for_an_account() {
    let cluster = Cluster::new().deploy("op", "op").deploy("op-webhook", "op").grant(
        "op",
        "",
        GROUP,
        "widgets/status",
    );
    let found = cluster.find();
    assert_eq!(names(&found), ["op"]);
    assert_eq!(skipped(&found), [("op-webhook", NotJudged::SharesAccount)]);

    let with = cluster.put(NAMESPACE, "op-webhook", "op", &[], true).find();
    assert_eq!(names(&with), Vec::<&str>::new(), "its loopwatch watches the kinds of the account");
}

/// A Deployment and a StatefulSet of one name would have one page.
#[test]
fn two_workloads_of_one_name_are_one_operator() {
    let cluster = Cluster::new().with("op", &[(GROUP, "widgets/status")]);
    let workload = Workload {
        account: "op".to_owned(),
        watched_namespaces: Vec::new(),
        has_sidecar: false,
        is_cron_job: false,
    };
    cluster.census.stateful_sets.put((NAMESPACE.to_owned(), "op".to_owned()), workload);

    let found = cluster.find();
    assert_eq!((names(&found), skipped(&found)), (vec!["op"], vec![("op", NotJudged::SharesName)]));
}
