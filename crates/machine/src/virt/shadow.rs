//! Shadow tables. For each address space of a guest, the host keeps a table from the program's addresses to its own
//! frames. The walker reads this table alone. Sources: Adams and Agesen, *A Comparison of Software and Hardware
//! Techniques for x86 Virtualization*, ASPLOS 2006, section 4; Linux, Documentation/virt/kvm/x86/mmu.rst.
//!
//! An entry is made when a walk does not find it. This is a VM exit. The host reads the guest's table and its own, and
//! sets the accessed and dirty bits of both as the processor would. It maps the smaller of both pages. An entry lets
//! stores through only once both pages are dirty, so that the first store to a clean page is an exit too. Entries go
//! with the guest's own invalidations, each of which is an exit. The host has the guest's tables write-protected, as
//! the VMM of that paper ("tracing"). Each entry that the guest's kernel writes is an exit, and so is each table that
//! it loads into the base register. The walks that fail find the new entries. Linux lets guests write to last-level
//! tables until the next invalidation ("unsync" pages), and so has fewer exits.

use super::host::Host;
use crate::ended::Ended;
use mmulab_addr::{Access, PageOrder, PhysAddr, Prot, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_pagetable::{Invalidate, Leaf, MapError, Table};
use mmulab_walker::WalkContext;

/// What came of a walk that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filled {
    /// The shadow table has the page now.
    Yes,
    /// The guest's table does not allow the access: the guest must see a fault.
    GuestFault,
}

/// The leaf that translates `va`, marked as the processor marks what it uses. Entries above are marked when they are
/// made.
fn used(mem: &mut PhysMem, cx: WalkContext, va: VirtAddr, access: Access) -> Option<Leaf> {
    let found = cx.format.find(mem, cx.root, va).filter(|found| found.leaf.allows(access))?;
    let is_store = access == Access::Write;
    let marked = if is_store { cx.format.dirtied(found.bits) } else { cx.format.accessed(found.bits, true) };
    mem.write(found.entry, marked);
    Some(Leaf { accessed: true, dirty: found.leaf.dirty || is_store, ..found.leaf })
}

impl Host {
    /// The table that the walker reads for the guest's address space `guest`; made if there is none.
    pub fn shadow(&mut self, guest: WalkContext) -> Result<WalkContext, Ended> {
        let Some(shadows) = &mut self.shadows else { return Ok(guest) };
        if !shadows.tables.contains_key(&guest.asid) {
            let desc = &shadows.desc;
            let mem = &mut self.system.mem;
            let made = self.system.kernel.with_table_frames(&mut self.effects, |frames| Table::new(desc, mem, frames));
            let table = made.map_err(|_| no_frame())?;
            shadows.tables.insert(guest.asid, table);
        }
        let root = shadows.tables[&guest.asid].root();
        Ok(WalkContext { format: self.format, root, asid: guest.asid })
    }

    /// A walk of the shadow table failed: the host sees what both tables say.
    pub fn fill_shadow(
        &mut self,
        mem: &mut PhysMem,
        guest: WalkContext,
        (cpu, va, access): (u16, VirtAddr, Access),
    ) -> Result<Filled, Ended> {
        self.counts.exits += 1;
        let Some(leaf) = used(mem, guest, va, access) else { return Ok(Filled::GuestFault) };
        let gpa = leaf.translate(va);
        let at = VirtAddr::new(gpa.0);
        let context = self.guests[self.at].context;
        let below = match used(&mut self.system.mem, context, at, access) {
            Some(below) => below,
            None => {
                self.counts.walk_violations += 1;
                self.serve_violation(gpa, access, cpu)?;
                // Served within the same exit.
                self.counts.exits -= 1;
                match used(&mut self.system.mem, context, at, access) {
                    Some(below) => below,
                    None => return Err(Ended::Stuck { va: at, access }),
                }
            }
        };
        let Some(shadows) = &mut self.shadows else { return Ok(Filled::Yes) };
        let mut order = leaf.order.min(below.order);
        while !shadows.desc.has_leaf(order) {
            // The page sizes of the formats may differ; all have base pages.
            order = PageOrder::new(order.get() - 1);
        }
        let both = Prot::from_bits(leaf.prot.bits() & below.prot.bits());
        let prot = if leaf.dirty && below.dirty { both } else { both.without(Prot::W) };
        let pa: PhysAddr = below.translate(at);
        let page = Leaf {
            pfn: pa.pfn().align_down(order),
            order,
            prot,
            dirty: access == Access::Write,
            global: false,
            ..leaf
        };
        let vpn = va.vpn().align_down(order);
        let Some(table) = shadows.tables.get_mut(&guest.asid) else { return Ok(Filled::Yes) };
        let host_mem = &mut self.system.mem;
        let (asid, stale) = (guest.asid, &mut self.shadow_stale);
        self.system.kernel.with_table_frames(&mut self.effects, |frames| {
            // What is there allows less than the tables do now, or is of another size.
            while let Some((first, old)) = table.lookup(host_mem, va.vpn()) {
                table.unmap(host_mem, frames, first, old.order).1.deliver(asid, stale);
            }
            loop {
                match table.map(host_mem, frames, vpn, page) {
                    Ok(flush) => {
                        flush.deliver(asid, stale);
                        return Ok(Filled::Yes);
                    }
                    Err(MapError::TableThere | MapError::AlreadyMapped(_)) => {
                        // Smaller pages are there, beside this address.
                        let mut there = Vec::new();
                        let range = mmulab_addr::VirtRange::sized(vpn.addr(), order.bytes());
                        table.for_each_leaf(host_mem, range, |first, old| there.push((first, old.order)));
                        if there.is_empty() {
                            return Err(Ended::Stuck { va, access });
                        }
                        for (first, size) in there {
                            table.unmap(host_mem, frames, first, size).1.deliver(asid, stale);
                        }
                    }
                    Err(_) => return Err(no_frame()),
                }
            }
        })
    }

    /// What a guest wants invalidated, by the machine's tags, goes from its shadow tables too.
    pub fn shadow_forget(&mut self, what: &Invalidate) {
        let Some(shadows) = &mut self.shadows else { return };
        let stale = &mut self.shadow_stale;
        let mem = &mut self.system.mem;
        let range = match *what {
            Invalidate::Page { va, order, .. } => {
                Some(mmulab_addr::VirtRange::sized(va.align_down(order), order.bytes()))
            }
            Invalidate::Range { range, .. } => Some(range),
            Invalidate::Asid(_) | Invalidate::All => None,
        };
        let of = match *what {
            Invalidate::Page { asid, .. } | Invalidate::Range { asid, .. } | Invalidate::Asid(asid) => asid,
            Invalidate::All => return,
        };
        self.system.kernel.with_table_frames(&mut self.effects, |frames| match range {
            None => {
                if let Some(table) = shadows.tables.remove(&of) {
                    table.free(mem, frames);
                }
            }
            Some(range) => {
                let Some(table) = shadows.tables.get_mut(&of) else { return };
                let mut there = Vec::new();
                table.for_each_leaf(mem, range, |first, old| there.push((first, old.order)));
                for (first, size) in there {
                    let (_, flush) = table.unmap(mem, frames, first, size);
                    if flush.moves_tables() {
                        flush.deliver(of, stale);
                    } else {
                        flush.lazy("the guest's invalidation reaches the TLBs as well");
                    }
                }
            }
        });
    }
}

fn no_frame() -> Ended {
    Ended::OutOfMemory(
        "the host is out of memory: no frame for a shadow table: give the host more (memory.size), or its guests less \
         (virtual.memory.size)"
            .into(),
    )
}
