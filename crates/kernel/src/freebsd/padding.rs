//! Padding of code by the kernel (paper 2, section VI-A). If the address space behind it is free, a mapping of code
//! grows to the next multiple of 2 MiB, a whole number of superpages.
//!
//! ```text
//!   0x400000                0x800000        0x9f4000  0xa00000               0xbf4000 0xc00000
//!   | superpage | superpage | residual, 500 pages | fill |  nothing mapped     | data   |
//!                                                  ^^^^^^  the file's pages behind the code: its data, mapped twice
//! ```

use super::Freebsd;
use super::code::{Padding, SUPERPAGE, is_code};
use crate::memory::cache::ObjectId;
use crate::ranges::{Piece, Span};
use crate::report::counts::{EventKind, Refusal};
use crate::space::range::PageRange;
use crate::space::vma::{Back, Vma};
use crate::space::{AddressSpace, Cx};
use mmulab_addr::{BASE_SHIFT, VirtAddr};

impl Freebsd {
    /// Extends the mapping of code at its first fault behind the last whole superpage. By then a program has all its
    /// parts mapped, so what lies behind the code is known. Returns the mapping as it is now, if it changed.
    pub(super) fn pad(&self, space: &mut AddressSpace, cx: &mut Cx, span: &Span<Vma>, at: u64) -> Option<Span<Vma>> {
        if self.desc.code.padding == Padding::None || !self.has_superpages() || !is_code(&span.value) {
            return None;
        }
        let Back::Object(id, first) = span.value.back else { return None };
        let residual = VirtAddr::new(span.end).align_down(SUPERPAGE).raw();
        // Whole superpages, another fault's part, or code that begins after the superpage would.
        if residual == span.end || at < residual || residual < span.start {
            return None;
        }
        let end = residual.checked_add(SUPERPAGE.bytes())?;
        let page = first + ((residual - span.start) >> BASE_SHIFT);
        if !page.is_multiple_of(SUPERPAGE.base_pages()) {
            cx.refuse(Refusal::PadMisaligned, at);
            return None;
        }
        let is_free = space.vmas.at_or_above(span.end).is_none_or(|next| next.start >= end);
        if !is_free || !space.is_canonical(end - 1) {
            cx.refuse(Refusal::PadNoGap, at);
            return None;
        }
        self.extend(space, cx, span, id, end);
        space.vmas.find(at).cloned()
    }

    /// Maps the file's next pages behind `span`, up to `end`, as a part of its region.
    fn extend(&self, space: &mut AddressSpace, cx: &mut Cx, span: &Span<Vma>, id: ObjectId, end: u64) {
        let mut vma = span.value.clone();
        vma.advance(span.end - span.start);
        let Back::Object(_, behind) = vma.back else { return };
        let pages = (end - span.end) >> BASE_SHIFT;
        let content = cx.memory.cache.end(id);
        cx.memory.cache.pad(id, behind + pages);
        cx.counts.events.add(EventKind::Padded, 1);
        cx.counts.events.add(EventKind::PaddedPages, pages);
        cx.counts.events.add(EventKind::PaddedZeros, (behind + pages).saturating_sub(content.max(behind)));
        let range = PageRange { start: span.end, end };
        if let Some(place) = space.places.find(span.end - 1) {
            let region = place.value.0;
            space.occupy(cx, range, region);
        }
        space.vmas.insert(range.start, range.end, vma);
        space.table.requested(range.range());
        space.paddings.insert(range.start, range.end);
    }
}
