//! Anonymizes what surrounds objects: their kinds and watches, namespaces, leases, Events,
//! permissions, and lookups of single objects.

use loopwatch_model::observation::{
    Answer, Consulted, ConversionView, CoveredNamespaces, DefinitionView, Dependent, EndpointsView,
    EventView, FailedCall, LeaseView, NamespaceView, ObjectAddress, ObjectKey, PermissionsView,
    Probe, Scope, SourceId, WatchId, WatchedKind, WebhookView,
};

use super::Pseudonyms;

impl Pseudonyms {
    pub(super) fn kind(&self, kind: WatchedKind) -> WatchedKind {
        let WatchedKind {
            watch,
            group,
            version,
            kind,
            resource,
            scope,
            role,
            status,
            why,
            suspected,
            filtered,
            metadata_only,
            versions,
            missing,
        } = kind;

        let scope = match scope {
            Scope::Namespace(namespace) => Scope::Namespace(self.namespace(&namespace)),
            other @ (Scope::Cluster | Scope::AllNamespaces) => other,
        };
        let watch = self.watch(&watch);

        WatchedKind {
            watch,
            group,
            version,
            kind,
            resource,
            scope,
            role,
            status,
            why,
            suspected,
            filtered,
            metadata_only,
            versions,
            missing,
        }
    }

    pub(super) fn watch(&self, watch: &WatchId) -> WatchId {
        match watch.0.split_once('/') {
            Some((resource, namespace)) => {
                WatchId(format!("{resource}/{}", self.namespace(namespace)).into())
            }
            None => watch.clone(),
        }
    }

    pub(super) fn source(&self, source: SourceId) -> SourceId {
        match source {
            SourceId::Watch(watch) => SourceId::Watch(self.watch(&watch)),
            other => other,
        }
    }

    pub(super) fn definition(&self, definition: DefinitionView) -> DefinitionView {
        let conditions =
            definition.conditions.into_iter().map(|condition| self.condition(condition)).collect();
        let conversion = definition.conversion.map(|ConversionView { service, ca }| {
            ConversionView { service: self.service(&service), ca }
        });
        DefinitionView { conditions, conversion, ..definition }
    }

    pub(super) fn namespace_view(&self, namespace: NamespaceView) -> NamespaceView {
        let NamespaceView { name, annotations, team, deleted, conditions } = namespace;
        let conditions =
            conditions.into_iter().map(|condition| self.condition(condition)).collect();
        let (name, annotations) = (self.namespace(&name), self.annotations(annotations));

        NamespaceView { name, annotations, team: self.name("label", &team), deleted, conditions }
    }

    pub(super) fn webhook(&self, webhook: WebhookView) -> WebhookView {
        let WebhookView {
            configuration,
            name,
            service,
            path,
            ca,
            fails_closed,
            timeout,
            rules,
            namespaces,
            some_objects,
        } = webhook;

        let of_names = |names: Vec<String>| names.iter().map(|name| self.namespace(name)).collect();
        let namespaces = match namespaces {
            CoveredNamespaces::Only(names) => CoveredNamespaces::Only(of_names(names)),
            CoveredNamespaces::Except(names) => CoveredNamespaces::Except(of_names(names)),
            other @ (CoveredNamespaces::All | CoveredNamespaces::Unknown) => other,
        };

        // The rules contain only groups and resources.
        WebhookView {
            configuration: self.name("object", &configuration),
            name: self.name("webhook", &name),
            service: self.service(&service),
            path: self.name("path", &path),
            ca,
            fails_closed,
            timeout,
            rules,
            namespaces,
            some_objects,
        }
    }

    pub(super) fn endpoints(&self, view: EndpointsView) -> EndpointsView {
        EndpointsView { service: self.service(&view.service), ..view }
    }

