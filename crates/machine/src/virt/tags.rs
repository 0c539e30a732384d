//! TLB tags under virtualization: one 16-bit number for the virtual machine and the guest's address space together.
//! With these tags, entries of several guests can stay in one TLB across a switch of virtual machines.
//!
//! ```text
//! bits    15 to guest_bits         guest_bits - 1 to 0
//!         virtual machine          guest's own ASID
//! if guest_bits is 0: bit 0 is the ASID, and the bits above are the virtual machine
//! ```

use mmulab_addr::Asid;

/// The split of the sixteen bits: the guest's ASID (x86-64's PCID) has the low bits, the virtual machine's number
/// (VPID) the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tags {
    guest_bits: u8,
}

impl Tags {
    /// Tags for this number of machines, on TLBs whose ASIDs have `bits` bits. If both together need more bits, guests
    /// have fewer tags. Without any bits a guest has one, and a change of machine flushes.
    pub fn new(machines: usize, bits: u8) -> Self {
        let of_machines = machines.next_power_of_two().trailing_zeros() as u8;
        Self { guest_bits: bits.min(u16::BITS as u8 - of_machines) }
    }

    /// Bits of a guest's own tags.
    pub fn guest_bits(self) -> u8 {
        self.guest_bits
    }

    /// Whether there are no tags.
    pub fn is_none(self) -> bool {
        self.guest_bits == 0
    }

    /// The tag of what machine `vm` calls `asid`.
    #[inline]
    pub fn of(self, vm: usize, asid: Asid) -> Asid {
        // Without tags every guest calls its address space 1.
        // A guest that is alone may have all sixteen bits: its number, 0, has none.
        let machine = (vm as u16).checked_shl(u32::from(self.guest_bits.max(1))).unwrap_or(0);
        Asid(machine | asid.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_address_spaces_share_a_tag() {
        let tags = Tags::new(5, 12);
        assert_eq!((tags.guest_bits(), tags.of(0, Asid(7)), tags.of(2, Asid(7))), (12, Asid(7), Asid(0x2007)));
        // Three bits for machines leave thirteen.
        assert_eq!(Tags::new(5, 16).guest_bits(), 13);
        // CHANGELOG number 16: a shift by all sixteen bits.
        let alone = Tags::new(1, 16);
        assert_eq!((alone.guest_bits(), alone.of(0, Asid(7))), (16, Asid(7)));
        let none = Tags::new(4, 0);
        assert!(none.is_none());
        assert_eq!((none.of(0, Asid(1)), none.of(3, Asid(1))), (Asid(1), Asid(7)));
    }
}
