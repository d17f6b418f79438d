//! Lines of a tree.

/// One line of a tree.
pub(super) struct TreeLine {
    pub(super) label: String,
    /// For each level, whether this line or its ancestor is the last one there.
    last: Vec<bool>,
}

impl TreeLine {
    /// A line below those of `last`; if that is empty, the line is at the top.
    pub(super) fn new(label: String, last: Vec<bool>) -> Self {
        Self { label, last }
    }

    /// The level; 0 at the top.
    pub(super) fn depth(&self) -> usize {
        self.last.len()
    }

    /// The branches before the label.
    pub(super) fn branches(&self) -> String {
        match self.last.split_last() {
            None => String::new(),
            Some((last, above)) => trunks(above) + if *last { "└─ " } else { "├─ " },
        }
    }

    /// The branches before the continuation lines of a long label.
    pub(super) fn continuation(&self) -> String {
        trunks(&self.last)
    }
}

fn trunks(levels: &[bool]) -> String {
    levels.iter().map(|last| if *last { "   " } else { "│  " }).collect()
}
