//! Instructions as words of text: `int >i3 i1 flags`, `move >i0 @i1 !i1`.
//!
//! The first word is the class, or the kind of a branch. Then come the registers. A register that is read stands alone.
//! `>` stands before one that is written, `@` before a part of an address, and `!` before one that is changed by a
//! constant.

use crate::{Branch, Class, Inst, Reg, Regs};
use std::fmt;

/// The words for classes, in the order of [`Class::ALL`].
const CLASSES: [&str; Class::COUNT] =
    ["move", "int", "mul", "div", "branch", "vector", "fp-add", "fp-mul", "fp-div", "convert", "atomic", "serial"];
/// The words for branches.
const BRANCHES: [(&str, Branch); 4] = [
    ("jump", Branch::Direct),
    ("conditional", Branch::Conditional),
    ("indirect", Branch::Indirect),
    ("return", Branch::Return),
];

impl Reg {
    /// The register that `word` names: `i0` to `i31`, `flags`, `v0` to `v31`, `k0` to `k7`, `st0` to `st7`.
    pub fn named(word: &str) -> Option<Self> {
        let number = |prefix: &str, below: u8| {
            word.strip_prefix(prefix)?.parse::<u8>().ok().filter(|&n| n < below && !word.contains('+'))
        };
        if word == "flags" {
            return Some(Self::FLAGS);
        }
        number("i", 32)
            .map(Self::int)
            .or_else(|| number("v", 32).map(Self::vector))
            .or_else(|| number("k", 8).map(Self::mask))
            .or_else(|| number("st", 8).map(Self::x87))
    }
}

impl Inst {
    /// An instruction without registers, of the class or branch that `word` names.
    pub fn named(word: &str) -> Option<Self> {
        if let Some((_, branch)) = BRANCHES.iter().find(|(name, _)| *name == word) {
            return Some(Self { class: Class::Branch, branch: *branch, ..Self::default() });
        }
        let at = CLASSES.iter().position(|name| *name == word)?;
        Some(Self { class: Class::ALL[at], ..Self::default() })
    }

    /// Adds the register that `word` names, as what its first character says; false if it does not.
    pub fn add(&mut self, word: &str) -> bool {
        let (regs, name) = match word.chars().next() {
            Some('>') => (&mut self.results, &word[1..]),
            Some('@') => (&mut self.address, &word[1..]),
            Some('!') => (&mut self.bumped, &word[1..]),
            _ => (&mut self.sources, word),
        };
        Reg::named(name).is_some_and(|reg| regs.push(reg))
    }
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let branch = BRANCHES.iter().find(|(_, branch)| *branch == self.branch);
        f.write_str(branch.map_or(CLASSES[self.class as usize], |(name, _)| name))?;
        let write = |f: &mut fmt::Formatter<'_>, mark: &str, regs: &Regs| {
            regs.as_slice().iter().try_for_each(|reg| write!(f, " {mark}{reg:?}"))
        };
        write(f, ">", &self.results)?;
        write(f, "", &self.sources)?;
        write(f, "@", &self.address)?;
        write(f, "!", &self.bumped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_as_they_are_written() {
        let mut inst = Inst::named("int").unwrap();
        assert!(["i3", ">i4", "@i5", "!i5", "flags", ">v31", "k7"].iter().all(|word| inst.add(word)));
        assert!(!inst.add("i32") && !inst.add("x1") && !inst.add("") && !inst.add("i+1"));
        let text = inst.to_string();
        assert_eq!(text, "int >i4 >v31 i3 flags k7 @i5 !i5");
        let mut words = text.split(' ');
        let mut again = Inst::named(words.next().unwrap()).unwrap();
        assert!(words.all(|word| again.add(word)));
        assert_eq!(again, inst);
        for word in CLASSES.into_iter().chain(BRANCHES.map(|(name, _)| name)) {
            assert_eq!(Inst::named(word).unwrap().to_string(), word);
        }
        assert_eq!(Inst::named("add"), None);
    }
}
