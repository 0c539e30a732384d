//! Lowest page tables that address spaces share: each maps up to 2 MiB of one file's code (paper 2, section VI-B).
//!
//! ```text
//!   process 1   level 2 entry ---.
//!                                 \
//!   process 2   level 2 entry -----+--> one table of 512 entries --> pages of the file
//!                                 /
//!   process 3   level 2 entry ---'      a fault of any of them adds an entry for all
//! ```
//!
//! - A fault, a fork and a new mapping point to the table, if there is one for the same part of the file.
//! - What would change an entry for one process alone (other rights, another page) gives that process a copy first.
//! - Who unmaps all of it, or exits, lets go of it and looks at no entry.
//!
//! Each page is counted once as mapped by the table, not by each process. Pages count as mapped by a process and its
//! regions when these point to the table. Pages that come to the table later count at the process's next fault of its
//! own that maps a page in it. Hardware finds entries that others add without a fault, so until the next fault the
//! kernel does not count them.

use super::vma::{Back, Vma};
use super::window::Window;
use super::{AddressSpace, Cx, Found, Gather};
use crate::memory::shared_tables::Mapping;
use crate::ranges::Span;
use crate::report::counts::EventKind;
use crate::space::range::PageRange;
use crate::{FaultError, Wanted, WorkKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Prot, VirtAddr};

/// Memory that one lowest table maps.
const WINDOW: PageOrder = PageOrder::P2M;

/// The first address of the 2 MiB around `va`.
fn window_of(va: u64) -> u64 {
    VirtAddr::new(va).align_down(WINDOW).raw()
}

impl AddressSpace {
    /// The part of a file that the 2 MiB around a code mapping's page map, if they map nothing else.
    fn mapping_at(&self, span: &Span<Vma>, at: u64) -> Option<(u64, Mapping)> {
        let Back::Object(object, page) = span.value.back else { return None };
        let start = window_of(at);
        let end = start.checked_add(WINDOW.bytes())?;
        let (from, to) = (span.start.max(start), span.end.min(end));
        let is_alone = self.vmas.over(start, end).count() == 1;
        let has_hidden = self.hidden.range(VirtAddr::new(start).vpn()..VirtAddr::new(end).vpn()).next().is_some();
        if !is_alone || has_hidden || span.value.has_private {
            return None;
        }
        let first = page as i64 - ((span.start as i64 - start as i64) >> BASE_SHIFT);
        let entry = |va: u64| ((va - start) >> BASE_SHIFT) as u16;
        let prot = span.value.prot.without(Prot::W);
        Some((start, Mapping { object, first, from: entry(from), to: entry(to), prot }))
    }

    /// Points to the table that others have for the part of a file around `at`, if nothing is mapped there yet. True if
    /// the page at `at` is mapped then.
    ///
    /// # Errors
    /// No frame for the tables above it.
    pub(crate) fn join_table(&mut self, cx: &mut Cx, span: &Span<Vma>, at: u64) -> Result<bool, FaultError> {
        let Some((start, mapping)) = self.mapping_at(span, at) else { return Ok(false) };
        let Some(table) = cx.memory.shared_tables.get(&mapping) else { return Ok(false) };
        if self.windows.contains_key(&start)
            || !matches!(self.probe(cx.mem, VirtAddr::new(start)), Found::Hole(hole) if hole >= WINDOW)
        {
            return Ok(false);
        }
        if self.table.graft(cx.mem, cx.memory, VirtAddr::new(start).vpn(), table).is_err() {
            return Err(cx.out_of_memory(at, Wanted::Table));
        }
        cx.memory.shared_tables.join(&mapping);
        cx.work(WorkKind::EntryWrite, 1);
        cx.counts.events.add(EventKind::TableJoined, 1);
        self.windows.insert(start, Window::new(mapping));
        self.count_window(cx, start);
        Ok(matches!(self.probe(cx.mem, VirtAddr::new(at)), Found::Leaf(_)))
    }

    /// Offers the table around `at`, where the fault has just mapped a page, to other address spaces.
    pub(crate) fn offer_table(&mut self, cx: &mut Cx, span: &Span<Vma>, at: u64) {
        let Some((start, mapping)) = self.mapping_at(span, at) else { return };
        if self.windows.contains_key(&start) {
            self.count_window(cx, start);
            return;
        }
        if cx.memory.shared_tables.get(&mapping).is_some() {
            return;
        }
        let Some(table) = self.table.lowest_table(cx.mem, VirtAddr::new(start).vpn()) else { return };
        self.table.lend(table);
        cx.memory.shared_tables.add(mapping, table);
        cx.counts.events.add(EventKind::TableOffered, 1);
        let mut window = Window::new(mapping);
        for (va, _) in self.leaves(cx.mem, start, start + WINDOW.bytes()) {
            window.count((va - start) >> BASE_SHIFT);
        }
        self.windows.insert(start, window);
    }

    /// A child points to the tables that its parent shares.
    ///
    /// # Errors
    /// No frame for the tables above one.
    pub(crate) fn inherit_tables(&mut self, cx: &mut Cx, parent: &Self) -> Result<(), FaultError> {
        for &start in parent.windows.keys() {
            let span = self.vmas.over(start, start + WINDOW.bytes()).next().cloned();
            if let Some(span) = span {
                self.join_table(cx, &span, span.start.max(start))?;
            }
        }
        Ok(())
    }

    /// Whether this address space counts the page at `va` as mapped: of a shared table perhaps not yet.
    pub(crate) fn is_counted(&self, va: u64) -> bool {
        let start = window_of(va);
        self.windows.get(&start).is_none_or(|window| window.is_counted((va - start) >> BASE_SHIFT))
    }

