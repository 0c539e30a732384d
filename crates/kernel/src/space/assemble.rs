//! Pages of an aligned range are brought to their own places in an aligned block of frames, so that larger translations
//! can cover them. This is Elastic Translations' promotion of partially contiguous ranges (paper 3, section IV-C and
//! Figure 6).
//!
//! ```text
//! range    page 0   page 1   page 2   page 3   ...      the block is the one in which most pages lie in place already
//!            |        |        |
//! block    [ 0 ]   [ 2 ]    [ x ]    [ free ]  ...      x: somebody else's page
//!            stays  page 1 comes here once page 2 has gone;  x is moved away;  a hole gets a page of zeros
//! ```
//!
//! Only misplaced pages move. If a page in the way cannot move, the attempt ends before any page has moved. The same
//! work on a block that is wholly free moves every page: the fallback.

use super::finder::{Finder, Users};
use super::migration::{At, Migration};
use super::system::SystemCx;
use super::vma::Vma;
use super::{AddressSpace, Cx, Found, Gather};
use crate::memory::pages::Use;
use crate::report::counts::{EventKind, Refusal};
use crate::{FaultError, Note, WorkKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, VirtAddr};
use mmulab_frames::Mobility;
use mmulab_pagetable::Leaf;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// A range that is to become one translation.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// Its address space.
    pub slot: usize,
    /// The mapping that it lies in, of private anonymous memory.
    pub vma: Vma,
    pub start: u64,
    pub order: PageOrder,
}

/// A part of a range: a page, or a hole that a page fits into.
#[derive(Clone, Copy, Debug)]
struct Piece {
    va: u64,
    order: PageOrder,
    /// The page; in a hole, nothing.
    leaf: Option<Leaf>,
    /// Whether the page is shared with others, so that it can be copied but not moved.
    is_shared: bool,
    /// A shared page of zeros that is mapped in the hole.
    zero: Option<Leaf>,
}

/// The pieces of a range.
pub(crate) struct Survey(Vec<Piece>);

/// Frames that were taken for the pages of a range.
type Claimed = FxHashSet<Pfn>;

impl Range {
    fn pages(&self) -> u64 {
        self.order.base_pages()
    }

    /// The frame of the page at `va`, in the block from `head` on.
    fn target(&self, head: Pfn, va: u64) -> Pfn {
        Pfn(head.0 + ((va - self.start) >> BASE_SHIFT))
    }

    /// Whether a frame lies in the block from `head` on.
    fn holds(&self, head: Pfn, pfn: Pfn) -> bool {
        pfn.0.wrapping_sub(head.0) < self.pages()
    }

    /// The pieces of the range. Pages of other sizes than base pages and those of 2 MiB are split first; `None` if a
    /// page covers all of it.
    pub fn survey(&self, system: &mut SystemCx) -> Result<Option<Survey>, FaultError> {
        let (space, mut cx) = system.at(self.slot);
        let end = self.start + self.order.bytes();
        let mut pieces = Vec::new();
        let mut at = self.start;
        while at < end {
            if matches!(space.probe(cx.mem, VirtAddr::new(at)), Found::Leaf(leaf) if leaf.order >= self.order) {
                return Ok(None);
            }
            let found = space.page(cx.mem, &cx.memory.pages, VirtAddr::new(at));
            let whole = if self.order > PageOrder::P2M && at.is_multiple_of(PageOrder::P2M.bytes()) {
                PageOrder::P2M
            } else {
                PageOrder::P4K
            };
            let piece = match found {
                Found::Leaf(leaf) if leaf.order != PageOrder::P4K && leaf.order != whole => {
                    space.split(&mut cx, at & !(leaf.order.bytes() - 1), leaf)?;
                    continue;
                }
                Found::Leaf(leaf) if cx.memory.is_zero(leaf.pfn) => {
                    Piece { va: at, order: leaf.order, leaf: None, is_shared: false, zero: Some(leaf) }
                }
                Found::Leaf(leaf) => {
                    let page = cx.memory.pages.get(leaf.pfn);
                    let is_own = page.used == Use::Anon && !page.pooled;
                    let is_shared = !is_own || !cx.memory.pages.is_exclusive(leaf.pfn, leaf.order);
                    Piece { va: at, order: leaf.order, leaf: Some(leaf), is_shared, zero: None }
                }
                Found::Hole(room) => {
                    let order = if room >= whole { whole } else { PageOrder::P4K };
                    Piece { va: at, order, leaf: None, is_shared: false, zero: None }
                }
            };
            at += piece.order.bytes();
            pieces.push(piece);
        }
        cx.work(WorkKind::EntryScan, pieces.len() as u64);
        Ok(Some(Survey(pieces)))
    }

