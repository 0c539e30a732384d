//! What the page tables say of an address space, and whether that bears out what TLBs hold.

use crate::{running::Running, system::System, virt::Host};
use mmulab_addr::{Asid, Prot, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_pagetable::Leaf;
use mmulab_tlb::Entry;
use mmulab_walker::WalkContext;
use std::collections::BTreeMap;

/// What the page tables say of an address space: one table, or a guest's over the host's.
#[derive(Clone, Copy)]
pub(super) struct Tables<'a> {
    pub mem: &'a PhysMem,
    pub cx: WalkContext,
    pub host: Option<&'a Host>,
    pub vm: usize,
}

impl<'a> Tables<'a> {
    /// Those of the process that acts.
    pub fn acting(machine: &'a Running, cx: WalkContext) -> Self {
        let host = machine.host();
        Self { mem: &machine.state().system.mem, cx, host, vm: host.map_or(0, Host::at) }
    }

    /// The leaf that translates `va`; of two tables the smaller page, with what both grant.
    pub fn leaf(&self, va: VirtAddr) -> Option<Leaf> {
        let leaf = self.cx.leaf(self.mem, va)?;
        let Some(host) = self.host else { return Some(leaf) };
        let gpa = leaf.translate(va);
        let below = host.leaf_of(self.vm, gpa)?;
        let order = leaf.order.min(below.order);
        let pa = below.translate(VirtAddr::new(gpa.0));
        Some(Leaf {
            pfn: pa.pfn().align_down(order),
            order,
            prot: Prot::from_bits(leaf.prot.bits() & below.prot.bits()),
            dirty: leaf.dirty && below.dirty,
            global: false,
            ..leaf
        })
    }
}

/// The tables of the process that a core runs.
pub(super) fn of_cpu(machine: &Running, cpu: u16) -> Option<Tables<'_>> {
    let System { kernel, mem, .. } = &machine.state().system;
    let context = kernel.context(kernel.running(cpu)?)?;
    let host = machine.host();
    let vm = host.map_or(0, Host::at);
    let asid = host.map_or(context.asid, |host| host.tag_of(vm, context.asid));
    let cx = WalkContext { format: context.format, root: context.root, asid };
    Some(Tables { mem, cx, host, vm })
}

/// Whether the host's tables bear out what nested TLBs hold.
pub(super) fn held_by_nested_tlbs(host: &Host) -> Result<(), String> {
    let machines: BTreeMap<Asid, usize> = host.contexts().map(|(vm, cx)| (cx.asid, vm)).collect();
    let mut wrong = Ok(());
    for walker in host.walkers() {
        walker.each_held(|tag, gpa, held| {
            let Some(&vm) = machines.get(&tag) else { return };
            let va = VirtAddr::new(gpa.0);
            let says = host.leaf_of(vm, gpa);
            let fits = says.is_some_and(|leaf| {
                leaf.order >= held.order && leaf.translate(va) == held.translate(va) && (leaf.dirty || !held.dirty)
            });
            if wrong.is_ok() && !fits {
                wrong = Err(format!(
                    "a nested TLB holds {held:?} of guest-physical {gpa}, and the host's table says {says:?}"
                ));
            }
        });
    }
    wrong
}

/// Whether the tables bear an entry out: its frames, no more rights than they grant, and no store without a dirty bit.
pub(super) fn sound(tables: Tables, entry: &Entry) -> Result<(), String> {
    let end = entry.vpn.0 + entry.order.base_pages();
    let mut vpn = entry.vpn;
    while vpn.0 < end {
        let va = vpn.addr();
        let Some(leaf) = tables.leaf(va) else { return Err(format!("{va} is not mapped")) };
        if leaf.translate(va) != entry.translate(va) {
            return Err(format!("{va} is at {}, the entry says {}", leaf.translate(va), entry.translate(va)));
        }
        // A store through a clean entry reads the table again, and faults there if the right is gone. Kernels take the
        // right from clean pages without a flush (FreeBSD, before it promotes them).
        let usable = if entry.dirty { entry.prot } else { entry.prot.without(Prot::W) };
        let excess = Prot::from_bits(usable.bits() & !leaf.prot.bits());
        if excess != Prot::NONE {
            return Err(format!("the table does not grant {excess:?} of {va}"));
        }
        if entry.dirty && entry.prot.has(Prot::W) && !leaf.dirty {
            return Err(format!("a store to {va} would leave its dirty bit clear"));
        }
        vpn.0 = vpn.align_down(leaf.order).0 + leaf.order.base_pages();
    }
    Ok(())
}
