//! Khugepaged on text. It brings pages of the page cache into one block of 2 MiB, which the next fault of each process
//! maps by one entry. Linux: `hpage_collapse_scan_file` and `collapse_file` in mm/khugepaged.c, for kernels that have
//! CONFIG_READ_ONLY_THP_FOR_FS.

use super::copy::free_block;
use super::limits::Limits;
use super::pace::Scan;
use crate::memory::cache::ObjectId;
use crate::ranges::Span;
use crate::report::counts::{EventKind, Refusal};
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use crate::space::vma::{Back, Vma};
use crate::{KernelError, Note, WorkKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Prot, VirtAddr};

/// Brings the 2 MiB of text at `start` of a mapping together, if enough of them is in memory.
///
/// # Errors
/// Frames for page tables ran out.
pub(super) fn collapse_text(
    system: &mut SystemCx,
    compaction: &mut Compaction,
    limits: &Limits,
    defrag: bool,
    (slot, span, start): (usize, &Span<Vma>, u64),
) -> Result<Scan, KernelError> {
    let size = PageOrder::P2M;
    let Back::Object(id, first) = span.value.back else { return Ok(Scan::Done) };
    let first = first + ((start - span.start) >> BASE_SHIFT);
    if !first.is_multiple_of(size.base_pages()) {
        system.refuse(Refusal::TextMisaligned, start);
        return Ok(Scan::Done);
    }
    let memory = &system.shared.memory;
    let is_block = memory.whole_block(id, first, size).is_some_and(|pfn| memory.pages.get(pfn).folio == size.get());
    if is_block {
        return Ok(Scan::Done);
    }
    let cached = (first..first + size.base_pages()).filter(|&page| memory.cache.get(id, page).is_some()).count() as u64;
    system.shared.memory.work.add(WorkKind::EntryScan, size.base_pages());
    system.shared.counts.events.add(EventKind::KhugepagedScanned, size.base_pages());
    if !limits.is_enough(cached) {
        system.refuse(Refusal::TextNotCached, start);
        return Ok(Scan::Done);
    }
    if is_written(system, id) {
        system.refuse(Refusal::TextWritten, start);
        return Ok(Scan::Done);
    }
    if !free_block(system, compaction, size, defrag, start) {
        system.refuse(Refusal::ThpNoBlock, start);
        return Ok(Scan::NoBlock);
    }
    for slot in 0..system.spaces.len() {
        if system.spaces[slot].is_some() {
            let (space, mut cx) = system.at(slot);
            space.unmap_cached(&mut cx, id, first, first + size.base_pages())?;
        }
    }
    let (space, cx) = system.at(slot);
    cx.memory.resident.act_for(space.region(start));
    let Some((pfn, read)) = cx.memory.gather_cached(id, first, size) else {
        system.refuse(Refusal::ThpNoBlock, start);
        return Ok(Scan::NoBlock);
    };
    cx.memory.work.add(WorkKind::CopyBytes, (size.base_pages() - read) * BASE_BYTES);
    cx.memory.work.add(WorkKind::ReadBytes, read * BASE_BYTES);
    let events = &mut system.shared.counts.events;
    events.add(EventKind::PagesRead, read);
    events.add(EventKind::Collapse, 1);
    events.add(EventKind::KhugepagedCollapse, 1);
    if system.effects.narrate {
        if read > 0 {
            system.effects.notes.push(Note::Read { page: first, pages: read });
        }
        system.effects.notes.push(Note::Collapsed { va: VirtAddr::new(start), size, pfn });
    }
    Ok(Scan::Done)
}

/// Whether a process may store to the file itself (`inode_is_open_for_write`, as far as mappings show it).
fn is_written(system: &SystemCx, id: ObjectId) -> bool {
    let stores = |vma: &Vma| vma.shared && vma.prot.has(Prot::W) && matches!(vma.back, Back::Object(of, _) if of == id);
    system.spaces.iter().flatten().any(|space| space.vmas.iter().any(|span| stores(&span.value)))
}
