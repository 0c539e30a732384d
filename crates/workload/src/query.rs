//! What generators are told in text: counts and names.

/// A whole number, or one of thousands, millions or billions: `500k`, `35M`, `2G`.
pub fn count(text: &str) -> Option<u64> {
    let units = [(['k', 'K'], 1_000), (['m', 'M'], 1_000_000), (['g', 'G'], 1_000_000_000)];
    let (digits, unit) = units
        .into_iter()
        .find_map(|(letters, unit)| text.strip_suffix(letters).map(|digits| (digits, unit)))
        .unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(unit)
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
