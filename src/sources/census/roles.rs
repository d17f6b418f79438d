//! Roles and bindings, as far as they concern service accounts.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::authorization::v1::ResourceRule;
use serde::Deserialize;

use super::table::{Metadata, Name, Read, Record, TEXT, Table};
use crate::net::Failure;
use crate::sources::api_server::{Account, Granted, Grants, Subject};
use crate::sources::decoding::or_default;

/// The rules of a role about kinds, sorted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RoleRules {
    rules: Arc<[ResourceRule]>,
    weight: usize,
    /// Whether some had no room.
    is_cut: bool,
}

/// A binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    /// Whether it names a ClusterRole.
    to_cluster_role: bool,
    role: String,
    subjects: BTreeSet<Subject>,
    /// Whether some had no room.
    is_cut: bool,
}

/// Limit on the rules of a role, and on the subjects of a binding. Somebody who may create them must not
/// fill the memory. The largest roles of operators have a tenth.
const MAX_RULES: usize = 1_000;
const MAX_SUBJECTS: usize = 2_000;

/// The ClusterRoles of Kubernetes for people. Operators ship roles that become a part of them.
const FOR_PEOPLE: [&str; 2] = ["admin", "edit"];

/// The roles and bindings of the cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Roles {
    pub(super) cluster_roles: Table<RoleRules>,
    pub(super) roles: Table<RoleRules>,
    pub(super) cluster_bindings: Table<Binding>,
    pub(super) bindings: Table<Binding>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RoleDocument {
    metadata: Metadata,
    #[serde(deserialize_with = "or_default")]
    rules: Vec<RuleDocument>,
}