    /// The block in which most pages of the range lie at their own places; the lowest page decides between equals.
    /// `None` if no page could be in place anywhere, because its frame and its address are misaligned.
    pub fn anchor(&self, system: &SystemCx, survey: &Survey) -> Option<Pfn> {
        let total = system.shared.memory.frames.total_frames();
        let mut blocks: BTreeMap<Pfn, (u64, u64)> = BTreeMap::new();
        for piece in &survey.0 {
            let Some(leaf) = piece.leaf.filter(|_| !piece.is_shared) else { continue };
            let Some(head) = leaf.pfn.0.checked_sub((piece.va - self.start) >> BASE_SHIFT) else { continue };
            if head.is_multiple_of(self.pages()) && head + self.pages() <= total {
                blocks.entry(Pfn(head)).or_insert((0, u64::MAX - piece.va)).0 += piece.order.base_pages();
            }
        }
        blocks.into_iter().max_by_key(|block| block.1).map(|block| block.0)
    }

    /// Whether all pages lie in place in the block from `head` on.
    pub fn is_assembled(&self, survey: &Survey, head: Pfn) -> bool {
        let in_place = |p: &Piece| p.leaf.is_some_and(|leaf| leaf.pfn == self.target(head, p.va));
        // Base pages that could be one page of 2 MiB are not all there is to do.
        let is_joined = |p: &Piece| self.order < PageOrder::P2M || p.order >= PageOrder::P2M;
        survey.0.iter().all(|piece| in_place(piece) && is_joined(piece))
    }

