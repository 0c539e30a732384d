//! Words of a text-trace line: addresses, lengths, numbers, access rights and escaped text. Each word carries its
//! column, so that all parsers of lines report a wrong word in the same way.

use mmulab_addr::{Prot, VirtAddr, parse_bytes};
use std::{str::FromStr, sync::Arc};

/// A fault in a line: the column of the word, and the remedy.
pub(super) struct Wrong(pub usize, pub String);

/// The words of a line, each with its column.
pub(super) struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    pub fn new(line: &'a str) -> Self {
        Self { line, at: 0 }
    }

    pub fn next(&mut self) -> Option<(usize, &'a str)> {
        let rest = &self.line[self.at..];
        let start = self.at + rest.find(|c: char| !c.is_whitespace())?;
        let word = &self.line[start..];
        let word = &word[..word.find(char::is_whitespace).unwrap_or(word.len())];
        self.at = start + word.len();
        Some((start + 1, word))
    }

    pub fn need(&mut self, what: &str) -> Result<(usize, &'a str), Wrong> {
        let column = self.at + 1;
        self.next().ok_or_else(|| Wrong(column, format!("{what} is missing")))
    }

    pub fn address(&mut self) -> Result<VirtAddr, Wrong> {
        let (column, word) = self.need("an address")?;
        address_of(word).map_err(|what| Wrong(column, what))
    }

    pub fn length(&mut self) -> Result<u64, Wrong> {
        let (column, word) = self.need("a length")?;
        parse_bytes(word).filter(|&b| b <= 1 << 57).ok_or_else(|| {
            Wrong(column, format!("'{word}' is not a length: write bytes, or a number with K, M, G or T"))
        })
    }

    pub fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Wrong> {
        let (column, word) = self.need(what)?;
        word.parse().map_err(|_| Wrong(column, format!("'{word}' is not {what}")))
    }

    pub fn rights(&mut self) -> Result<Prot, Wrong> {
        let (column, word) = self.need("rights")?;
        letters(word).ok_or_else(|| Wrong(column, format!("'{word}' are not rights: write letters of rwx, or -")))
    }

    pub fn text(&mut self, what: &str) -> Result<Arc<str>, Wrong> {
        let (column, word) = self.need(what)?;
        unescaped(word).map(Into::into).ok_or_else(|| Wrong(column, format!("'{word}' has a % without two digits")))
    }

    /// The name that ends the line; empty if the line has none.
    pub fn rest_of_name(&mut self) -> Result<Arc<str>, Wrong> {
        match self.next() {
            None => Ok("".into()),
            Some((column, word)) => unescaped(word)
                .map(Into::into)
                .ok_or_else(|| Wrong(column, format!("'{word}' has a % without two digits"))),
        }
    }

    /// Whether the line ends here, or with this word.
    pub fn maybe(&mut self, wanted: &str) -> Result<bool, Wrong> {
        match self.next() {
            None => Ok(false),
            Some((_, word)) if word == wanted => Ok(true),
            Some((column, word)) => Err(Wrong(column, format!("'{word}' is not expected here; {wanted} could be"))),
        }
    }

    pub fn end(&mut self) -> Result<(), Wrong> {
        match self.next() {
            None => Ok(()),
            Some((column, word)) => Err(Wrong(column, format!("'{word}' is one word too many"))),
        }
    }
}

/// The address that `word` is.
pub(super) fn address_of(word: &str) -> Result<VirtAddr, String> {
    let raw = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    };
    let raw = raw.ok_or_else(|| format!("'{word}' is not an address: write 0x and hexadecimal digits"))?;
    let va = VirtAddr::new(raw);
    if va.raw() != raw {
        return Err(format!("'{word}' is not a canonical address of 57 bits"));
    }
    Ok(va)
}

/// The rights that letters of `rwx` and `-` name.
pub(super) fn letters(word: &str) -> Option<Prot> {
    word.chars().try_fold(Prot::NONE, |prot, letter| {
        Some(prot.with(match letter {
            'r' => Prot::R,
            'w' => Prot::W,
            'x' => Prot::X,
            '-' => Prot::NONE,
            _ => return None,
        }))
    })
}

/// The text whose odd characters were written as `%XX`; `None` if that was done wrongly.
pub(super) fn unescaped(word: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |b: Option<u8>| (b? as char).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}
