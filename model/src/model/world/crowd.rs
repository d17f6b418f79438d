//! Items by the group that they belong to, mostly a namespace. If a table has no room left, the
//! largest group makes room for a smaller one, so nobody fills a table at the expense of others.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::world::World;
use crate::model::world::limits::Limit;

/// Items by group. Each operation takes logarithmic time.
#[derive(Debug)]
pub(crate) struct Crowd<G, I> {
    groups: BTreeMap<G, Members<I>>,
    sizes: BTreeSet<(usize, G)>,
    len: usize,
    size: usize,
}

/// The items of one group, each with its size.
#[derive(Debug)]
struct Members<I> {
    items: BTreeMap<I, usize>,
    size: usize,
}

/// The maximum number of items that leave for another one. In each table, the largest item takes less
/// than this many of the smallest.
pub(crate) const MAX_LEAVING: usize = 128;

/// A group gets room from the largest one only if it is smaller by at least this many times the size
/// of the new item. With a smaller difference, two groups would take each other's places in turns.
const DIFFERENCE: usize = 2;

impl<G, I> Default for Crowd<G, I> {
    fn default() -> Self {
        Self { groups: BTreeMap::new(), sizes: BTreeSet::new(), len: 0, size: 0 }
    }
}

impl<I> Default for Members<I> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), size: 0 }
    }
}

impl<G: Ord + Clone, I: Ord> Crowd<G, I> {
    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the size of all items.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Returns the size of a group.
    pub(crate) fn size_of(&self, group: &G) -> usize {
        self.groups.get(group).map_or(0, |members| members.size)
    }

    /// Adds an item, or changes its size.
    pub(crate) fn insert(&mut self, group: &G, item: I, size: usize) {
        let members = self.groups.entry(group.clone()).or_default();
        self.sizes.remove(&(members.size, group.clone()));
        let old = members.items.insert(item, size);
        members.size = members.size + size - old.unwrap_or_default();
        self.sizes.insert((members.size, group.clone()));

        self.len += usize::from(old.is_none());
        self.size = self.size + size - old.unwrap_or_default();
    }

    pub(crate) fn remove(&mut self, group: &G, item: &I) {
        let Some(members) = self.groups.get_mut(group) else { return };
        let Some(size) = members.items.remove(item) else { return };
        self.sizes.remove(&(members.size, group.clone()));
        members.size -= size;
        if members.items.is_empty() {
            self.groups.remove(group);
        } else {
            self.sizes.insert((members.size, group.clone()));
        }

        self.len -= 1;
        self.size -= size;
    }

    /// Returns whether a group has an item.
    pub(crate) fn contains(&self, group: &G, item: &I) -> bool {
        self.groups.get(group).is_some_and(|members| members.items.contains_key(item))
    }

    /// Returns the first item of a group.
    pub(crate) fn first(&self, group: &G) -> Option<&I> {
        Some(self.groups.get(group)?.items.first_key_value()?.0)
    }

    /// Returns the last item of a group.
    pub(crate) fn last(&self, group: &G) -> Option<&I> {
        Some(self.groups.get(group)?.items.last_key_value()?.0)
    }

    /// Returns the largest group.
    pub(crate) fn largest(&self) -> Option<&G> {
        self.sizes.last().map(|(_, group)| group)
    }

    /// Returns the largest group, if it has to make room for another item of this group and size.
    pub(crate) fn gives_way_to(&self, group: &G, size: usize) -> Option<&G> {
        let (largest, other) = self.sizes.last()?;
        (*largest >= self.size_of(group) + DIFFERENCE * size).then_some(other)
    }

    /// Returns the item that makes room for another one of this group and size, if one does.
    pub(crate) fn leaves_for(&self, group: &G, size: usize) -> Option<&I> {
        self.last(self.gives_way_to(group, size)?)
    }
}

/// Makes room in a table: as long as it has none, the item that `leaves` makes room, and `forget`
/// removes it. Each item that leaves, or finds no room, counts as dropped. Returns whether there is
/// room.
pub(crate) fn make_room<T, I>(
    table: &mut T,
    world: &mut World,
    limit: Limit,
    has_room: impl Fn(&T) -> bool,
    leaves: impl Fn(&T) -> Option<I>,
    mut forget: impl FnMut(&mut T, &mut World, I),
) -> bool {
    for _ in 0..MAX_LEAVING {
        if has_room(table) {
            return true;
        }

        world.count_dropped(limit);
        let Some(item) = leaves(table) else { return false };
        forget(table, world, item);
    }

    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(groups: &[(&'static str, u32, usize)]) -> Crowd<&'static str, u32> {
        let mut crowd = Crowd::default();
        for (group, count, size) in groups {
            (0..*count).for_each(|item| crowd.insert(group, item, *size));
        }

        crowd
    }

    #[test]
    fn the_largest_group_gives_way_to_one_that_has_two_fewer() {
        let crowd = crowd(&[("a", 5, 1), ("b", 4, 1), ("c", 3, 1)]);
        assert_eq!(crowd.gives_way_to(&"a", 1), None);
        assert_eq!(crowd.gives_way_to(&"b", 1), None, "they would take turns");
        assert_eq!(crowd.gives_way_to(&"c", 1), Some(&"a"));
        assert_eq!(crowd.leaves_for(&"new", 1), Some(&4));
    }

    #[test]
    fn a_few_large_items_make_room_for_many_small_ones_but_not_the_other_way_round() {
        let crowd = crowd(&[("many", 100, 8), ("large", 10, 1_000)]);
        assert_eq!(crowd.gives_way_to(&"many", 8), Some(&"large"));
        assert_eq!(crowd.gives_way_to(&"large", 1_000), None);
    }

    #[test]
    fn groups_shrink_and_end_with_their_items() {
        let mut crowd = crowd(&[("a", 3, 2), ("b", 2, 1)]);
        crowd.insert(&"a", 0, 1);
        assert_eq!((crowd.len(), crowd.size(), crowd.size_of(&"a")), (5, 7, 5));
        assert_eq!((crowd.first(&"a"), crowd.last(&"a")), (Some(&0), Some(&2)));

        (0..3).for_each(|item| crowd.remove(&"a", &item));
        crowd.remove(&"a", &0);
        assert_eq!((crowd.len(), crowd.size(), crowd.largest()), (2, 2, Some(&"b")));
        assert_eq!((crowd.groups.len(), crowd.sizes.len()), (1, 1));
    }
}
