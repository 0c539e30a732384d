//! Page tables that address spaces share: each maps a part of one file's code (paper 2, section VI-B).
//!
//! ```text
//!   process 1   level 2 entry ---.
//!                                 \
//!   process 2   level 2 entry -----+--> one table of 512 entries --> pages of the file
//!                                 /
//!   process 3   level 2 entry ---'      a fault of any of them adds an entry for all
//! ```
//!
//! The lowest tables map 2 MiB. If the policy asks for all levels, a table above them can be shared with all tables
//! below it. Its whole range must show one mapping of code alone: 1 GiB by a level 3 entry, 512 GiB by a level 4 entry.
//!
//! - A fault, a fork and a new mapping point to the table, if there is one for the same part of the file.
//! - What would change an entry for one process alone (other rights, another page) gives that process copies first, of
//!   the table and of all tables below it.
//! - Who unmaps all of it, or exits, lets go of it and looks at no entry.
//!
//! Each page is counted once as mapped by the table, not by each process. Pages count as mapped by a process and its
//! regions when these point to the table. Pages that come to the table later count at the process's next fault of its
//! own that maps a page in the same 2 MiB. Hardware finds entries that others add without a fault, so until the next
//! fault the kernel does not count them.

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
const LOWEST: PageOrder = PageOrder::P2M;

impl AddressSpace {
    /// The shared table that maps `va`, and the first address that it maps.
    fn window_around(&self, va: u64) -> Option<(u64, &Window)> {
        let (&start, window) = self.windows.range(..=va).next_back()?;
        (va - start < window.mapping.covers.bytes()).then_some((start, window))
    }

    /// The part of a file that the aligned `covers` around a code mapping's page map, if they map nothing else.
    fn mapping_at(&self, span: &Span<Vma>, at: u64, covers: PageOrder) -> Option<(u64, Mapping)> {
        let Back::Object(object, page) = span.value.back else { return None };
        let start = VirtAddr::new(at).align_down(covers).raw();
        let end = start.checked_add(covers.bytes())?;
        let (from, to) = (span.start.max(start), span.end.min(end));
        let is_alone = self.vmas.over(start, end).take(2).count() == 1;
        let has_hidden = self.hidden.range(VirtAddr::new(start).vpn()..VirtAddr::new(end).vpn()).next().is_some();
        if !is_alone || has_hidden || span.value.has_private {
            return None;
        }
        let first = page as i64 - ((span.start as i64 - start as i64) >> BASE_SHIFT);
        let base_page = |va: u64| (va - start) >> BASE_SHIFT;
        let prot = span.value.prot.without(Prot::W);
        Some((start, Mapping { covers, object, first, from: base_page(from), to: base_page(to), prot }))
    }

    /// Points to the largest table of `sizes`, the largest first, that others have for the part of a file around `at`,
    /// if nothing is mapped there yet. The size of the page at `at`, if that is mapped then.
    ///
    /// # Errors
    /// No frame for the tables above it.
    pub(crate) fn join_table(
        &mut self,
        cx: &mut Cx,
        span: &Span<Vma>,
        at: u64,
        sizes: &[PageOrder],
    ) -> Result<Option<PageOrder>, FaultError> {
        for &covers in sizes {
            if self.join_one(cx, span, at, covers)? {
                return Ok(match self.probe(cx.mem, VirtAddr::new(at)) {
                    Found::Leaf(leaf) => Some(leaf.order),
                    Found::Hole(_) => None,
                });
            }
        }
        Ok(None)
    }

    /// Whether it points to the table of one size around `at` now, and did not before.
    fn join_one(&mut self, cx: &mut Cx, span: &Span<Vma>, at: u64, covers: PageOrder) -> Result<bool, FaultError> {
        let Some((start, mapping)) = self.mapping_at(span, at, covers) else { return Ok(false) };
        let Some(table) = cx.memory.shared_tables.get(&mapping) else { return Ok(false) };
        if self.window_around(start).is_some()
            || !matches!(self.probe(cx.mem, VirtAddr::new(start)), Found::Hole(hole) if hole >= covers)
        {
            return Ok(false);
        }
        if self.table.graft(cx.mem, cx.memory, VirtAddr::new(start).vpn(), covers, table).is_err() {
            return Err(cx.out_of_memory(at, Wanted::Table));
        }
        cx.memory.shared_tables.join(&mapping);
        cx.work(WorkKind::EntryWrite, 1);
        cx.counts.events.add(EventKind::TableJoined, 1);
        let mut window = Window::new(mapping);
        self.count_mapped(cx, start, &mut window, PageRange { start, end: start + covers.bytes() });
        self.windows.insert(start, window);
        Ok(true)
    }

