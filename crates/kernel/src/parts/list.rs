//! The macro that makes three things from the list of a kind's parts, the same for every kind. They are the parts'
//! modules, the enum of their names in policy files, and the enum of the part of a run.
//!
//! A folder of parts includes its list, which `build.rs` writes, and hands it to this macro:
//!
//! ```text
//! include!(concat!(env!("OUT_DIR"), "/demotion.rs"));  -->  with_parts!, each!
//!
//! with_parts!(kind! {
//!     /// When a larger page is taken apart.                its text in the schema
//!     DemotionKind: Needed;                            -->  enum DemotionKind { AtStore, Needed }, Needed by default
//!     /// The demotion part of a run.
//!     #[derive(Clone, Debug)]
//!     Demotions: ();                                   -->  enum Demotions { AtStore(AtStore), Needed(Needed) }, made
//! });                                                       from settings of type ()
//! ```

/// Makes the modules and enums of a kind of parts.
macro_rules! kind {
    (
        [$($module:ident::$Part:ident,)*]
        #[doc = $about:literal]
        $Kind:ident: $default:ident;
        $(#[$attribute:meta])*
        $Run:ident: $Settings:ty;
    ) => {
        $(pub(crate) mod $module;)*

        #[doc = $about]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $Kind {
            $(
                #[doc = concat!("See `", stringify!($module), ".rs`.")]
                $Part,
            )*
        }

        impl $Kind {
            /// All there are, one for each file of the folder.
            pub const ALL: &[Self] = &[$(Self::$Part,)*];
            /// Their names in policy files.
            const NAMES: &[&str] = &[$(<$module::$Part as $crate::parts::part::Part<$Settings>>::NAME,)*];

            /// Its name in policy files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Part => <$module::$Part as $crate::parts::part::Part<$Settings>>::NAME,)*
                }
            }

            /// Description of the part.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$Part => <$module::$Part as $crate::parts::part::Part<$Settings>>::ABOUT,)*
                }
            }
        }

        impl Default for $Kind {
            fn default() -> Self {
                Self::$default
            }
        }

        impl serde::Serialize for $Kind {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $Kind {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let name = String::deserialize(from)?;
                let found = Self::ALL.iter().find(|kind| kind.name() == name);
                found.copied().ok_or_else(|| serde::de::Error::unknown_variant(&name, Self::NAMES))
            }
        }

        impl schemars::JsonSchema for $Kind {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Kind).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let of = |kind: &Self| {
                    schemars::json_schema!({ "description": kind.about(), "type": "string", "const": kind.name() })
                };
                let all: Vec<schemars::Schema> = Self::ALL.iter().map(of).collect();
                schemars::json_schema!({ "description": $about.trim(), "oneOf": all })
            }
        }

        $(#[$attribute])*
        pub(crate) enum $Run {
            $($Part($module::$Part),)*
        }

        impl $Run {
            /// The part of a kind.
            ///
            /// # Errors
            /// Settings that it cannot have.
            pub fn new(kind: $Kind, settings: &$Settings) -> Result<Self, $crate::parts::part::Wrong> {
                match kind {
                    $($Kind::$Part => $crate::parts::part::Part::new(settings).map(Self::$Part),)*
                }
            }
        }
    };
}

pub(crate) use kind;
