//! Items by the group that they belong to, mostly a namespace. If a table has no room left, the
//! largest group makes room for a smaller one, so nobody fills a table at the expense of others.

use std::collections::{BTreeMap, BTreeSet};

/// Items by group. Each operation takes logarithmic time.
#[derive(Debug)]
pub(crate) struct Crowd<G, I> {
    items: BTreeMap<G, BTreeSet<I>>,
    sizes: BTreeSet<(usize, G)>,
    len: usize,
}

/// How many more items a group has than another one for which it makes room. With a smaller
/// difference, two groups would take each other's places in turns.
const DIFFERENCE: usize = 2;

impl<G, I> Default for Crowd<G, I> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), sizes: BTreeSet::new(), len: 0 }
    }
}

impl<G: Ord + Clone, I: Ord> Crowd<G, I> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of items of a group.
    pub(crate) fn size(&self, group: &G) -> usize {
        self.items.get(group).map_or(0, BTreeSet::len)
    }

    pub(crate) fn insert(&mut self, group: &G, item: I) {
        let items = self.items.entry(group.clone()).or_default();
        let before = items.len();
        if items.insert(item) {
            self.sizes.remove(&(before, group.clone()));
            self.sizes.insert((before + 1, group.clone()));
            self.len += 1;
        }
    }

    pub(crate) fn remove(&mut self, group: &G, item: &I) {
        let Some(items) = self.items.get_mut(group) else { return };
        let before = items.len();
        if !items.remove(item) {
            return;
        }

        self.len -= 1;
        self.sizes.remove(&(before, group.clone()));
        if items.is_empty() {
            self.items.remove(group);
        } else {
            self.sizes.insert((before - 1, group.clone()));
        }
    }

    /// Returns the first item of a group.
    pub(crate) fn first(&self, group: &G) -> Option<&I> {
        self.items.get(group)?.first()
    }

    /// Returns the last item of a group.
    pub(crate) fn last(&self, group: &G) -> Option<&I> {
        self.items.get(group)?.last()
    }

    /// Returns the largest group.
    pub(crate) fn largest(&self) -> Option<&G> {
        self.sizes.last().map(|(_, group)| group)
    }

    /// Returns the largest group, if it has to make room for another item of this one.
    pub(crate) fn gives_way_to(&self, group: &G) -> Option<&G> {
        let (size, largest) = self.sizes.last()?;
        (*size >= self.size(group) + DIFFERENCE).then_some(largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(sizes: &[(&'static str, u32)]) -> Crowd<&'static str, u32> {
        let mut crowd = Crowd::default();
        for (group, size) in sizes {
            (0..*size).for_each(|item| crowd.insert(group, item));
        }

        crowd
    }

    #[test]
    fn the_largest_group_gives_way_to_one_that_has_two_fewer() {
        let crowd = crowd(&[("a", 5), ("b", 4), ("c", 3)]);
        assert_eq!(crowd.gives_way_to(&"a"), None);
        assert_eq!(crowd.gives_way_to(&"b"), None, "they would take turns");
        assert_eq!(crowd.gives_way_to(&"c"), Some(&"a"));
        assert_eq!(crowd.gives_way_to(&"new"), Some(&"a"));
    }

    #[test]
    fn groups_shrink_and_end_with_their_items() {
        let mut crowd = crowd(&[("a", 3), ("b", 2)]);
        crowd.insert(&"a", 0);
        assert_eq!((crowd.len(), crowd.size(&"a"), crowd.first(&"a")), (5, 3, Some(&0)));

        (0..3).for_each(|item| crowd.remove(&"a", &item));
        crowd.remove(&"a", &0);
        assert_eq!((crowd.len(), crowd.gives_way_to(&"a")), (2, Some(&"b")));
        assert_eq!((crowd.items.len(), crowd.sizes.len()), (1, 1));
    }
}
