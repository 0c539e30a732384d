//! The list of page-table formats, a file each. A row makes the format's variants of `Format`, `Table` and `TableKind`,
//! and its name and documentation in the schema. It also makes static dispatch and, for a format with parameters (in
//! braces), their table in `TableDesc`.
//!
//! To add a format: write its file, name it below as a module, and add a row. See docs/contributing/page-table.md.

pub mod arm;
pub mod arm16k;
pub mod arm64k;
pub mod compendia;
pub mod cuckoo;
pub mod open;
pub mod riscv;
pub mod tps;
pub mod x86;

/// Parameters of formats, as descriptions have them.
pub mod params {
    pub use super::tps::{Aliases, TpsDesc};
    pub use crate::compendia::CompendiaDesc;
    pub use crate::hashed::{CuckooDesc, OpenDesc};
}

/// Hands the rows to the macro `$then`, after its own arguments.
macro_rules! formats {
    ($then:ident $args:tt) => {
        $then! { $args
            x86::X86;
            compendia::Compendia {
                /// When a `compendia` table merges its levels. Only with that kind; absent, it goes by the paper's
                /// values.
                compendia: crate::CompendiaDesc
            };
            riscv::Riscv;
            arm::Arm;
            arm16k::Arm16k;
            arm64k::Arm64k;
            cuckoo::Cuckoo {
                /// The ways of an `elastic-cuckoo` table, and when they are resized. Only with that kind; absent, it
                /// goes by the paper's values.
                cuckoo: crate::CuckooDesc
            };
            open::Open {
                /// The size of a `hashed` table, and when it is resized. Only with that kind.
                hashed: crate::OpenDesc
            };
            tps::Tps {
                /// Contents of the alias PTEs of a `tps` table. Only with that kind; absent, they are pointers.
                tps: crate::TpsDesc
            };
        }
    };
}

/// `each_format!(value, Enum, inner => body)`: the body for the variant of `value`, whose content is `inner`. Every
/// enum over formats has the same variants.
macro_rules! each_format {
    ($value:expr, $of:ident, $inner:ident => $body:expr) => {
        formats!(each_variant ($value, $of, $inner => $body))
    };
}

macro_rules! each_variant {
    (($value:expr, $of:ident, $inner:ident => $body:expr)
        $($module:ident :: $variant:ident $({ $($params:tt)* })?;)*) => {
        match $value { $($of::$variant($inner) => $body,)* }
    };
}

/// `given!(desc)` and `given!(desc, key)`: the parameters that a description gives, if its kind has any.
macro_rules! given {
    ($desc:expr) => {
        None
    };
    ($desc:expr, $key:ident) => {
        $desc.$key.as_ref()
    };
}
