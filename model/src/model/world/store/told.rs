//! What the status of an object that is being deleted has said.
//!
//! It tells progress from an error whose text differs at each attempt. A text that differs only in
//! numbers and identifiers says nothing new. A number in it shows progress if it counts down, or if
//! it is a percentage or a part of a total.

mod numbers; // in texts

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::model::world::store::told::numbers::{Counter, Number};
use crate::observation::{Condition, Fact, FactValue, ObjectView};

/// The number of texts that are remembered per deletion. Further ones show no progress.
const MAX_TEXTS: usize = 32;

/// The number of numbers that are remembered per text.
const MAX_NUMBERS: usize = 8;

/// The texts that a status has shown.
#[derive(Debug, Default)]
pub(crate) struct Told {
    texts: Vec<Text>,
    /// The fingerprint of all that the last version said.
    said: u64,
}

/// One text, whatever its numbers and identifiers were.
#[derive(Debug)]
struct Text {
    key: u64,
    counters: Vec<Counter>,
}

/// One part of a status.
struct Reading {
    /// Its fingerprint.
    raw: u64,
    /// Its fingerprint without numbers and identifiers.
    key: u64,
    numbers: Vec<Number>,
}

/// What a version of a status adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum News {
    /// Nothing: it repeats what the status has said before.
    Nothing,
    /// The same as the last version, as far as loopwatch reads it.
    Same,
    /// loopwatch cannot read anything in it.
    Unread,
    /// Something that the status has not said before in this deletion.
    New,
    /// A number shows progress.
    Counts,
}

impl Told {
    /// Returns the memory that the texts take, in bytes, in addition to the size of this value.
    pub(super) fn memory(&self) -> usize {
        let texts = self.texts.iter();
        texts.map(|text| size_of::<Text>() + text.counters.len() * size_of::<Counter>()).sum()
    }

    /// Takes the status of the next version.
    pub(crate) fn hear(&mut self, view: &ObjectView) -> News {
        let conditions = view.conditions.iter().map(of_condition);
        let facts = view.facts.iter().filter(|fact| fact.path.starts_with("status."));
        let facts = facts.map(of_fact);
        let mut whole = DefaultHasher::new(); // the same in every process
        let mut news = None;

        for Reading { raw, key, numbers } in conditions.chain(facts) {
            raw.hash(&mut whole);
            news = news.max(Some(self.hear_text(key, &numbers)));
        }

        let said = whole.finish();
        let is_same = std::mem::replace(&mut self.said, said) == said;
        match news {
            Some(News::Nothing) if is_same => News::Same,
            news => news.unwrap_or(News::Unread),
        }
    }

    fn hear_text(&mut self, key: u64, numbers: &[Number]) -> News {
        if let Some(text) = self.texts.iter_mut().find(|text| text.key == key) {
            let mut counts = false;
            for (counter, number) in text.counters.iter_mut().zip(numbers) {
                counts |= counter.count(*number);
            }

            return if counts { News::Counts } else { News::Nothing };
        }

        if self.texts.len() >= MAX_TEXTS {
            return News::Nothing;
        }

        let counters = numbers.iter().take(MAX_NUMBERS).map(|number| Counter::new(*number));
        self.texts.push(Text { key, counters: counters.collect() });
        News::New
    }
}

