//! Text without characters that a terminal obeys.
//!
//! Names of programs, files and arguments come from what is recorded. Control characters in a name can hide, move or
//! rewrite what a terminal shows. The package's `mmulab/visible.py` does the same for all that Python prints; this
//! crate serves the programs and libraries that print without Python.

use std::fmt::Display;

/// The text, with a visible character for each that a terminal would obey. Blanks and ends of lines stay.
pub fn visible(text: impl Display) -> String {
    text.to_string().chars().map(shown).collect()
}

fn shown(c: char) -> char {
    match c {
        '\t' | '\n' => c,
        // Unicode has a picture of each control character of ASCII.
        '\0'..'\u{20}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\u{7f}' => '\u{2421}',
        // Control characters of ISO 6429, and those that change the direction of writing or end a line.
        '\u{80}'..'\u{a0}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..'\u{202f}' | '\u{2066}'..'\u{206a}' => {
            char::REPLACEMENT_CHARACTER
        }
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_left() {
        assert_eq!(visible("a\u{1b}[1m\u{7}b\u{7f}\u{9b}\u{202e}"), "a␛[1m␇b␡��");
        assert_eq!(visible("naïve 名前\t1 %\n2"), "naïve 名前\t1 %\n2");
        let all: String = ('\0'..=char::MAX).collect();
        assert!(visible(&all).chars().all(|c| !c.is_control() || "\t\n".contains(c)));
    }
}
