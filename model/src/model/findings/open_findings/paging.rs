//! Which findings about single objects page.
//!
//! One object that the operator neglects is a ticket. A page needs many objects of a kind at once, a
//! finding that has lasted, or an object that somebody has marked as critical. A finding that pages
//! once keeps its severity until it closes, so that its alert neither flaps nor ends before the
//! problem.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Alert, Finding, FindingCode, FindingId, Subject};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::findings::open_findings::places::Group;
use crate::model::findings::open_findings::record::Record;
use crate::model::findings::open_findings::report::PagesIf;
use crate::model::world::crowd::Crowd;
use crate::time::Timestamp;

/// The findings that may page and are open or wait for room, by code and kind.
#[derive(Debug, Default)]
pub(super) struct Paging {
    affected: BTreeMap<Key, Affected>,
    /// What has another finding or other limits in this step.
    changed: BTreeSet<Key>,
    /// When each ticket pages because it has lasted.
    lasting: BTreeSet<(Timestamp, FindingId)>,
}

type Key = (FindingCode, Subject);

/// The findings with one code about the objects of one kind.
#[derive(Debug)]
struct Affected {
    pages_if: PagesIf,
    /// By namespace.
    findings: Crowd<Group, FindingId>,
    /// Those that do not page yet, and when each does because it has lasted.
    tickets: BTreeMap<FindingId, Timestamp>,
}

impl OpenFindings {
    /// Notes that a finding has opened, has begun to wait for room, or has changed.
    pub(super) fn note_paging(&mut self, id: FindingId) {
        let Some(record) = self.open.get(id).or_else(|| self.waiting.get(id)) else { return };
        let Some(key) = key(&record.finding) else { return };

        match record.may_page() {
            Some(pages_if) => {
                let pages_at = (!record.pages).then(|| record.due.after(pages_if.lasts));
                self.paging.set(key, id, &record.group, pages_at, pages_if);
            }
            None => self.paging.remove(&key, id, &record.group),
        }
    }

    /// Notes that a finding has closed, or no longer waits.
    pub(super) fn forget_paging(&mut self, record: &Record) {
        if let Some(key) = key(&record.finding) {
            self.paging.remove(&key, record.finding.id, &record.group);
        }
    }

    /// Gives the findings that page by now the severity for it.
    pub(super) fn page(&mut self, now: Timestamp) {
        for id in self.paging.take_due(now) {
            match self.change_open(id, Record::page) {
                Some(true) => self.mark_reassessed(id),
                Some(false) => {}
                None => self.change_waiting(id, |record| _ = record.page()),
            }

            self.note_paging(id);
        }
    }
}

impl Paging {
    /// Adds a finding, or updates it. `pages_at` is when it pages because it has lasted, unless it
    /// pages already.
    fn set(
        &mut self,
        key: Key,
        id: FindingId,
        group: &Group,
        pages_at: Option<Timestamp>,
        pages_if: PagesIf,
    ) {
        let affected = self.affected.entry(key.clone()).or_insert_with(|| Affected {
            pages_if,
            findings: Crowd::default(),
            tickets: BTreeMap::new(),
        });
        let before = (affected.findings.len(), affected.pages_if);
        affected.findings.insert(group, id, 1);
        affected.pages_if = pages_if;
        if before != (affected.findings.len(), pages_if) {
            self.changed.insert(key);
        }

        let old = match pages_at {
            Some(at) => affected.tickets.insert(id, at),
            None => affected.tickets.remove(&id),
        };
        if old != pages_at {
            old.map(|old| self.lasting.remove(&(old, id)));
            self.lasting.extend(pages_at.map(|at| (at, id)));
        }
    }

    fn remove(&mut self, key: &Key, id: FindingId, group: &Group) {
        let Some(affected) = self.affected.get_mut(key) else { return };
        affected.findings.remove(group, &id);
        if let Some(at) = affected.tickets.remove(&id) {
            self.lasting.remove(&(at, id));
        }

        if affected.findings.len() == 0 {
            self.affected.remove(key);
        }
    }

    /// Returns the tickets that page by now: those with many others, and those that have lasted.
    fn take_due(&mut self, now: Timestamp) -> Vec<FindingId> {
        let changed = std::mem::take(&mut self.changed);
        let affected = changed.iter().filter_map(|key| self.affected.get(key));
        let many = affected.filter(|affected| affected.is_many());
        let many = many.flat_map(|affected| affected.tickets.keys().copied());

        let lasting = self.lasting.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id);
        many.chain(lasting).collect()
    }

    /// Returns the next time at which a finding pages because it has lasted.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.lasting.first().map(|(at, _)| *at)
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        let lasting = std::mem::take(&mut self.lasting).into_iter();
        self.lasting = lasting.map(|(at, id)| (at.shifted(by_ms), id)).collect();
        let tickets = self.affected.values_mut().flat_map(|of| of.tickets.values_mut());
        tickets.for_each(|at| *at = at.shifted(by_ms));
    }
}

impl Affected {
    fn is_many(&self) -> bool {
        let PagesIf { objects, share, has_namespaces, .. } = self.pages_if;
        let is_wide = !has_namespaces || self.findings.groups() > 1;
        self.findings.len() >= share || (is_wide && self.findings.len() >= objects)
    }
}

/// Returns where a finding counts, if findings of its code may page.
fn key(finding: &Finding) -> Option<Key> {
    if finding.info().alert != Alert::Page {
        return None;
    }

    Some((finding.code, finding.subject.whole_kind()?))
}
