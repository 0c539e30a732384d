//! The language of the microbenchmark: a parser for short programs of loads (`r`), stores (`w`) and invalidations
//! (`i`) on the numbered pages of a group. Each word runs over all groups before the next word starts.
//!
//! ```text
//! r0 r1 : w0 : i2 r3
//! '-+-'   '+   '-+-'
//! word 0   1     2
//! ```

use serde::Serialize;
use thiserror::Error;

/// What is done to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Kind {
    /// `r`: a load.
    Read,
    /// `w`: a store.
    Write,
    /// `i`: its translation is dropped (INVLPG).
    Invalidate,
}

/// One operation on one page of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// What.
    pub kind: Kind,
    /// On which page of the group, from 0.
    pub page: u16,
    /// Where it stands in the text, from 1.
    pub column: usize,
}

/// Operations done to one group before the next group's turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// In order; at least one.
    pub operations: Vec<Operation>,
    /// As it was written, without the blanks around it.
    pub text: String,
}

/// Words, each done to every group before the next: `r0 r1: w0 : i2 r3`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// In order; at least one.
    pub words: Vec<Word>,
}

/// What is wrong with a program's text.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("column {column}: {what}\n  {text}\n  {caret:>column$}", caret = "^")]
pub struct Mistake {
    /// Where, from 1, in characters.
    pub column: usize,
    /// What, and what to do.
    pub what: String,
    /// The whole text.
    pub text: String,
}

impl Program {
    /// Reads a program over groups of `group` pages.
    ///
    /// # Errors
    /// The first mistake, with its column.
    pub fn parse(text: &str, group: u16) -> Result<Self, Mistake> {
        let mistake = |column, what| Mistake { column, what, text: text.to_owned() };
        let mut words = Vec::new();
        let mut begin = 1;
        for part in text.split(':') {
            let mut operations = Vec::new();
            for (offset, piece) in pieces(part) {
                let column = begin + offset;
                operations.push(operation(piece, column, group).map_err(|what| mistake(column, what))?);
            }
            if operations.is_empty() {
                let what = "a word without operations: write r, w or i with a page number, as in r0: w0 r1".into();
                return Err(mistake(begin, what));
            }
            words.push(Word { operations, text: part.trim().to_owned() });
            begin += part.chars().count() + 1;
        }
        Ok(Self { words })
    }
}

/// The pieces between blanks, each with the characters before it.
fn pieces(part: &str) -> impl Iterator<Item = (usize, &str)> {
    part.split_whitespace().map(move |piece| {
        let bytes = piece.as_ptr() as usize - part.as_ptr() as usize;
        (part[..bytes].chars().count(), piece)
    })
}

fn operation(piece: &str, column: usize, group: u16) -> Result<Operation, String> {
    let kind = match piece.chars().next() {
        Some('r') => Kind::Read,
        Some('w') => Kind::Write,
        Some('i') => Kind::Invalidate,
        _ => return Err(format!("'{piece}' is not an operation: write r, w or i with a page number, as in r0")),
    };
    let number = &piece[1..];
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!(
            "'{piece}' names no page: write a number behind '{}', as in {}0",
            &piece[..1],
            &piece[..1]
        ));
    }
    match number.parse::<u16>() {
        Ok(page) if page < group => Ok(Operation { kind, page, column }),
        _ => Err(format!("page {number} is outside a group of {group}: give 0 to {}", group - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(program: &Program) -> Vec<Vec<(char, u16)>> {
        let letter = |o: &Operation| match o.kind {
            Kind::Read => 'r',
            Kind::Write => 'w',
            Kind::Invalidate => 'i',
        };
        program.words.iter().map(|w| w.operations.iter().map(|o| (letter(o), o.page)).collect()).collect()
    }

    /// S0-021: words and operations.
    #[test]
    fn words_stand_between_colons() {
        let four = Program::parse("r0: r1: r2: r3", 4).unwrap();
        assert_eq!(shape(&four), [[('r', 0)], [('r', 1)], [('r', 2)], [('r', 3)]]);
        let one = Program::parse("r0 r1 r2 r3", 4).unwrap();
        assert_eq!(shape(&one), [[('r', 0), ('r', 1), ('r', 2), ('r', 3)]]);
        let mixed = Program::parse(" r0 r1 : w0:i2 r3 ", 4).unwrap();
        assert_eq!(shape(&mixed), [vec![('r', 0), ('r', 1)], vec![('w', 0)], vec![('i', 2), ('r', 3)]]);
        assert_eq!(mixed.words[0].text, "r0 r1");
        assert_eq!(mixed.words[2].operations[1].column, 16);
    }

    #[test]
    fn mistakes_have_a_column() {
        for (text, column, what) in [
            ("r0: r4", 5, "page 4 is outside a group of 4: give 0 to 3"),
            ("r0 x1", 4, "'x1' is not an operation"),
            ("r0: r", 5, "'r' names no page"),
            ("r0: w1a", 5, "'w1a' names no page"),
            ("r0: r-1", 5, "'r-1' names no page"),
            ("r0 : : r1", 5, "a word without operations"),
            ("", 1, "a word without operations"),
            ("r0:", 4, "a word without operations"),
            ("r0 r99999999999", 4, "page 99999999999 is outside"),
            ("r0 é1 r9", 4, "'é1' is not an operation"),
            ("r0 :\u{a0}r9", 6, "page 9 is outside"),
        ] {
            let mistake = Program::parse(text, 4).unwrap_err();
            assert_eq!(mistake.column, column, "{text}: {mistake}");
            assert!(mistake.what.contains(what), "{text}: {mistake}");
        }
        let shown = Program::parse("r0: r4", 4).unwrap_err().to_string();
        assert!(shown.ends_with("\n  r0: r4\n      ^"), "{shown}");
    }
}
