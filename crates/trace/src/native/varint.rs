//! Variable-length integers of native traces: LEB128, and zigzag for signed numbers. Small numbers of either sign take
//! one byte.
//!
//! ```text
//! 300       10 0101100
//! LEB128    1_0101100 0_0000010      bit 7: another byte follows
//! zigzag    0, -1, 1, -2  become  0, 1, 2, 3
//! ```

/// Appends `value` in groups of 7 bits, the lowest first, bit 7 set on all but the last byte (LEB128).
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads one from the front of `bytes`; `None` if it does not end there or does not fit.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

/// Small numbers of either sign as small numbers: 0, -1, 1, -2 ... become 0, 1, 2, 3 ...
#[inline(always)]
pub(super) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline(always)]
pub(super) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_and_overlong_ones_are_refused() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(take(&mut out.as_slice()), Some(value));
            assert_eq!(take(&mut &out[..out.len() - 1]), None);
            assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
        }
        assert_eq!(take(&mut [0xff; 10].as_slice()), None);
        assert_eq!(take(&mut [0x80; 11].as_slice()), None);
    }
}