    /// Counts what the shared table maps and this address space did not count yet.
    fn count_window(&mut self, cx: &mut Cx, start: u64) {
        if let Some(mut window) = self.windows.remove(&start) {
            self.count_mapped(cx, start, &mut window);
            self.windows.insert(start, window);
        }
    }

    /// The same for a window that was taken out of the list.
    fn count_mapped(&mut self, cx: &mut Cx, start: u64, window: &mut Window) {
        let mapped: Vec<u64> = self.leaves(cx.mem, start, start + WINDOW.bytes()).map(|(va, _)| va).collect();
        for va in mapped {
            let index = (va - start) >> BASE_SHIFT;
            if !window.is_counted(index) {
                window.count(index);
                self.count_in(cx, va, PageOrder::P4K, false);
            }
        }
    }

    /// Counts out all that this address space counted in the shared table.
    fn discount(&mut self, cx: &mut Cx, start: u64, window: &Window) {
        for index in (0..WINDOW.base_pages()).filter(|&index| window.is_counted(index)) {
            self.count_out(cx, start + index * BASE_BYTES, PageOrder::P4K, false);
        }
    }

    /// Gives this address space a table of its own before an entry of the table around `va` changes for it alone. The
    /// table is a copy, unless no other address space points to the original.
    ///
    /// # Errors
    /// No frame for the copy.
    pub(crate) fn own_table(&mut self, cx: &mut Cx, va: u64) -> Result<(), FaultError> {
        let start = window_of(va);
        let Some(mut window) = self.windows.remove(&start) else { return Ok(()) };
        self.count_mapped(cx, start, &mut window);
        let vpn = VirtAddr::new(start).vpn();
        if cx.memory.shared_tables.is_only(&window.mapping) {
            if let Some(table) = self.table.lowest_table(cx.mem, vpn) {
                self.table.take_back(cx.mem, table);
            }
            cx.memory.shared_tables.leave(&window.mapping);
            return Ok(());
        }
        let flush = match self.table.copy_lent(cx.mem, cx.memory, vpn) {
            Ok(flush) => flush,
            Err(_) => {
                self.windows.insert(start, window);
                return Err(cx.out_of_memory(va, Wanted::Table));
            }
        };
        cx.memory.shared_tables.leave(&window.mapping);
        let leaves: Vec<_> = self.leaves(cx.mem, start, start + WINDOW.bytes()).collect();
        for (_, leaf) in &leaves {
            cx.memory.share(leaf.pfn, leaf.order);
        }
        cx.work(WorkKind::EntryWrite, leaves.len() as u64 + 1);
        cx.counts.events.add(EventKind::TableCopied, 1);
        let mut gather = Gather::default();
        gather.take(flush);
        gather.note(start, WINDOW);
        self.finish(cx, gather);
        Ok(())
    }

    /// The same for all tables that meet a range.
    ///
    /// # Errors
    /// No frame for a copy.
    pub(crate) fn own_tables(&mut self, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        if self.windows.is_empty() {
            return Ok(());
        }
        let starts: Vec<u64> = self.windows.range(window_of(pages.start)..pages.end).map(|(&start, _)| start).collect();
        starts.into_iter().try_for_each(|start| self.own_table(cx, start))
    }

    /// Before a page is mapped at `va`: the shared table there is for pages of its mapping alone.
    ///
    /// # Errors
    /// No frame for a copy.
    #[inline]
    pub(crate) fn before_map(&mut self, cx: &mut Cx, va: u64) -> Result<(), FaultError> {
        if self.windows.is_empty() {
            return Ok(());
        }
        let index = ((va - window_of(va)) >> BASE_SHIFT) as u16;
        let is_outside = |window: &Window| !(window.mapping.from..window.mapping.to).contains(&index);
        match self.windows.get(&window_of(va)).is_some_and(is_outside) {
            true => self.own_table(cx, va),
            false => Ok(()),
        }
    }

    /// The page at `va` is counted as mapped.
    #[inline]
    pub(crate) fn note_counted(&mut self, va: u64) {
        if self.windows.is_empty() {
            return;
        }
        if let Some(window) = self.windows.get_mut(&window_of(va)) {
            window.count((va - window_of(va)) >> BASE_SHIFT);
        }
    }

    /// Lets go of the shared tables of which `start..end` covers all that they map, and owns those that it meets in
    /// part. Nothing is left for the caller to unmap where a table went that others keep.
    ///
    /// # Errors
    /// No frame for a copy.
    pub(crate) fn leave_tables(
        &mut self,
        cx: &mut Cx,
        pages: PageRange,
        gather: &mut Gather,
    ) -> Result<(), FaultError> {
        if self.windows.is_empty() {
            return Ok(());
        }
        let PageRange { start, end } = pages;
        let met: Vec<(u64, Window)> =
            self.windows.range(window_of(start)..end).map(|(&at, window)| (at, window.clone())).collect();
        for (at, window) in met {
            let (from, to) =
                (at + u64::from(window.mapping.from) * BASE_BYTES, at + u64::from(window.mapping.to) * BASE_BYTES);
            let is_all = start <= from && to <= end;
            if !is_all || cx.memory.shared_tables.is_only(&window.mapping) {
                if start < to && from < end {
                    self.own_table(cx, at)?;
                }
                continue;
            }
            self.discount(cx, at, &window);
            self.windows.remove(&at);
            cx.memory.shared_tables.leave(&window.mapping);
            gather.take(self.table.ungraft(cx.mem, cx.memory, VirtAddr::new(at).vpn()));
            gather.note_range(at, WINDOW, PageOrder::P4K);
            cx.work(WorkKind::EntryWrite, 1);
            cx.counts.events.add(EventKind::TableLeft, 1);
        }
        Ok(())
    }
}
