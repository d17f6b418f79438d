//! Collects the signals of all controllers in one scrape.

use std::collections::BTreeMap;

use loopwatch_model::observation::{ControllerView, MAX_CONTROLLERS};

use super::seen::SeenSeries;
use super::sheet::Sheet;
use super::views::controller_view;

/// The sheets of all controllers. Beyond the limit, the alphabetically first names stay, so that
/// the choice does not depend on the order of the series.
#[derive(Default)]
pub(super) struct Controllers {
    sheets: BTreeMap<String, Origins>,
    /// The names beyond the limit.
    left_out: SeenSeries,
}

/// The sheets of one controller, by table and by the place of its name.
type Origins = BTreeMap<(usize, usize), Box<Sheet>>;

impl Controllers {
    /// Returns the sheet of a controller; `None` if there are too many.
    pub(super) fn sheet(&mut self, name: &str, table: usize, lane: usize) -> Option<&mut Sheet> {
        if !self.sheets.contains_key(name) {
            if self.sheets.len() >= MAX_CONTROLLERS {
                let last =
                    self.sheets.last_key_value().is_some_and(|(last, _)| last.as_str() < name);
                if last {
                    self.left_out.insert(&name);
                    return None;
                }

                if let Some((last, _)) = self.sheets.pop_last() {
                    self.left_out.insert(&last.as_str());
                }
            }

            self.sheets.insert(name.to_owned(), Origins::new());
        }

        Some(self.sheets.get_mut(name)?.entry((table, lane)).or_default())
    }

    /// Returns the controllers that these tables know, and the number of those beyond the limit.
    pub(super) fn views(
        self,
        tables: impl Iterator<Item = usize> + Clone,
    ) -> (Vec<ControllerView>, u32) {
        let mut joined: BTreeMap<String, (String, Sheet)> = BTreeMap::new();
        let mut add = |name: &str, sheet: &Sheet| {
            let entry = joined
                .entry(sanitized(name))
                .or_insert_with(|| (name.to_owned(), Sheet::default()));
            entry.1.complete(sheet);
        };

        for table in tables {
            // Visit the lanes in order: if several lanes name a controller, the name in the first
            // one counts.
            let lanes = self
                .sheets
                .values()
                .flat_map(|origins| origins.keys().map(|(_, lane)| *lane))
                .max();
            for lane in 0..=lanes.unwrap_or_default() {
                for (name, origins) in &self.sheets {
                    if let Some(sheet) = origins.get(&(table, lane)) {
                        add(name, sheet);
                    }
                }
            }
        }

        let mut views: Vec<_> =
            joined.into_values().map(|(name, sheet)| controller_view(name, &sheet)).collect();
        views.sort_by(|left, right| left.name.cmp(&right.name));
        (views, self.left_out.len())
    }
}

/// A name as a metric name contains it: fewer characters are allowed there than in a label.
fn sanitized(name: &str) -> String {
    name.chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '_' })
        .collect()
}
