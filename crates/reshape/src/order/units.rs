//! The functions of a file as they can be ordered: each with the bytes behind it up to the next one, section by
//! section. So the functions of a section fill it without gaps, in any order. (A function may begin at another
//! remainder of 16 bytes than a linker would give it.)

use mmulab_elf::CodeSection;
use std::ops::Range;

/// A function, with what stands behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Its bytes in the file.
    pub range: Range<u64>,
    /// The section it stays in.
    pub section: usize,
    /// Its symbol.
    pub name: Option<String>,
}

/// The functions of a file, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Units(pub Vec<Unit>);

impl Units {
    /// The functions of these sections.
    pub fn of(sections: &[CodeSection]) -> Self {
        let mut units: Vec<Unit> = Vec::new();
        for (number, section) in sections.iter().enumerate() {
            for (at, function) in section.functions.iter().enumerate() {
                let end = section.functions.get(at + 1).map_or(section.range.end, |next| next.start);
                units.push(Unit { range: function.start..end, section: number, name: function.name.clone() });
            }
        }
        units.retain(|unit| unit.range.start < unit.range.end);
        units.sort_by_key(|unit| unit.range.start);
        Self(units)
    }

    /// The number of the function that holds a byte of the file.
    pub fn at(&self, offset: u64) -> Option<usize> {
        let next = self.0.partition_point(|unit| unit.range.start <= offset);
        next.checked_sub(1).filter(|&number| self.0[number].range.contains(&offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_elf::Function;

    #[test]
    fn functions_reach_to_the_next_one_or_to_the_end_of_their_section() {
        let function = |start| Function { start, end: start + 1, name: None };
        let units = Units::of(&[
            CodeSection { range: 0x1000..0x1100, functions: vec![function(0x1010), function(0x1080)] },
            CodeSection { range: 0x2000..0x2040, functions: vec![function(0x2000)] },
        ]);
        let ranges: Vec<_> = units.0.iter().map(|unit| (unit.range.clone(), unit.section)).collect();
        assert_eq!(ranges, [(0x1010..0x1080, 0), (0x1080..0x1100, 0), (0x2000..0x2040, 1)]);
        let found = [0x100f, 0x1010, 0x10ff, 0x1100, 0x203f, 0x2040].map(|offset| units.at(offset));
        assert_eq!(found, [None, Some(0), Some(1), None, Some(2), None]);
    }
}
