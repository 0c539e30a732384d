//! Page sizes, and the text form of page sizes and byte counts. A page size is a run-time value, not a Rust type per
//! size, because architectures and TLB designs use many powers of two. The value counts doublings of the 4 KiB base
//! page.
//!
//! ```text
//! order             0    2    3    4    9    13   18
//! size              4K   16K  32K  64K  2M   32M  1G     4 KiB << order
//! bits of offset    12   14   15   16   21   25   30     12 + order
//! ```

use crate::{BASE_BYTES, BASE_SHIFT};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{borrow::Cow, fmt, str::FromStr};

/// The size of a page as a power of two of base pages. Order 0 is 4 KiB, 9 is 2 MiB, 18 is 1 GiB.
///
/// Written in descriptions as a size: `"4K"`, `"64K"`, `"2M"`, `"1G"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct PageOrder(u8);

/// Why a text is not a page size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderError(String);

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OrderError {}

impl PageOrder {
    /// 4 KiB.
    pub const P4K: Self = Self(0);
    /// 16 KiB.
    pub const P16K: Self = Self(2);
    /// 32 KiB.
    pub const P32K: Self = Self(3);
    /// 64 KiB.
    pub const P64K: Self = Self(4);
    /// 2 MiB.
    pub const P2M: Self = Self(9);
    /// 32 MiB.
    pub const P32M: Self = Self(13);
    /// 1 GiB.
    pub const P1G: Self = Self(18);
    /// The largest order a 57-bit address space has use for.
    pub const MAX: Self = Self(45);

    /// The order `n`; panics above [`PageOrder::MAX`], which no description or trace can reach.
    #[inline(always)]
    pub const fn new(n: u8) -> Self {
        assert!(n <= Self::MAX.0);
        Self(n)
    }

    /// The exponent.
    #[inline(always)]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Base pages in it.
    #[inline(always)]
    pub const fn base_pages(self) -> u64 {
        1 << self.0
    }

    /// Bytes in it.
    #[inline(always)]
    pub const fn bytes(self) -> u64 {
        BASE_BYTES << self.0
    }

    /// log2 of the bytes in it.
    #[inline(always)]
    pub const fn shift(self) -> u32 {
        BASE_SHIFT + self.0 as u32
    }

    /// The order whose size is exactly `bytes`, if there is one.
    pub const fn of_bytes(bytes: u64) -> Option<Self> {
        if bytes.is_power_of_two() && bytes >= BASE_BYTES && bytes.trailing_zeros() <= BASE_SHIFT + Self::MAX.0 as u32 {
            Some(Self((bytes.trailing_zeros() - BASE_SHIFT) as u8))
        } else {
            None
        }
    }
}

/// Reads a number of bytes written as people do: `4096`, `0x1000`, `64K`, `8M`, `2GiB`, `1T` (powers of 1024).
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().replace('_', "");
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let value: u64 = text[..digits].parse().ok()?;
    let shift = match text[digits..].trim().to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    value.checked_mul(1 << shift)
}

/// Writes a number of bytes as [`parse_bytes`] reads it, with the largest unit that divides it.
pub fn show_bytes(bytes: u64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

impl FromStr for PageOrder {
    type Err = OrderError;

    fn from_str(text: &str) -> Result<Self, OrderError> {
        parse_bytes(text).and_then(Self::of_bytes).ok_or_else(|| {
            OrderError(format!("'{text}' is not a page size: write a power of two from 4K, such as 4K, 64K, 2M or 1G"))
        })
    }
}

impl fmt::Display for PageOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show_bytes(self.bytes()))
    }
}

impl fmt::Debug for PageOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageOrder({self})")
    }
}

impl Serialize for PageOrder {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PageOrder {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for PageOrder {
    fn schema_name() -> Cow<'static, str> {
        "PageSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A page size: a power of two from 4K, written with K, M or G.",
            "examples": ["4K", "64K", "2M", "1G"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_and_read_alike() {
        for n in 0..=PageOrder::MAX.get() {
            let order = PageOrder::new(n);
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        assert_eq!("64KiB".parse(), Ok(PageOrder::P64K));
        for bad in ["", "K", "3K", "12K", "-4K", "4X", "2K"] {
            assert!(bad.parse::<PageOrder>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes_overflow_is_refused() {
        assert_eq!(parse_bytes("99999999T"), None);
        assert_eq!(parse_bytes("0x1000"), Some(4096));
    }
}
