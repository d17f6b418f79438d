//! Which findings about single objects page.
//!
//! One object that the operator neglects is a ticket. A page needs many objects of a kind at once, a
//! finding that has lasted, or an object that somebody has marked as critical. A finding that pages
//! once keeps its severity until it closes, so that its alert neither flaps nor ends before the
//! problem. Other findings page only if most objects of the kind have had them for long.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Alert, Finding, FindingCode, FindingId, Subject};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::findings::open_findings::places::Group;
use crate::model::findings::open_findings::record::Record;
use crate::model::findings::open_findings::report::{PageRule, PagesIf};
use crate::model::world::crowd::Crowd;
use crate::time::{Span, Timestamp};

/// The findings that may page and are open or wait for room, by code and kind.
#[derive(Debug, Default)]
pub(super) struct Paging {
    affected: BTreeMap<Key, Affected>,
    /// What has another finding or other limits in this step.
    changed: BTreeSet<Key>,
    /// When each ticket has lasted, unless it already has.
    lasting: BTreeMap<(Timestamp, FindingId), Key>,
}

type Key = (FindingCode, Subject);

/// The findings with one code about the objects of one kind.
#[derive(Debug)]
struct Affected {
    pages_if: PagesIf,
    /// By namespace.
    findings: Crowd<Group, FindingId>,
    /// Those that do not page yet, and when each has lasted.
    tickets: BTreeMap<FindingId, Ticket>,
    /// Those that have lasted, by namespace. They count until they close.
    lasted: Crowd<Group, FindingId>,
}

/// A finding that does not page yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ticket {
    lasts_from: Timestamp,
    group: Group,
}

/// When loopwatch looks again at a finding that has lasted, but whose subject nobody sees.
const LOOK_AGAIN_AFTER: Span = Span::mins(1);