    /// Offers the largest table of `sizes`, the largest first, around `at`, where the fault has just mapped a page, to
    /// other address spaces. Of a table that is shared already, it counts what the fault mapped.
    pub(crate) fn offer_table(&mut self, cx: &mut Cx, span: &Span<Vma>, at: u64, sizes: &[PageOrder]) {
        if let Some((start, _)) = self.window_around(at) {
            self.count_around(cx, start, at);
            return;
        }
        for &covers in sizes {
            let Some((start, mapping)) = self.mapping_at(span, at, covers) else { continue };
            let end = start + covers.bytes();
            // A table below may be shared by itself, or others may have another table for the same.
            let is_taken =
                self.windows.range(start..end).next().is_some() || cx.memory.shared_tables.get(&mapping).is_some();
            if is_taken {
                continue;
            }
            let Some(table) = self.table.lend(cx.mem, VirtAddr::new(start).vpn(), covers) else { continue };
            cx.memory.shared_tables.add(mapping, table);
            cx.counts.events.add(EventKind::TableOffered, 1);
            let mut window = Window::new(mapping);
            for (va, leaf) in self.leaves(cx.mem, start, end) {
                window.count((va - start) >> BASE_SHIFT, leaf.order);
            }
            self.windows.insert(start, window);
            return;
        }
    }

    /// A child points to the tables that its parent shares.
    ///
    /// # Errors
    /// No frame for the tables above one.
    pub(crate) fn inherit_tables(&mut self, cx: &mut Cx, parent: &Self) -> Result<(), FaultError> {
        for (&start, window) in &parent.windows {
            let covers = window.mapping.covers;
            let span = self.vmas.over(start, start + covers.bytes()).next().cloned();
            if let Some(span) = span {
                self.join_table(cx, &span, span.start.max(start), &[covers])?;
            }
        }
        Ok(())
    }

    /// Where the shared table ends that maps `va`, if one does.
    pub(crate) fn shared_until(&self, va: u64) -> Option<u64> {
        self.window_around(va).map(|(start, window)| start + window.mapping.covers.bytes())
    }

    /// Whether this address space counts the page that begins at `va` as mapped: of a shared table perhaps not yet.
    pub(crate) fn is_counted(&self, va: u64) -> bool {
        self.window_around(va).is_none_or(|(start, window)| window.is_counted((va - start) >> BASE_SHIFT))
    }

    /// Counts what the shared table that begins at `start` maps in the 2 MiB around `at`, and this address space did
    /// not count yet.
    fn count_around(&mut self, cx: &mut Cx, start: u64, at: u64) {
        let part = VirtAddr::new(at).align_down(LOWEST).raw();
        if let Some(mut window) = self.windows.remove(&start) {
            self.count_mapped(cx, start, &mut window, PageRange { start: part, end: part + LOWEST.bytes() });
            self.windows.insert(start, window);
        }
    }

    /// The same for pages of a window that is not in the list.
    fn count_mapped(&mut self, cx: &mut Cx, start: u64, window: &mut Window, pages: PageRange) {
        let mapped: Vec<_> = self.leaves(cx.mem, pages.start, pages.end).collect();
        for (va, leaf) in mapped {
            let index = (va - start) >> BASE_SHIFT;
            if !window.is_counted(index) {
                window.count(index, leaf.order);
                self.count_in(cx, va, leaf.order, false);
            }
        }
    }

    /// Counts out all that this address space counted in the shared table.
    fn discount(&mut self, cx: &mut Cx, start: u64, window: &Window) {
        for (index, order) in window.counted() {
            self.count_out(cx, start + index * BASE_BYTES, order, false);
        }
    }

