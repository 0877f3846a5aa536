//! Typed 32-bit ids and the maps they index.
//!
//! An entity is named by a newtype around `u32` whose text is what the text forms print and parse.
//! [`PrimaryMap`] owns the entities of one kind; [`SecondaryMap`] annotates them without touching them, with a default for ids it was never given.
//! Analyses never add fields to graph nodes: they return a `SecondaryMap`.

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// An id of an entity kept in a [`PrimaryMap`].
pub trait EntityId: Copy + Eq + Ord + std::hash::Hash {
    /// The id of the `index`-th entity.
    fn from_index(index: usize) -> Self;
    /// The position of the entity in its map.
    fn index(self) -> usize;
}

/// Declares a `u32` id type whose text is its prefix and number.
#[macro_export]
macro_rules! entity_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub u32);

        impl $crate::id::EntityId for $name {
            fn from_index(index: usize) -> Self {
                $name(u32::try_from(index).expect("invariant: fewer than 2^32 entities"))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

/// Owns the entities named by `K`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PrimaryMap<K, V> {
    items: Vec<V>,
    key: PhantomData<K>,
}

impl<K, V> Default for PrimaryMap<K, V> {
    fn default() -> Self {
        PrimaryMap { items: Vec::new(), key: PhantomData }
    }
}

impl<K: EntityId, V> PrimaryMap<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds an entity and returns its id.
    pub fn push(&mut self, value: V) -> K {
        self.items.push(value);
        K::from_index(self.items.len() - 1)
    }
    /// How many entities there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// The entity, or `None` when the id is not of this map.
    pub fn get(&self, id: K) -> Option<&V> {
        self.items.get(id.index())
    }
    /// All ids in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator + use<K, V> {
        (0..self.items.len()).map(K::from_index)
    }
    /// All entities in order.
    pub fn values(&self) -> std::slice::Iter<'_, V> {
        self.items.iter()
    }
    /// All entities in order, mutable.
    pub fn values_mut(&mut self) -> std::slice::IterMut<'_, V> {
        self.items.iter_mut()
    }
    /// Ids and entities in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(i, v)| (K::from_index(i), v))
    }
}

impl<K: EntityId, V> Index<K> for PrimaryMap<K, V> {
    type Output = V;
    fn index(&self, id: K) -> &V {
        &self.items[id.index()]
    }
}

impl<K: EntityId, V> IndexMut<K> for PrimaryMap<K, V> {
    fn index_mut(&mut self, id: K) -> &mut V {
        &mut self.items[id.index()]
    }
}

impl<K: EntityId, V> FromIterator<V> for PrimaryMap<K, V> {
    fn from_iter<I: IntoIterator<Item = V>>(iter: I) -> Self {
        PrimaryMap { items: iter.into_iter().collect(), key: PhantomData }
    }
}

/// Annotates the entities of some [`PrimaryMap`]; ids never set read as the default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecondaryMap<K, V> {
    items: Vec<V>,
    default: V,
    key: PhantomData<K>,
}

impl<K: EntityId, V: Clone + Default> Default for SecondaryMap<K, V> {
    fn default() -> Self {
        SecondaryMap { items: Vec::new(), default: V::default(), key: PhantomData }
    }
}

impl<K: EntityId, V: Clone> SecondaryMap<K, V> {
    /// An empty annotation with the default's default.
    pub fn new() -> Self
    where
        V: Default,
    {
        Self::default()
    }
    /// An empty annotation that reads as `default`.
    pub fn with_default(default: V) -> Self {
        SecondaryMap { items: Vec::new(), default, key: PhantomData }
    }
    /// One past the largest id that was set.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether nothing was ever set.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<K: EntityId, V: Clone> Index<K> for SecondaryMap<K, V> {
    type Output = V;
    fn index(&self, id: K) -> &V {
        self.items.get(id.index()).unwrap_or(&self.default)
    }
}

impl<K: EntityId, V: Clone> IndexMut<K> for SecondaryMap<K, V> {
    fn index_mut(&mut self, id: K) -> &mut V {
        if id.index() >= self.items.len() {
            self.items.resize(id.index() + 1, self.default.clone());
        }
        &mut self.items[id.index()]
    }
}
