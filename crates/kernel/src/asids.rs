//! ASID allocation. An address space keeps its ASID until the address space ends or, if all ASIDs are in use, until
//! another address space takes the ASID. The kernel then flushes the TLB entries of the former owner.

use mmulab_addr::Asid;

/// The ASIDs of the TLBs. ASID 0 is kept for translations valid everywhere.
#[derive(Debug)]
pub struct Asids {
    /// By ASID: the serial number of its address space.
    owners: Vec<Option<u64>>,
    next: usize,
}

/// An ASID that an address space was given.
pub struct Given {
    pub asid: Asid,
    /// The serial number of the address space it was taken from.
    pub taken_from: Option<u64>,
}

impl Asids {
    /// ASIDs of this number of bits. Without any, all address spaces share one, and each switch must flush.
    pub fn new(bits: u8) -> Self {
        let count = 1usize << bits.clamp(1, 16);
        Self { owners: vec![None; count], next: 1 }
    }

    /// An ASID for an address space: the next free one, or, when all are taken, the one after the last given.
    pub fn give(&mut self, serial: u64) -> Given {
        let usable = self.owners.len() - 1;
        let free = (0..usable).map(|i| (self.next - 1 + i) % usable + 1).find(|&asid| self.owners[asid].is_none());
        let asid = free.unwrap_or(self.next);
        self.next = asid % usable + 1;
        Given { asid: Asid(asid as u16), taken_from: self.owners[asid].replace(serial) }
    }

    /// The ASID is free again.
    pub fn take_back(&mut self, asid: Asid) {
        self.owners[usize::from(asid.0)] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asids_are_given_in_turn_and_taken_when_there_are_no_more() {
        let mut asids = Asids::new(2);
        let mut give = |serial| {
            let given = asids.give(serial);
            (given.asid.0, given.taken_from)
        };
        assert_eq!([give(7), give(8), give(9)], [(1, None), (2, None), (3, None)]);
        assert_eq!(give(10), (1, Some(7)));
        assert_eq!(give(7), (2, Some(8)));
        asids.take_back(Asid(1));
        assert_eq!(asids.give(11).asid, Asid(1));
        let mut one = Asids::new(0);
        assert_eq!((one.give(1).asid.0, one.give(2).asid.0), (1, 1));
    }
}
