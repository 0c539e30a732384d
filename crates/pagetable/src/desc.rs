//! Description of a page table in a machine file: the kind of table, the number of levels, and the parameters of that
//! kind. Kinds, their names and parameters come from the list of formats. `TableDesc::complete` fills in defaults and
//! rejects combinations that no table can have.

use crate::{CompendiaDesc, CuckooDesc, Format, OpenDesc, table_format::TableFormat};
use mmulab_addr::PageOrder;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt};

/// Levels of a table: 39-bit, 48-bit or 57-bit virtual addresses, with base pages of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u8", into = "u8")]
#[schemars(with = "u8", extend("minimum" = 3, "maximum" = 5))]
pub struct Levels(u8);

impl TryFrom<u8> for Levels {
    type Error = String;

    fn try_from(levels: u8) -> Result<Self, String> {
        if matches!(levels, 3..=5) { Ok(Self(levels)) } else { Err(format!("levels is {levels}: give 4 or 5 (or 3)")) }
    }
}

impl Default for Levels {
    fn default() -> Self {
        Self(4)
    }
}

impl From<Levels> for u8 {
    fn from(levels: Levels) -> u8 {
        levels.0
    }
}

macro_rules! describe {
    (() $($module:ident :: $variant:ident $({ $(#[$doc:meta])* $key:ident : $params:ty })?;)*) => {
        /// The kinds of page table.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum TableKind {
            $(
                #[doc = concat!("The kind of [`Format::", stringify!($variant), "`].")]
                $variant,
            )*
        }

        impl TableKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// Their names in machine files.
            const NAMES: &'static [&'static str] = &[$(crate::formats::$module::$variant::NAME,)*];

            /// Its name in machine files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => crate::formats::$module::$variant::NAME,)* }
            }

            /// Description of the format.
            const fn doc(self) -> &'static str {
                match self { $(Self::$variant => crate::formats::$module::$variant::DOC,)* }
            }

            /// The levels whose lines walk caches can hold, of tables found by hashing; others have a tree's.
            pub const fn walk_table_levels(self) -> Option<std::ops::Range<u8>> {
                match self { $(Self::$variant => crate::formats::$module::$variant::WALK_TABLE_LEVELS,)* }
            }

            /// The levels it may have.
            const fn levels(self) -> std::ops::RangeInclusive<u8> {
                match self { $(Self::$variant => crate::formats::$module::$variant::LEVELS,)* }
            }
        }

        /// The page-table format of a machine.
        #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct TableDesc {
            /// The kind of table. Default `x86-64-radix`.
            pub kind: TableKind,
            /// Levels: 3 (39-bit addresses), 4 (48-bit) or 5 (57-bit), as far as the kind has them. With a granule of
            /// 16 KiB, 3 are 47 bits and 4 are 48; with one of 64 KiB, 3 are 48 bits. Hashed tables have none, and the
            /// number only states the bits of an address. Default 4.
            pub levels: Levels,
            $($(
                $(#[$doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $key: Option<$params>,
            )?)*
        }

        impl TableDesc {
            /// The same with everything it leaves open filled in.
            ///
            /// # Errors
            /// Levels the kind does not have, parameters of another kind of table, or that cannot be followed.
            #[allow(unused_mut, reason = "kinds without parameters complete nothing")]
            pub fn complete(mut self) -> Result<Self, String> {
                let (levels, given) = (self.kind.levels(), self.levels.0);
                if !levels.contains(&given) {
                    let (name, from, to) = (self.kind.name(), levels.start(), levels.end());
                    return Err(format!("levels is {given}: a table of kind {name} has {from} to {to}"));
                }
                $($(
                    if self.$key.is_some() && self.kind != TableKind::$variant {
                        let (key, kind) = (stringify!($key), TableKind::$variant.name());
                        return Err(format!(
                            "{key} is for kind = \"{kind}\" only: set the kind, or leave it out"
                        ));
                    }
                )?)*
                match self.kind {
                    $(TableKind::$variant => {
                        let params = crate::formats::$module::$variant::given(given!(self $(, $key)?));
                        crate::formats::$module::$variant::check(given, &params)?;
                        $(self.$key = Some(params);)?
                    })*
                }
                Ok(self)
            }

            /// How hardware reads it.
            pub fn format(&self) -> Format {
                let levels = self.levels.0;
                match self.kind {
                    $(TableKind::$variant => {
                        crate::formats::$module::$variant::new(levels, given!(self $(, $key)?)).into()
                    })*
                }
            }
        }
    };
}

formats!(describe());

impl Default for TableKind {
    fn default() -> Self {
        Self::X86
    }
}

impl Serialize for TableKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for TableKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;

        impl de::Visitor<'_> for Names {
            type Value = TableKind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a kind of page table")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<TableKind, E> {
                let kind = TableKind::ALL.iter().copied().find(|kind| kind.name() == name);
                kind.ok_or_else(|| E::unknown_variant(name, TableKind::NAMES))
            }
        }

        deserializer.deserialize_str(Names)
    }
}

impl JsonSchema for TableKind {
    fn schema_name() -> Cow<'static, str> {
        "TableKind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let kinds = Self::ALL.iter().map(|kind| {
            let kind = json_schema!({ "description": kind.doc(), "type": "string", "const": kind.name() });
            kind.to_value()
        });
        json_schema!({ "description": "The kinds of page table.", "oneOf": kinds.collect::<Vec<_>>() })
    }
}

impl TableDesc {
    /// A table of this kind with this number of levels.
    ///
    /// # Errors
    /// Any other number of levels.
    pub fn new(kind: TableKind, levels: u8) -> Result<Self, String> {
        Self { kind, levels: levels.try_into()?, ..Self::default() }.complete()
    }

    /// A four- or five-level x86-64 table.
    ///
    /// # Errors
    /// Any other number of levels.
    pub fn x86(levels: u8) -> Result<Self, String> {
        Self::new(TableKind::X86, levels)
    }

    /// A four- or five-level Compendia table.
    ///
    /// # Errors
    /// Any other number of levels, or parameters that cannot be followed.
    pub fn of_compendia(levels: u8, desc: CompendiaDesc) -> Result<Self, String> {
        let levels = levels.try_into()?;
        Self { kind: TableKind::Compendia, levels, compendia: Some(desc), ..Self::default() }.complete()
    }

    /// An elastic cuckoo table for 48-bit addresses.
    ///
    /// # Errors
    /// Parameters that cannot be followed.
    pub fn of_cuckoo(desc: CuckooDesc) -> Result<Self, String> {
        Self { kind: TableKind::Cuckoo, cuckoo: Some(desc), ..Self::default() }.complete()
    }

    /// A hashed table for 48-bit addresses.
    ///
    /// # Errors
    /// Parameters that cannot be followed.
    pub fn of_hashed(desc: OpenDesc) -> Result<Self, String> {
        Self { kind: TableKind::Open, hashed: Some(desc), ..Self::default() }.complete()
    }

    /// The size of its base pages, and of its tables.
    pub fn base(&self) -> PageOrder {
        self.format().base()
    }

    /// Whether it has pages of `order`.
    pub fn has_leaf(&self, order: PageOrder) -> bool {
        self.format().leaf_at(order).is_some()
    }
}