    pub(super) fn permissions(&self, view: PermissionsView) -> PermissionsView {
        let PermissionsView {
            namespace,
            incomplete,
            missing,
            excess,
            withdrawn,
            unwritable,
            granted,
            granted_left_out,
            left_out,
        } = view;
        let namespace = self.namespace(&namespace);

        // `left_out` contains only counts and the names of kinds.
        PermissionsView {
            namespace,
            incomplete,
            missing,
            excess,
            withdrawn,
            unwritable,
            granted,
            granted_left_out,
            left_out,
        }
    }

    pub(super) fn lease(&self, lease: LeaseView) -> LeaseView {
        let LeaseView {
            namespace,
            name,
            holder,
            acquired,
            renewed,
            written,
            duration,
            transitions,
        } = lease;

        let (namespace, name) = (self.namespace(&namespace), self.name("lease", &name));
        let holder = self.holder(&holder);
        LeaseView { namespace, name, holder, acquired, renewed, written, duration, transitions }
    }

    pub(super) fn event(&self, event: EventView) -> EventView {
        let EventView {
            uid,
            about,
            r#type,
            reason,
            message,
            reporter,
            count,
            added,
            at,
            uncounted,
            failed_call,
        } = event;

        let (uid, about) = (self.uid(&uid), self.object_key(about));
        let (reason, message, reporter) =
            (self.value(&reason), self.prose(&message), self.words(&reporter));
        EventView {
            uid,
            about,
            r#type,
            reason,
            message,
            reporter,
            count,
            added,
            at,
            uncounted,
            failed_call: failed_call.map(|call| Box::new(self.failed_call(*call))),
        }
    }

    pub(super) fn failed_call(&self, call: FailedCall) -> FailedCall {
        let FailedCall { consulted, service, cause } = call;
        let consulted = match consulted {
            Consulted::Admission(name) => Consulted::Admission(self.name("webhook", &name)),
            Consulted::Conversion { group, kind } => Consulted::Conversion { group, kind },
            Consulted::Policy { mutating, name } => {
                Consulted::Policy { mutating, name: self.name("policy", &name) }
            }
        };

        FailedCall { consulted, service: self.service(&service), cause }
    }

    /// A Service as `namespace/name`.
    fn service(&self, service: &str) -> String {
        let named = service.split_once('/');
        named.map_or_else(String::new, |(namespace, name)| {
            format!("{}/{}", self.namespace(namespace), self.name("object", name))
        })
    }

    pub(super) fn probe(&self, probe: Probe) -> Probe {
        match probe {
            Probe::Count(watch) => Probe::Count(self.watch(&watch)),
            Probe::Fields { watch, object } => {
                Probe::Fields { watch: self.watch(&watch), object: self.object_key(object) }
            }
            Probe::Read(address) => Probe::Read(self.address(address)),
            Probe::Dependents { owner, uid } => {
                Probe::Dependents { owner: self.address(owner), uid: self.uid(&uid) }
            }
            Probe::Profile { instance, kind } => {
                Probe::Profile { instance: self.instance(&instance), kind }
            }
        }
    }

    pub(super) fn answer(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Found(object) => Answer::Found(Box::new(self.object(*object))),
            Answer::Dependents { found, complete } => {
                let dependent = |d: Dependent| Dependent { object: self.object(d.object), ..d };
                Answer::Dependents { found: found.into_iter().map(dependent).collect(), complete }
            }
            Answer::Fields(fields) => {
                Answer::Fields(fields.iter().map(|field| self.path(field)).collect())
            }
            Answer::Profiled(profile) => Answer::Profiled(Box::new(self.profile(*profile))),
            Answer::Counted { .. } | Answer::Absent | Answer::KindUnknown | Answer::Failed(_) => {
                answer
            }
        }
    }

    fn address(&self, address: ObjectAddress) -> ObjectAddress {
        let ObjectAddress { group, kind, namespace, name } = address;
        let ObjectKey { namespace, name } = self.object_key(ObjectKey { namespace, name });
        ObjectAddress { group, kind: self.kind_name(kind), namespace, name }
    }
}