#[derive(Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(default, rename_all = "camelCase")]
struct RuleDocument {
    #[serde(deserialize_with = "or_default")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    api_groups: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    resources: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    resource_names: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BindingDocument {
    metadata: Metadata,
    role_ref: RoleReference,
    #[serde(deserialize_with = "or_default")]
    subjects: Vec<SubjectDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RoleReference {
    kind: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SubjectDocument {
    kind: String,
    namespace: String,
    name: String,
}

impl Roles {
    /// How many of them had no room.
    pub(super) fn left_out(&self) -> u64 {
        let of_roles = self.cluster_roles.left_out() + self.roles.left_out();
        of_roles + self.cluster_bindings.left_out() + self.bindings.left_out()
    }

    /// The permissions of these accounts.
    pub(super) fn grants(&self, accounts: BTreeSet<Account>) -> Grants {
        let mut grants = Grants::of_accounts(accounts);
        let mut bind = |(namespace, _): &Name, binding: &Binding| {
            let Binding { to_cluster_role, role, subjects, .. } = binding;
            let rules = match to_cluster_role {
                true => self.cluster_roles.get(&(String::new(), role.clone())),
                false => self.roles.get(&(namespace.clone(), role.clone())),
            };

            // A binding may name a role that does not exist.
            if let Some(RoleRules { rules, weight, .. }) = rules {
                let is_for_people = *to_cluster_role && FOR_PEOPLE.contains(&role.as_str());
                let granted = Granted { rules, weight, is_for_people };
                subjects.iter().for_each(|subject| grants.add(subject, namespace, &granted));
            }
        };

        self.cluster_bindings.each(&mut bind);
        self.bindings.each(&mut bind);
        grants
    }
}

impl Record for RoleRules {
    fn read(object: &[u8]) -> Result<Read<Self>, Failure> {
        let RoleDocument { metadata, mut rules } =
            serde_json::from_slice(object).map_err(|error| Failure::undecodable(&error))?;

        // A rule about paths has no resources, and one for single objects grants nothing for a kind.
        rules.retain(|rule| !rule.resources.is_empty() && rule.resource_names.is_empty());
        rules.sort();
        rules.dedup();
        let is_cut = rules.len() > MAX_RULES;
        rules.truncate(MAX_RULES);
        let rules = rules.into_iter().map(|rule| ResourceRule {
            verbs: rule.verbs,
            api_groups: Some(rule.api_groups),
            resources: Some(rule.resources),
            resource_names: None,
        });

        let rules: Arc<[ResourceRule]> = rules.collect();
        let weight = rules.iter().map(weight).sum();
        Ok(metadata.read(Some(Self { rules, weight, is_cut })))
    }

    fn weight(&self) -> usize {
        self.weight
    }

    fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Approximately the bytes of a rule.
fn weight(rule: &ResourceRule) -> usize {
    let of = |list: &[String]| list.iter().map(|text| text.len() + TEXT).sum::<usize>();
    let lists = [rule.api_groups.as_deref(), rule.resources.as_deref()];
    of(&rule.verbs) + lists.into_iter().flatten().map(of).sum::<usize>() + 4 * TEXT
}

impl Record for Binding {
    fn read(object: &[u8]) -> Result<Read<Self>, Failure> {
        let BindingDocument { metadata, role_ref, subjects } =
            serde_json::from_slice(object).map_err(|error| Failure::undecodable(&error))?;
        let subjects =
            subjects.into_iter().filter_map(|SubjectDocument { kind, namespace, name }| {
                Subject::new(&kind, namespace, name)
            });
        let all: BTreeSet<Subject> = subjects.collect();
        let is_cut = all.len() > MAX_SUBJECTS;
        let record = (!all.is_empty()).then(|| Self {
            to_cluster_role: role_ref.kind == "ClusterRole",
            role: role_ref.name,
            subjects: all.into_iter().take(MAX_SUBJECTS).collect(),
            is_cut,
        });

        Ok(metadata.read(record))
    }

    fn weight(&self) -> usize {
        let of = |subject: &Subject| match subject {
            Subject::Account((namespace, name)) => namespace.len() + name.len() + 3 * TEXT,
            Subject::Group(name) => name.len() + 3 * TEXT,
        };
        self.role.len() + self.subjects.iter().map(of).sum::<usize>()
    }

    fn is_cut(&self) -> bool {
        self.is_cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put<T: Record>(table: &Table<T>, json: &str) {
        let Read { name, record, .. } = T::read(json.as_bytes()).expect("an object");
        record.into_iter().for_each(|record| table.put(name.clone(), record));
    }

    #[test]
    fn a_binding_grants_the_rules_of_its_role() {
        let all = Roles::default();
        put(
            &all.cluster_roles,
            r#"{"metadata":{"name":"op"},"rules":[
            {"verbs":["update"],"apiGroups":["a.io"],"resources":["ws/status"]},
            {"verbs":["get"],"nonResourceURLs":["/metrics"]},
            {"verbs":["get"],"apiGroups":["a.io"],"resources":["ws"],"resourceNames":["one"]}]}"#,
        );
        put(
            &all.roles,
            r#"{"metadata":{"name":"op","namespace":"team"},"rules":[
            {"verbs":["list"],"apiGroups":["a.io"],"resources":["ws"]}]}"#,
        );
        put(
            &all.cluster_bindings,
            r#"{"metadata":{"name":"b"},"roleRef":{"kind":"ClusterRole","name":"op"},
            "subjects":[{"kind":"ServiceAccount","namespace":"ops","name":"op"},{"kind":"User","name":"jane"}]}"#,
        );
        put(
            &all.bindings,
            r#"{"metadata":{"name":"b","namespace":"team"},"roleRef":{"kind":"Role","name":"op"},
            "subjects":[{"kind":"ServiceAccount","namespace":"ops","name":"op"}]}"#,
        );
        put(
            &all.bindings,
            r#"{"metadata":{"name":"c","namespace":"team"},"roleRef":{"kind":"Role","name":"gone"},
            "subjects":[{"kind":"ServiceAccount","namespace":"ops","name":"op"}]}"#,
        );

        let account = ("ops".to_owned(), "op".to_owned());
        let grants = all.grants([account.clone()].into());
        assert!(grants.rules(&account, "").allow("update", "a.io", "ws/status"));
        assert!(!grants.rules(&account, "").allow("list", "a.io", "ws"));
        assert!(grants.rules(&account, "team").allow("list", "a.io", "ws"));
        assert!(!grants.rules(&account, "team").allow("get", "a.io", "ws"), "of one object only");
    }

    #[test]
    fn repeated_rules_take_no_memory() {
        let rule = r#"{"verbs":["get"],"apiGroups":["a.io"],"resources":["ws"]}"#;
        let rules = vec![rule; 5_000].join(",");
        let json = format!(r#"{{"metadata":{{"name":"r"}},"rules":[{rules}]}}"#);
        let read = RoleRules::read(json.as_bytes()).expect("a role");
        let role = read.record.expect("its rules");
        assert_eq!((role.rules.len(), role.is_cut), (1, false));
    }

    #[test]
    fn a_role_or_a_binding_without_room_for_all_of_it_counts_as_left_out() {
        let all = Roles::default();
        let rule = |number| {
            format!(r#"{{"verbs":["get"],"apiGroups":["a.io"],"resources":["w{number}"]}}"#)
        };
        let rules: Vec<String> = (0..=MAX_RULES).map(rule).collect();
        let rules = rules.join(",");
        put(&all.roles, &format!(r#"{{"metadata":{{"name":"r"}},"rules":[{rules}]}}"#));
        assert_eq!(all.left_out(), 1);

        let subject =
            |number| format!(r#"{{"kind":"ServiceAccount","namespace":"a","name":"b{number}"}}"#);
        for most in [MAX_SUBJECTS, MAX_SUBJECTS + 1] {
            let subjects: Vec<String> = (0..most).map(subject).collect();
            let subjects = subjects.join(",");
            let json = format!(r#"{{"metadata":{{"name":"b{most}"}},"subjects":[{subjects}]}}"#);
            put(&all.bindings, &json);
        }
        assert_eq!(all.left_out(), 2);
    }

    #[test]
    fn a_binding_without_service_accounts_is_not_kept() {
        let json =
            r#"{"metadata":{"name":"b"},"subjects":[{"kind":"Group","name":"system:masters"}]}"#;
        assert!(Binding::read(json.as_bytes()).expect("a binding").record.is_none());
        assert!(Binding::read(br#"{"subjects":7}"#).is_err());
    }
}
