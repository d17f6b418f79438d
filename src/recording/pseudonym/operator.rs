//! Anonymizes the operator itself. Names of controllers, functions and reasons are part of its
//! program; those of its Pods, its namespace and its images are the user's.

use loopwatch_model::observation::{
    ContainerEnd, ContainerView, InstanceName, MetricsView, OperatorView, PodView, ProcessView,
    ProfileView, Revision, pod_of_holder,
};

use super::Pseudonyms;

impl Pseudonyms {
    pub(super) fn operator(&self, view: OperatorView) -> OperatorView {
        let OperatorView { namespace, name, workload, pods, pods_left_out, complete } = view;
        let pods = pods.into_iter().map(|pod| self.pod(pod)).collect();
        let (namespace, name) = (self.namespace(&namespace), self.name("object", &name));
        OperatorView { namespace, name, workload, pods, pods_left_out, complete }
    }

    fn pod(&self, pod: PodView) -> PodView {
        let PodView {
            name, uid, own, created, deleted, phase, reason, node_lost, revision, ..
        } = pod;
        let (name, uid) = (self.name("object", &name), self.uid(&uid));
        let Revision { hash, version, image } = revision;
        let revision =
            Revision { hash, version: self.value(&version), image: self.name("image", &image) };
        let all = |containers: Vec<ContainerView>| -> Vec<ContainerView> {
            containers.into_iter().map(|container| self.container(container)).collect()
        };
        let (containers, helpers) = (all(pod.containers), all(pod.helpers));
        let reason = self.value(&reason);

        PodView {
            name,
            uid,
            own,
            created,
            deleted,
            phase,
            reason,
            node_lost,
            revision,
            containers,
            helpers,
        }
    }

    /// The identity of a lease's holder. It begins with the name of a Pod, as the model knows.
    pub(super) fn holder(&self, holder: &str) -> String {
        let pod = pod_of_holder(holder);
        let rest = &holder[pod.len()..];
        let pod = self.name("object", pod);

        if rest.is_empty() { pod } else { format!("{pod}_{}", self.letters("holder", rest)) }
    }

    fn container(&self, container: ContainerView) -> ContainerView {
        let ContainerView { name, ready, running_since, waiting, restarts, ended, memory_limit } =
            container;
        let name = self.name("container", &name);
        let ended = ended.map(|end| self.container_end(end));
        ContainerView { name, ready, running_since, waiting, restarts, ended, memory_limit }
    }

    fn container_end(&self, end: ContainerEnd) -> ContainerEnd {
        let ContainerEnd { reason, exit_code, message, started, finished } = end;
        let message = self.prose(&message);
        ContainerEnd { reason, exit_code, message, started, finished }
    }

    pub(super) fn metrics(&self, metrics: MetricsView) -> MetricsView {
        let (instance, process) = (self.instance(&metrics.instance), self.process(metrics.process));
        let webhooks = metrics.webhooks.into_iter();
        let webhooks = webhooks.map(|(path, calls)| (self.name("path", &path), calls)).collect();
        MetricsView { instance, process, webhooks, ..metrics }
    }

    pub(super) fn process(&self, process: ProcessView) -> ProcessView {
        ProcessView { instance: self.instance(&process.instance), ..process }
    }

    pub(super) fn profile(&self, profile: ProfileView) -> ProfileView {
        // The names of the files contain the name of the Pod.
        let (file, first_file) = (String::new(), String::new());
        ProfileView { instance: self.instance(&profile.instance), file, first_file, ..profile }
    }

    /// Returns the name of an instance: `namespace/pod`, or an address.
    pub(super) fn instance(&self, instance: &str) -> String {
        match InstanceName(instance).pod() {
            Some((namespace, pod)) => {
                format!("{}/{}", self.namespace(namespace), self.name("object", pod))
            }
            None => self.name("address", instance),
        }
    }
}
