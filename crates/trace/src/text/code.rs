//! Code in text traces: a line `code ...` before the fetch that executes it.
//!
//! ```text
//! code move >i0 @i0 r8 ; int >i1 i1 i0 >flags ; conditional flags      declared data flow
//! code bytes=7 x=488b004801d874 0r8                                   machine code, and the instruction of each access
//! code bytes=0 n=3 0r8 2w4                                            neither
//! ```

use super::words::{Words, Wrong};
use crate::{Body, Code, MAX_OPS, Op};
use mmulab_dataflow::Inst;
use std::fmt::Write as _;

/// Most bytes of code in a line, and most instructions.
const MAX: usize = 1 << 16;

/// Reads what follows the word `code`.
pub(super) fn take(words: &mut Words<'_>) -> Result<Code, Wrong> {
    let (mut bytes, mut code, mut count) = (0u32, None, None);
    let (mut flow, mut ops) = (Vec::<Inst>::new(), Vec::<Op>::new());
    let mut begins = true;
    while let Some((column, word)) = words.next() {
        let wrong = |what: String| Wrong(column, what);
        if let Some(value) = word.strip_prefix("bytes=") {
            let most = |n: &u32| *n as usize <= MAX;
            bytes =
                value.parse().ok().filter(most).ok_or_else(|| wrong(format!("'{word}': write bytes=0 to {MAX}")))?;
        } else if let Some(value) = word.strip_prefix("n=") {
            let most = |n: &u32| *n as usize <= MAX;
            let n = value.parse().ok().filter(most).ok_or_else(|| wrong(format!("'{word}': write n=0 to {MAX}")))?;
            count = Some(n);
        } else if let Some(value) = word.strip_prefix("x=") {
            code =
                Some(hex(value).ok_or_else(|| wrong(format!("'{word}': write x= and pairs of hexadecimal digits")))?);
        } else if word == ";" {
            begins = true;
        } else if let Some((index, op)) = access(word) {
            let instruction = match index {
                Some(index) => index,
                None if begins => return Err(wrong(format!("'{word}': an access belongs behind an instruction"))),
                None => (flow.len() - 1) as u16,
            };
            ops.push(Op { instruction, ..op });
        } else if begins {
            let unknown = || wrong(format!("'{word}' is not a class of instructions, such as move, int or branch"));
            flow.push(Inst::named(word).ok_or_else(unknown)?);
            begins = false;
        } else if !flow.last_mut().is_some_and(|inst| inst.add(word)) {
            return Err(wrong(format!("'{word}' is neither a register, such as >i1, nor an access, such as r8")));
        }
        if flow.len() > MAX || ops.len() > MAX_OPS {
            return Err(wrong(format!("more than {MAX} instructions or {MAX_OPS} accesses in one block")));
        }
    }
    let (body, instructions) = match (code, count) {
        _ if !flow.is_empty() => (Body::Flow(flow.as_slice().into()), flow.len() as u32),
        (Some(code), n) => {
            bytes = code.len() as u32;
            (Body::Bytes(code.into()), n.unwrap_or(0))
        }
        (None, n) => (Body::Unknown, n.unwrap_or(0)),
    };
    Ok(Code::new(body, bytes, instructions, ops))
}

/// An access: `r` or `w` and its bytes, behind the index of its instruction where that is not the last one named.
fn access(word: &str) -> Option<(Option<u16>, Op)> {
    let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (index, rest) = word.split_at(digits);
    let store = match rest.chars().next()? {
        'r' => false,
        'w' => true,
        _ => return None,
    };
    let bytes: u64 = rest[1..].parse().ok().filter(|b: &u64| b.is_power_of_two() && *b <= 128)?;
    let index = if index.is_empty() { None } else { Some(index.parse().ok()?) };
    Some((index, Op { instruction: 0, store, size_shift: bytes.trailing_zeros() as u8 }))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) || text.len() / 2 > MAX {
        return None;
    }
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect()
}

/// The line for `code`.
pub(super) fn line(code: &Code) -> String {
    let mut out = String::from("code");
    let access = |op: &Op| format!("{}{}", if op.store { 'w' } else { 'r' }, 1u32 << op.size_shift);
    if let Body::Flow(flow) = &code.body {
        if code.bytes > 0 {
            let _ = write!(out, " bytes={}", code.bytes);
        }
        for (index, inst) in flow.iter().enumerate() {
            let _ = write!(out, "{} {inst}", if index > 0 { " ;" } else { "" });
            for op in code.ops.iter().filter(|op| usize::from(op.instruction) == index) {
                let _ = write!(out, " {}", access(op));
            }
        }
        return out;
    }
    match &code.body {
        Body::Bytes(bytes) => {
            let _ = write!(out, " n={} x=", code.instructions);
            for byte in bytes {
                let _ = write!(out, "{byte:02x}");
            }
        }
        _ => {
            let _ = write!(out, " bytes={} n={}", code.bytes, code.instructions);
        }
    }
    for op in &code.ops {
        let _ = write!(out, " {}{}", op.instruction, access(op));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Code, String> {
        let mut words = Words::new(text);
        words.next();
        take(&mut words).map_err(|Wrong(column, what)| format!("{column}: {what}"))
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        for text in [
            "code move >i0 @i0 r8 ; int >i1 >flags i1 i0 ; conditional flags",
            "code bytes=9 int >i1 i2 r4 w4",
            "code n=2 x=488b004801d8 0r8 1w4",
            "code bytes=7 n=3 2r128",
        ] {
            assert_eq!(line(&read(text).unwrap()), text);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, place) in [
            ("code add >i0", "6"),
            ("code int >i0 q", "14"),
            ("code r8", "6"),
            ("code n=9999999", "6"),
            ("code x=123", "6"),
            ("code int r3", "10"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(&format!("{place}: ")), "{text}: {error}");
        }
    }
}
