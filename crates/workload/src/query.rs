//! What generators are told in text: sizes, counts and names.

use mmulab_addr::{BASE_BYTES, parse_bytes, show_bytes};

/// A whole number, or one of thousands, millions or billions: `500k`, `35M`, `2G`.
pub fn count(text: &str) -> Option<u64> {
    let units = [(['k', 'K'], 1_000), (['m', 'M'], 1_000_000), (['g', 'G'], 1_000_000_000)];
    let (digits, unit) = units
        .into_iter()
        .find_map(|(letters, unit)| text.strip_suffix(letters).map(|digits| (digits, unit)))
        .unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// The value of `key`, which must lie from `low` to `high`.
pub fn between(key: &str, value: u64, low: u64, high: u64) -> Result<u64, String> {
    if (low..=high).contains(&value) { Ok(value) } else { Err(format!("{key} is {value}: give {low} to {high}")) }
}

/// The bytes `text` names, from `low` to `high`.
pub fn within(key: &str, text: &str, low: u64, high: u64) -> Result<u64, String> {
    parse_bytes(text)
        .filter(|b| (low..=high).contains(b))
        .ok_or_else(|| format!("{key} is '{text}': give a size from {} to {}", show_bytes(low), show_bytes(high)))
}

/// A footprint.
pub fn size(text: &str) -> Result<u64, String> {
    within("footprint", text, BASE_BYTES, 64 << 40)
}

/// A footprint that is a power of two.
pub fn power(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes.is_power_of_two() {
        return Ok(bytes);
    }
    Err(format!("footprint is '{text}': give a power of two, such as {}M", bytes.next_power_of_two() >> 20))
}

/// Which of `known` `given` most likely means, as a question to add to an error.
pub fn hint(given: &str, known: &[&str]) -> String {
    let near = known.iter().map(|k| (strsim::damerau_levenshtein(given, k), k)).min().filter(|(d, _)| *d <= 3);
    near.map(|(_, k)| format!(" (did you mean '{k}'?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_decimal_units() {
        assert_eq!(count("35k"), Some(35_000));
        assert_eq!(count("18446744073709551615G"), None, "more than can be counted");
    }
}
