//! Which findings about single objects page.
//!
//! One object that the operator neglects is a ticket. A page needs many objects of a kind at once, a
//! finding that has lasted, or an object that somebody has marked as critical. A finding that pages
//! once keeps its severity until it closes, so that its alert neither flaps nor ends before the
//! problem.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Finding, FindingCode, FindingId, Subject};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::findings::open_findings::places::Group;
use crate::model::findings::open_findings::record::Record;
use crate::time::{Span, Timestamp};

/// When a finding about an object pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PagesIf {
    /// The number of objects with the finding that is enough if they are in several namespaces, or if
    /// the kind has objects in one namespace only.
    pub(crate) objects: usize,
    /// The number of objects with the finding that is enough wherever they are.
    pub(crate) share: usize,
    /// Whether the kind has objects in several namespaces.
    pub(crate) has_namespaces: bool,
    /// How long a finding has to be open that is about fewer objects.
    pub(crate) lasts: Span,
}

/// The findings that may page and are open or wait for room, by code and kind.
#[derive(Debug, Default)]
pub(super) struct Paging {
    affected: BTreeMap<Key, Affected>,
    /// What has changed in this step.
    changed: BTreeSet<Key>,
    /// When each finding pages because it has lasted.
    lasting: BTreeSet<(Timestamp, FindingId)>,
}

type Key = (FindingCode, Subject);

/// The findings with one code about the objects of one kind.
#[derive(Debug)]
struct Affected {
    pages_if: PagesIf,
    /// Their namespaces, and when each pages because it has lasted.
    findings: BTreeMap<FindingId, (Group, Timestamp)>,
    namespaces: BTreeMap<Group, usize>,
}

impl OpenFindings {
    /// Notes that a finding has opened, has begun to wait for room, or has changed.
    pub(super) fn note_paging(&mut self, id: FindingId) {
        let Some(record) = self.open.get(id).or_else(|| self.waiting.get(id)) else { return };
        let Some(key) = key(&record.finding) else { return };

        self.paging.remove(&key, id);
        if let Some(pages_if) = record.may_page() {
            let at = record.due.after(pages_if.lasts);
            self.paging.add(key, id, (record.group.clone(), at), pages_if);
        }
    }

    /// Notes that a finding has closed, or no longer waits.
    pub(super) fn forget_paging(&mut self, finding: &Finding) {
        if let Some(key) = key(finding) {
            self.paging.remove(&key, finding.id);
        }
    }

    /// Gives the findings that page by now the severity for it.
    pub(super) fn page(&mut self, now: Timestamp) {
        let mut ids = self.paging.take_many();
        ids.extend(self.paging.take_lasting(now));

        for id in ids {
            match self.change_open(id, Record::page) {
                Some(true) => self.mark_reassessed(id),
                Some(false) => {}
                None => self.change_waiting(id, |record| _ = record.page()),
            }
        }
    }
}

impl Paging {
    fn add(&mut self, key: Key, id: FindingId, (group, at): (Group, Timestamp), pages_if: PagesIf) {
        let affected = self.affected.entry(key.clone()).or_insert_with(|| Affected {
            pages_if,
            findings: BTreeMap::new(),
            namespaces: BTreeMap::new(),
        });

        affected.pages_if = pages_if;
        affected.findings.insert(id, (group.clone(), at));
        *affected.namespaces.entry(group).or_default() += 1;
        self.lasting.insert((at, id));
        self.changed.insert(key);
    }

    fn remove(&mut self, key: &Key, id: FindingId) {
        let Some(affected) = self.affected.get_mut(key) else { return };
        let Some((group, at)) = affected.findings.remove(&id) else { return };
        self.lasting.remove(&(at, id));

        if let Some(findings) = affected.namespaces.get_mut(&group) {
            *findings -= 1;
            if *findings == 0 {
                affected.namespaces.remove(&group);
            }
        }

        if affected.findings.is_empty() {
            self.affected.remove(key);
        }
    }

    /// Returns the findings that page because there are many of them.
    fn take_many(&mut self) -> Vec<FindingId> {
        let changed = std::mem::take(&mut self.changed);
        let affected = changed.iter().filter_map(|key| self.affected.get(key));
        let many = affected.filter(|affected| affected.is_many());
        many.flat_map(|affected| affected.findings.keys().copied()).collect()
    }

    /// Removes and returns the findings that page because they have lasted.
    fn take_lasting(&mut self, now: Timestamp) -> Vec<FindingId> {
        let later = self.lasting.split_off(&(Timestamp(now.0.saturating_add(1)), FindingId(0)));
        let lasting = std::mem::replace(&mut self.lasting, later);
        lasting.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the next time at which a finding pages because it has lasted.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.lasting.first().map(|(at, _)| *at)
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        let lasting = std::mem::take(&mut self.lasting).into_iter();
        self.lasting = lasting.map(|(at, id)| (at.shifted(by_ms), id)).collect();
        let findings =
            self.affected.values_mut().flat_map(|affected| affected.findings.values_mut());
        findings.for_each(|(_, at)| *at = at.shifted(by_ms));
    }
}

impl Affected {
    fn is_many(&self) -> bool {
        let PagesIf { objects, share, has_namespaces, .. } = self.pages_if;
        let is_wide = !has_namespaces || self.namespaces.len() > 1;
        self.findings.len() >= share || (is_wide && self.findings.len() >= objects)
    }
}

fn key(finding: &Finding) -> Option<Key> {
    Some((finding.code, finding.subject.whole_kind()?))
}