    /// Gives this address space a table of its own before an entry of the table around `va` changes for it alone. The
    /// table and those below it are copies, unless no other address space points to the original.
    ///
    /// # Errors
    /// No frame for a copy.
    pub(crate) fn own_table(&mut self, cx: &mut Cx, va: u64) -> Result<(), FaultError> {
        let Some((start, _)) = self.window_around(va) else { return Ok(()) };
        let Some(mut window) = self.windows.remove(&start) else { return Ok(()) };
        let covers = window.mapping.covers;
        let end = start + covers.bytes();
        self.count_mapped(cx, start, &mut window, PageRange { start, end });
        let vpn = VirtAddr::new(start).vpn();
        if cx.memory.shared_tables.is_only(&window.mapping) {
            self.table.take_back(cx.mem, vpn, covers);
            cx.memory.shared_tables.leave(&window.mapping);
            return Ok(());
        }
        let (tables, flush) = match self.table.copy_lent(cx.mem, cx.memory, vpn, covers) {
            Ok(copied) => copied,
            Err(_) => {
                self.windows.insert(start, window);
                return Err(cx.out_of_memory(va, Wanted::Table));
            }
        };
        cx.memory.shared_tables.leave(&window.mapping);
        let leaves: Vec<_> = self.leaves(cx.mem, start, end).collect();
        for (_, leaf) in &leaves {
            cx.memory.share(leaf.pfn, leaf.order);
        }
        // An entry for each page, and one that points to each copy.
        cx.work(WorkKind::EntryWrite, leaves.len() as u64 + tables);
        cx.counts.events.add(EventKind::TableCopied, tables);
        let mut gather = Gather::default();
        gather.take(flush);
        gather.note(start, covers);
        self.finish(cx, gather);
        Ok(())
    }

    /// The first addresses of all shared tables that meet a range.
    fn windows_over(&self, pages: PageRange) -> Vec<u64> {
        let first = self.window_around(pages.start).map_or(pages.start, |(start, _)| start);
        self.windows.range(first..pages.end).map(|(&start, _)| start).collect()
    }

    /// The same as [`Self::own_table`] for all tables that meet a range.
    ///
    /// # Errors
    /// No frame for a copy.
    pub(crate) fn own_tables(&mut self, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        if self.windows.is_empty() {
            return Ok(());
        }
        self.windows_over(pages).into_iter().try_for_each(|start| self.own_table(cx, start))
    }

    /// Before a page of this size is mapped at `va`: the shared table there is for pages of its mapping alone. Others
    /// may map less of the file: code that was padded here, say.
    ///
    /// # Errors
    /// No frame for a copy.
    #[inline]
    pub(crate) fn before_map(&mut self, cx: &mut Cx, va: u64, order: PageOrder) -> Result<(), FaultError> {
        if self.windows.is_empty() {
            return Ok(());
        }
        let is_outside = self.window_around(va).is_some_and(|(start, Window { mapping, .. })| {
            let first = (va - start) >> BASE_SHIFT;
            first < mapping.from || first + order.base_pages() > mapping.to
        });
        match is_outside {
            true => self.own_table(cx, va),
            false => Ok(()),
        }
    }

    /// The page of this size at `va` is counted as mapped.
    #[inline]
    pub(crate) fn note_counted(&mut self, va: u64, order: PageOrder) {
        if self.windows.is_empty() {
            return;
        }
        let Some((start, _)) = self.window_around(va) else { return };
        if let Some(window) = self.windows.get_mut(&start) {
            window.count((va - start) >> BASE_SHIFT, order);
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
        for at in self.windows_over(pages) {
            let Some(window) = self.windows.get(&at) else { continue };
            let mapping = window.mapping;
            let (from, to) = (at + mapping.from * BASE_BYTES, at + mapping.to * BASE_BYTES);
            let is_all = start <= from && to <= end;
            if !is_all || cx.memory.shared_tables.is_only(&mapping) {
                if start < to && from < end {
                    self.own_table(cx, at)?;
                }
                continue;
            }
            let Some(window) = self.windows.remove(&at) else { continue };
            self.discount(cx, at, &window);
            cx.memory.shared_tables.leave(&mapping);
            gather.take(self.table.ungraft(cx.mem, cx.memory, VirtAddr::new(at).vpn(), mapping.covers));
            gather.note_range(at, mapping.covers, PageOrder::P4K);
            cx.work(WorkKind::EntryWrite, 1);
            cx.counts.events.add(EventKind::TableLeft, 1);
        }
        Ok(())
    }
}