fn of_condition(condition: &Condition) -> Reading {
    let Condition { at, r#type, status, reason, message, .. } = condition;
    let mut key = DefaultHasher::new();
    let mut numbers = Vec::new();
    (at, r#type, status).hash(&mut key);
    let mut raw = key.clone();

    (reason, message).hash(&mut raw);
    numbers::read(reason, &mut key, &mut numbers);
    numbers::read(message, &mut key, &mut numbers);
    Reading { raw: raw.finish(), key: key.finish(), numbers }
}

fn of_fact(fact: &Fact) -> Reading {
    let mut key = DefaultHasher::new();
    let mut numbers = Vec::new();
    fact.path.hash(&mut key);
    let mut raw = key.clone();

    match &fact.value {
        FactValue::Text(text) => {
            text.hash(&mut raw);
            numbers::read(text, &mut key, &mut numbers);
        }
        FactValue::Number(number) => {
            number.hash(&mut raw);
            numbers.extend(Number::of_field(&fact.path, *number));
        }
        FactValue::Flag(flag) => {
            flag.hash(&mut raw);
            flag.hash(&mut key);
        }
    }

    Reading { raw: raw.finish(), key: key.finish(), numbers }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::ConditionStatus;

    fn saying(message: &str) -> ObjectView {
        let condition = Condition {
            r#type: "Ready".into(),
            status: ConditionStatus::False,
            reason: "Deleting".into(),
            message: message.into(),
            ..Condition::default()
        };
        ObjectView { conditions: vec![condition], ..ObjectView::default() }
    }

    fn last_news(messages: &[&str]) -> News {
        let mut told = Told::default();
        let news = messages.iter().map(|message| told.hear(&saying(message)));
        news.last().unwrap_or(News::Nothing)
    }

    #[test]
    fn a_text_that_differs_only_in_numbers_and_identifiers_says_nothing_new() {
        for messages in [
            ["AccessDenied, request id 8f1c-22", "AccessDenied, request id 99ab-1f"],
            ["attempt 3 failed", "attempt 4 failed"],
            ["gave up after 7 attempts", "gave up after 6 attempts"],
            ["next retry in 40 seconds", "next retry in 20 seconds"],
            ["failed at 2026-01-01T10:00:00Z", "failed at 2026-01-01T10:05:00Z"],
            ["quota request 481516 denied", "quota request 481999 denied"],
            ["waiting for Pod web-7d9f-xkcvb", "waiting for Pod web-7d9f-zzqpw"],
            ["try 1/5: timeout", "try 2/5: timeout"],
        ] {
            assert_eq!(last_news(&messages), News::Nothing, "{messages:?}");
        }
    }

    #[test]
    fn a_number_that_counts_down_and_a_share_that_rises_show_progress() {
        for messages in [
            ["40 Pods remaining", "39 Pods remaining"],
            ["remaining: 40", "remaining: 12."],
            ["drained 40%", "drained 41%"],
            ["deleted 3/10 volumes", "deleted 4/10 volumes"],
            ["deleted 3 of 10 volumes", "deleted 4 of 10 volumes"],
            ["moved 12.5 percent", "moved 12.75 percent"],
        ] {
            assert_eq!(last_news(&messages), News::Counts, "{messages:?}");
        }
    }

    #[test]
    fn a_count_that_starts_over_shows_no_progress_until_it_gets_further_than_before() {
        assert_eq!(last_news(&["drained 0%", "drained 40%", "drained 0%"]), News::Nothing);
        let again = ["drained 0%", "drained 40%", "drained 0%", "drained 30%"];
        assert_eq!(last_news(&again), News::Nothing);
    }

    #[test]
    fn numbers_that_jump_up_and_down_show_no_progress() {
        let jumps = ["code 70", "code 90", "code 60", "code 80", "code 50"];
        assert_eq!(last_news(&jumps), News::Nothing);
    }

    #[test]
    fn a_status_with_more_texts_than_are_remembered_says_nothing_new_when_it_repeats_itself() {
        let fact = |number: usize| Fact {
            path: format!("status.part{number}"),
            value: FactValue::Text("waits".into()),
        };
        let view = ObjectView { facts: (0..40).map(fact).collect(), ..ObjectView::default() };
        let mut told = Told::default();

        assert_eq!(told.hear(&view), News::New);
        assert_eq!(told.hear(&view), News::Same);
    }

    #[test]
    fn another_text_is_new_once() {
        assert_eq!(last_news(&["draining", "detaching"]), News::New);
        assert_eq!(last_news(&["draining", "failed", "draining"]), News::Nothing);
        assert_eq!(last_news(&["draining", "draining"]), News::Same);
        assert_eq!(Told::default().hear(&ObjectView::default()), News::Unread);
    }
}
