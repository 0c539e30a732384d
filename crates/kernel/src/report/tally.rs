//! Counters with names: an array indexed by an enum, written out as a map.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::marker::PhantomData;

/// Things that are counted under fixed names.
pub trait Name: Copy + 'static {
    /// Every one, in the order of their numbers.
    const ALL: &'static [Self];
    /// Its number, an index into [`Name::ALL`].
    fn index(self) -> usize;
    /// Its name in results.
    fn name(self) -> &'static str;
    /// Its meaning.
    fn about(self) -> &'static str;
    /// Whether results have it even if it is 0. Counters of parts that few policies have are left out then. So results
    /// of the other policies stay as they were without the part.
    fn is_always_written(self) -> bool;
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

    /// Takes away what these counts stood at before.
    pub fn subtract(&mut self, before: &Self) {
        self.counts.iter_mut().zip(&before.counts).for_each(|(now, before)| *now -= before);
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
        s.collect_map(self.iter().filter(|&(e, n)| n > 0 || e.is_always_written()).map(|(e, n)| (e.name(), n)))
    }
}

impl<E: Name> JsonSchema for Tally<E> {
    fn schema_name() -> Cow<'static, str> {
        format!("Counts of {}", std::any::type_name::<E>().rsplit("::").next().unwrap_or_default()).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one =
            |e: &E| (e.name().to_owned(), json!({ "type": "integer", "minimum": 0, "description": e.about().trim() }));
        let properties: Map<String, Value> = E::ALL.iter().map(one).collect();
        let required: Vec<&str> = E::ALL.iter().filter(|e| e.is_always_written()).map(|e| e.name()).collect();
        json_schema!({ "type": "object", "properties": properties, "required": required })
    }
}

/// Declares an enum of counted things: variant, name in results, and what it means. `=> if_any` after a name leaves the
/// counter out of results where it is 0.
macro_rules! named {
    (@always) => { true };
    (@always if_any) => { false };
    (
        $(#[doc = $about:literal])*
        $vis:vis enum $name:ident { $($(#[doc = $doc:literal])* $variant:ident = $text:literal $(=> $if_any:ident)?,)* }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        $vis enum $name { $($(#[doc = $doc])* $variant,)* }

        impl $crate::report::tally::Name for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];
            #[inline(always)]
            fn index(self) -> usize { self as usize }
            fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
            fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),*)),* }
            }
            fn is_always_written(self) -> bool {
                match self { $(Self::$variant => $crate::report::tally::named!(@always $($if_any)?)),* }
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let one = |e: &Self| {
                    let name = $crate::report::tally::Name::name(*e);
                    let about = $crate::report::tally::Name::about(*e).trim();
                    serde_json::json!({ "const": name, "description": about })
                };
                let all: Vec<_> = <Self as $crate::report::tally::Name>::ALL.iter().map(one).collect();
                schemars::json_schema!({ "description": concat!($($about),*).trim(), "oneOf": all })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str($crate::report::tally::Name::name(*self))
            }
        }
    };
}
pub(crate) use named;
