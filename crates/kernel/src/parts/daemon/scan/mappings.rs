//! The order in which a scan looks at memory. It takes the address spaces as they were made, and each from the lowest
//! mapping up. A scan goes on where the last one ended.

use crate::ranges::Span;
use crate::space::AddressSpace;
use crate::space::system::SystemCx;
use crate::space::vma::Vma;

/// Where a scan is.
#[derive(Debug, Default)]
pub(in crate::parts::daemon) struct Cursor {
    /// The serial number of the address space that is next, and the address in it.
    next: (u64, u64),
    /// Ends of rounds that this scan came to; one that begins with the first address space counts as such an end.
    ends: u32,
}

/// Next step of a scan.
pub(in crate::parts::daemon) enum Step {
    Mapping(Here),
    /// All address spaces were through: the first one is next.
    RoundEnds,
}

/// A mapping that a scan came to.
pub(in crate::parts::daemon) struct Here {
    /// The place of the address space among those of the system, and its serial number.
    pub slot: usize,
    pub serial: u64,
    pub span: Span<Vma>,
    /// The first address of the mapping that was not looked at yet.
    pub from: u64,
}

impl Cursor {
    /// A scan begins.
    pub fn begin(&mut self) {
        self.ends = u32::from(self.next == (0, 0));
    }

    /// Whether this scan looked at everything.
    pub fn is_through(&self) -> bool {
        self.ends >= 2
    }

    /// The next mapping, in the address spaces that the scan serves.
    pub fn next(&mut self, system: &SystemCx, serves: impl Fn(&AddressSpace) -> bool) -> Step {
        loop {
            let spaces = system.spaces.iter().enumerate();
            let due = spaces.filter_map(|(slot, s)| s.as_ref().filter(|s| serves(s)).map(|s| (s.serial, slot, s)));
            let Some((serial, slot, space)) = due.filter(|s| s.0 >= self.next.0).min_by_key(|s| s.0) else {
                self.next = (0, 0);
                self.ends += 1;
                return Step::RoundEnds;
            };
            if serial != self.next.0 {
                self.next = (serial, 0);
            }
            match space.vmas.at_or_above(self.next.1).cloned() {
                Some(span) => {
                    let from = span.start.max(self.next.1);
                    return Step::Mapping(Here { slot, serial, span, from });
                }
                None => self.next = (serial + 1, 0),
            }
        }
    }

    /// The scan looked at the mapping up to `address`.
    pub fn go_to(&mut self, address: u64) {
        self.next.1 = address;
    }
}