    /// Promotes the range in place: in the block from `head` on, where some of its pages are. `Err` in `Ok`: a frame
    /// could not be had; every page is still mapped, though some may lie elsewhere.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub fn promote_in_place(
        &self,
        system: &mut SystemCx,
        mut survey: Survey,
        head: Pfn,
    ) -> Result<Result<(), Refusal>, FaultError> {
        if survey.0.iter().any(|piece| piece.is_shared) {
            return Ok(Err(Refusal::CoalaShared));
        }
        let mut migration = Migration::new(system);
        let mut claimed = Claimed::default();
        let occupied = self.claim(system, &survey, head, &mut claimed);
        let made_room = self.make_room(system, &occupied, &mut claimed, &mut migration);
        if !occupied.is_empty() && made_room.is_ok() {
            // Some of what made room may have been pages of the range itself.
            match self.survey(system)? {
                Some(again) => survey = again,
                None => unreachable!("a range of smaller pages is still one"),
            }
        }
        let moved = made_room.and_then(|()| self.bring(system, &mut survey, head, &mut claimed, &mut migration));
        migration.finish(system);
        if let Err(why) = moved {
            release(system, &claimed);
            return Ok(Err(why));
        }
        self.complete(system, &survey, head, claimed)?;
        system.shared.counts.events.add(EventKind::CoalaInPlace, 1);
        Ok(Ok(()))
    }

    /// Promotes the range in a fresh block, which was taken for it and begins at `head`. Every page moves there, or is
    /// copied if it is shared.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub fn promote_whole(&self, system: &mut SystemCx, mut survey: Survey, head: Pfn) -> Result<(), FaultError> {
        let mut claimed: Claimed = (0..self.pages()).map(|i| Pfn(head.0 + i)).collect();
        for piece in survey.0.iter_mut().filter(|piece| piece.is_shared) {
            let Some(leaf) = piece.leaf.as_mut() else { continue };
            let target = self.target(head, piece.va);
            let (space, mut cx) = system.at(self.slot);
            cx.memory.resident.act_for(space.region(piece.va));
            cx.memory.own_anon(target, piece.order);
            cx.work(WorkKind::CopyBytes, piece.order.bytes());
            space.replace(&mut cx, &self.vma, piece.va, leaf, target);
            leaf.pfn = target;
            piece.is_shared = false;
            take(&mut claimed, target, piece.order);
            system.shared.counts.events.add(EventKind::CoalaCopied, piece.order.base_pages());
        }
        let mut migration = Migration::new(system);
        let moved = self.bring(system, &mut survey, head, &mut claimed, &mut migration);
        migration.finish(system);
        debug_assert!(moved.is_ok(), "a fresh block has room for every page");
        self.complete(system, &survey, head, claimed)?;
        system.shared.counts.events.add(EventKind::CoalaMovedWhole, 1);
        Ok(())
    }

    /// Takes the frames that pages of the range are to come to, as far as they are free. Returns the others, but for
    /// those that pages of the range leave themselves.
    fn claim(&self, system: &mut SystemCx, survey: &Survey, head: Pfn, claimed: &mut Claimed) -> Vec<Pfn> {
        let own: BTreeMap<Pfn, PageOrder> =
            survey.0.iter().filter_map(|p| p.leaf.map(|leaf| (leaf.pfn, p.order))).collect();
        let frames = &mut system.shared.memory.frames;
        let mut occupied = Vec::new();
        let mut is_drained = false;
        for piece in &survey.0 {
            let target = self.target(head, piece.va);
            // In place, or left by a page of the range that is as large.
            if own.get(&target) == Some(&piece.order) {
                continue;
            }
            if piece.order > PageOrder::P4K && frames.take_at(target, piece.order) {
                claimed.extend((0..piece.order.base_pages()).map(|i| Pfn(target.0 + i)));
                continue;
            }
            for pfn in (0..piece.order.base_pages()).map(|i| Pfn(target.0 + i)) {
                let mut is_taken = frames.take_at(pfn, PageOrder::P4K);
                if !is_taken && !is_drained {
                    // Free frames may wait in per-CPU lists.
                    frames.drain();
                    is_drained = true;
                    is_taken = frames.take_at(pfn, PageOrder::P4K);
                }
                if is_taken {
                    claimed.insert(pfn);
                } else {
                    occupied.push(pfn);
                }
            }
        }
        system.shared.memory.work.add(WorkKind::BaseFrame, claimed.len() as u64);
        occupied
    }

    /// Moves what is in the way somewhere else.
    fn make_room(
        &self,
        system: &mut SystemCx,
        occupied: &[Pfn],
        claimed: &mut Claimed,
        migration: &mut Migration,
    ) -> Result<(), Refusal> {
        if occupied.is_empty() {
            return Ok(());
        }
        let mut finders = [PageOrder::P4K, PageOrder::P2M].map(Finder::new);
        // Each page once, by its first frame: its size and its users.
        let mut pages: BTreeMap<Pfn, (PageOrder, Users)> = BTreeMap::new();
        for &pfn in occupied {
            let found = finders.iter_mut().find_map(|finder| {
                let (order, first) = (finder.order(), pfn.align_down(finder.order()));
                finder.movable(system, first).map(|users| (first, (order, users)))
            });
            let Some((first, page)) = found else { return Err(Refusal::CoalaUnmovable) };
            pages.insert(first, page);
        }
        for (old, (order, here)) in pages {
            let memory = &mut system.shared.memory;
            let new = memory.frames.alloc(order, Mobility::Movable, memory.cpu).ok_or(Refusal::CoalaNoRoom)?;
            migration.copy_page(system, (old, new), order, &here);
            claimed.extend((0..order.base_pages()).map(|i| Pfn(old.0 + i)));
            system.shared.counts.events.add(EventKind::CoalaDisplaced, order.base_pages());
        }
        Ok(())
    }

    /// Moves misplaced pages to their places, each as soon as its place is free.
    fn bring(
        &self,
        system: &mut SystemCx,
        survey: &mut Survey,
        head: Pfn,
        claimed: &mut Claimed,
        migration: &mut Migration,
    ) -> Result<(), Refusal> {
        let misplaced = |p: &Piece| p.leaf.is_some_and(|leaf| leaf.pfn != self.target(head, p.va));
        let mut pending: BTreeMap<Pfn, usize> = BTreeMap::new();
        for (i, piece) in survey.0.iter().enumerate().filter(|(_, piece)| misplaced(piece)) {
            pending.insert(self.target(head, piece.va), i);
        }
        let mut ready: Vec<Pfn> = pending.keys().copied().rev().collect();
        loop {
            while let Some(target) = ready.pop() {
                let Some(&i) = pending.get(&target) else { continue };
                let piece = &mut survey.0[i];
                let Some(leaf) = piece.leaf.as_mut() else { continue };
                if !is_free(claimed, target, piece.order) {
                    continue;
                }
                let here = [(leaf.pfn, At::Mapped { slot: self.slot, va: piece.va })];
                migration.copy_page(system, (leaf.pfn, target), piece.order, &here);
                system.shared.counts.events.add(EventKind::CoalaMoved, piece.order.base_pages());
                take(claimed, target, piece.order);
                let old = std::mem::replace(&mut leaf.pfn, target);
                pending.remove(&target);
                if self.holds(head, old) {
                    claimed.extend((0..piece.order.base_pages()).map(|i| Pfn(old.0 + i)));
                    ready.push(old);
                } else {
                    system.shared.memory.frames.free_run(old, piece.order.base_pages());
                }
            }
            // What is left waits in circles: a page of one goes out of the way, and comes back last.
            let Some((_, &i)) = pending.iter().next() else { return Ok(()) };
            let piece = &mut survey.0[i];
            let Some(leaf) = piece.leaf.as_mut() else { return Ok(()) };
            let memory = &mut system.shared.memory;
            let aside = memory.frames.alloc(piece.order, Mobility::Movable, memory.cpu).ok_or(Refusal::CoalaNoRoom)?;
            let here = [(leaf.pfn, At::Mapped { slot: self.slot, va: piece.va })];
            migration.copy_page(system, (leaf.pfn, aside), piece.order, &here);
            system.shared.counts.events.add(EventKind::CoalaDisplaced, piece.order.base_pages());
            let old = std::mem::replace(&mut leaf.pfn, aside);
            claimed.extend((0..piece.order.base_pages()).map(|i| Pfn(old.0 + i)));
            ready.push(old);
        }
    }

    /// Fills the holes, and makes one page of 2 MiB of each 2 MiB of base pages.
    fn complete(
        &self,
        system: &mut SystemCx,
        survey: &Survey,
        head: Pfn,
        mut claimed: Claimed,
    ) -> Result<(), FaultError> {
        let done = self.fill_and_join(system, survey, head, &mut claimed);
        debug_assert!(done.is_err() || claimed.is_empty(), "every frame of the block has its page");
        release(system, &claimed);
        done
    }

    fn fill_and_join(
        &self,
        system: &mut SystemCx,
        survey: &Survey,
        head: Pfn,
        claimed: &mut Claimed,
    ) -> Result<(), FaultError> {
        let (space, mut cx) = system.at(self.slot);
        for piece in survey.0.iter().filter(|piece| piece.leaf.is_none()) {
            if let Some(zero) = piece.zero {
                let mut gather = Gather::default();
                space.unmap(&mut cx, piece.va, zero.order, &mut gather);
                space.finish(&mut cx, gather);
            }
            let target = self.target(head, piece.va);
            cx.memory.resident.act_for(space.region(piece.va));
            take(claimed, target, piece.order);
            cx.memory.own_anon(target, piece.order);
            cx.work(WorkKind::ZeroBytes, piece.order.bytes());
            space.map_new(&mut cx, &self.vma, piece.va, target, piece.order, false)?;
            cx.counts.events.add(EventKind::CoalaFilled, piece.order.base_pages());
        }
        let step = self.order.bytes().min(PageOrder::P2M.bytes());
        for start in (self.start..self.start + self.order.bytes()).step_by(step as usize) {
            if self.order >= PageOrder::P2M {
                self.join(space, &mut cx, start, self.target(head, start))?;
            } else {
                self.agree(space, &mut cx);
            }
        }
        cx.tell(|| Note::Assembled { va: VirtAddr::new(self.start), size: self.order, pfn: head });
        Ok(())
    }

    /// Makes one page of the base pages from `start` on, whose frames follow `first`.
    fn join(&self, space: &mut AddressSpace, cx: &mut Cx, start: u64, first: Pfn) -> Result<(), FaultError> {
        let order = PageOrder::P2M;
        if matches!(space.probe(cx.mem, VirtAddr::new(start)), Found::Leaf(leaf) if leaf.order >= order) {
            return Ok(());
        }
        let mut whole = AddressSpace::leaf(&self.vma, first, order, self.vma.prot, false);
        whole.accessed = false;
        for (_, leaf) in space.leaves(cx.mem, start, start + order.bytes()) {
            whole.accessed |= leaf.accessed;
            whole.dirty |= leaf.dirty;
        }
        space.join(cx, start, whole)
    }

    /// Gives all pages of the range the rights of the mapping, which pages that were shared once may lack.
    fn agree(&self, space: &mut AddressSpace, cx: &mut Cx) {
        for va in (self.start..self.start + self.order.bytes()).step_by(BASE_BYTES as usize) {
            let Found::Leaf(leaf) = space.probe(cx.mem, VirtAddr::new(va)) else { continue };
            let prot = AddressSpace::rights(&self.vma, &leaf, cx.memory);
            if prot != leaf.prot && leaf.order == PageOrder::P4K {
                space.widen(cx, va, Leaf { prot, ..leaf });
            }
        }
    }
}

fn is_free(claimed: &Claimed, first: Pfn, order: PageOrder) -> bool {
    (0..order.base_pages()).all(|i| claimed.contains(&Pfn(first.0 + i)))
}

/// The frames are a page's from now on.
fn take(claimed: &mut Claimed, first: Pfn, order: PageOrder) {
    for i in 0..order.base_pages() {
        claimed.remove(&Pfn(first.0 + i));
    }
}

/// Gives back what is left of the frames that were taken.
fn release(system: &mut SystemCx, claimed: &Claimed) {
    let mut left: Vec<Pfn> = claimed.iter().copied().collect();
    left.sort_unstable();
    for pfn in left {
        system.shared.memory.frames.free_run(pfn, 1);
    }
}
