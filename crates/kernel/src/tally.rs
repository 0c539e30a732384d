//! Counters with names: an array indexed by an enum, written out as a map.

use serde::{Serialize, Serializer};
use std::marker::PhantomData;

/// Things that are counted under fixed names.
pub trait Name: Copy + 'static {
    /// Every one, in the order of their numbers.
    const ALL: &'static [Self];
    /// Its number, an index into [`Name::ALL`].
    fn index(self) -> usize;
    /// Its name in results.
    fn name(self) -> &'static str;
}

/// How often each of `E` happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally<E> {
    counts: Vec<u64>,
    of: PhantomData<E>,
}

impl<E: Name> Default for Tally<E> {
    fn default() -> Self {
        Self { counts: vec![0; E::ALL.len()], of: PhantomData }
    }
}

impl<E: Name> Tally<E> {
    /// Counts `n` more of `what`.
    #[inline(always)]
    pub fn add(&mut self, what: E, n: u64) {
        self.counts[what.index()] += n;
    }

    /// How many of `what`.
    #[inline(always)]
    pub fn get(&self, what: E) -> u64 {
        self.counts[what.index()]
    }

    /// Back to nothing.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each with its count, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (E, u64)> + '_ {
        E::ALL.iter().map(|&e| (e, self.get(e)))
    }
}

impl<E: Name> Serialize for Tally<E> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.iter().map(|(e, n)| (e.name(), n)))
    }
}

/// Declares an enum of counted things: variant, name in results, and what it means.
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        $vis enum $name { $($(#[$doc])* $variant,)* }

        impl $crate::tally::Name for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];
            #[inline(always)]
            fn index(self) -> usize { self as usize }
            fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str($crate::tally::Name::name(*self))
            }
        }
    };
}
pub(crate) use named;