impl OpenFindings {
    /// Notes that a finding has opened, has begun to wait for room, or has changed.
    pub(super) fn note_paging(&mut self, id: FindingId) {
        let Some(record) = self.open.get(id).or_else(|| self.waiting.get(id)) else { return };
        let Some(key) = key(&record.finding) else { return };

        match record.may_page() {
            Some(pages_if) => {
                let began = if pages_if.counts_from_due { record.due } else { record.opened };
                let lasts_from = began.after(pages_if.lasts);
                let is_ticket = !record.pages && pages_if.rule != PageRule::AtOnce;
                let ticket = is_ticket.then(|| Ticket { lasts_from, group: record.group.clone() });
                self.paging.set(key, id, &record.group, ticket, pages_if);
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

    /// Gives the findings that page by now the severity for it. Whether a finding lasts while nobody
    /// sees its subject is not known, so it waits.
    pub(crate) fn page(&mut self, now: Timestamp, is_seen: impl Fn(&Subject) -> bool) {
        let records = (&self.open, &self.waiting);
        let is_seen = |id| {
            let record = records.0.get(id).or_else(|| records.1.get(id));
            record.is_none_or(|record: &Record| is_seen(&record.finding.subject))
        };

        for id in self.paging.take_due(now, is_seen) {
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
    /// Adds a finding, or updates it. It has a ticket unless it pages already.
    fn set(
        &mut self,
        key: Key,
        id: FindingId,
        group: &Group,
        ticket: Option<Ticket>,
        pages_if: PagesIf,
    ) {
        let affected = self.affected.entry(key.clone()).or_insert_with(|| Affected {
            pages_if,
            findings: Crowd::default(),
            tickets: BTreeMap::new(),
            lasted: Crowd::default(),
        });
        let before = (affected.findings.len(), affected.pages_if);
        affected.findings.insert(group, id, 1);
        affected.pages_if = pages_if;
        if before != (affected.findings.len(), pages_if) {
            self.changed.insert(key.clone());
        }

        let lasts_from = ticket.as_ref().map(|ticket| ticket.lasts_from);
        let old = match ticket {
            Some(ticket) => affected.tickets.insert(id, ticket),
            None => affected.tickets.remove(&id),
        };
        let old = old.map(|old| old.lasts_from);
        if old != lasts_from {
            old.map(|old| self.lasting.remove(&(old, id)));
            self.lasting.extend(lasts_from.map(|at| ((at, id), key)));
        }
    }

    fn remove(&mut self, key: &Key, id: FindingId, group: &Group) {
        let Some(affected) = self.affected.get_mut(key) else { return };
        affected.findings.remove(group, &id);
        affected.lasted.remove(group, &id);
        if let Some(ticket) = affected.tickets.remove(&id) {
            self.lasting.remove(&(ticket.lasts_from, id));
        }

        if affected.findings.len() == 0 {
            self.affected.remove(key);
        }
    }

    /// Returns the tickets that page by now.
    fn take_due(&mut self, now: Timestamp, is_seen: impl Fn(FindingId) -> bool) -> Vec<FindingId> {
        while let Some(entry) = self.lasting.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, id), key) = entry.remove_entry();
            if !is_seen(id) {
                self.lasting.insert((now.after(LOOK_AGAIN_AFTER), id), key);
            } else if let Some(affected) = self.affected.get_mut(&key) {
                affected.note_lasted(id);
                self.changed.insert(key);
            }
        }

        let changed = std::mem::take(&mut self.changed);
        let affected = changed.iter().filter_map(|key| self.affected.get(key));
        affected.flat_map(Affected::due).collect()
    }

    /// Returns the next time at which a finding has lasted.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.lasting.first_key_value().map(|((at, _), _)| *at)
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        let lasting = std::mem::take(&mut self.lasting).into_iter();
        self.lasting = lasting.map(|((at, id), key)| ((at.shifted(by_ms), id), key)).collect();
        let tickets = self.affected.values_mut().flat_map(|of| of.tickets.values_mut());
        tickets.for_each(|ticket| ticket.lasts_from = ticket.lasts_from.shifted(by_ms));
    }
}

impl Affected {
    fn note_lasted(&mut self, id: FindingId) {
        if let Some(ticket) = self.tickets.get(&id) {
            self.lasted.insert(&ticket.group, id, 1);
        }
    }

    /// Returns the tickets that page by now.
    fn due(&self) -> Vec<FindingId> {
        let has_lasted = |id: &FindingId, ticket: &Ticket| self.lasted.contains(&ticket.group, id);
        let tickets = self.tickets.iter();
        match self.pages_if.rule {
            PageRule::AtOnce | PageRule::ManyOrLasting if self.are_many(&self.findings) => {
                tickets.map(|(id, _)| *id).collect()
            }
            PageRule::MostLasting if !self.are_most(&self.lasted) => Vec::new(),
            _ => tickets.filter(|(id, of)| has_lasted(id, of)).map(|(id, _)| *id).collect(),
        }
    }

    /// Returns whether findings are many, or most of their kind.
    fn are_many(&self, findings: &Crowd<Group, FindingId>) -> bool {
        findings.len() >= self.pages_if.share
            || ((self.are_wide(findings) || self.pages_if.objects == 1)
                && findings.len() >= self.pages_if.objects)
    }

    /// Returns whether most objects of the kind have one of these findings, and not all of these
    /// objects may belong to one user.
    fn are_most(&self, findings: &Crowd<Group, FindingId>) -> bool {
        self.are_wide(findings) && findings.len() >= self.pages_if.share
    }

    fn are_wide(&self, findings: &Crowd<Group, FindingId>) -> bool {
        !self.pages_if.has_namespaces || findings.groups() > 1
    }
}

/// Returns where a finding counts, if findings of its code may page.
fn key(finding: &Finding) -> Option<Key> {
    if !matches!(finding.info().alert, Alert::Page | Alert::TicketUnlessMost) {
        return None;
    }

    Some((finding.code, finding.subject.whole_kind()?))
}
