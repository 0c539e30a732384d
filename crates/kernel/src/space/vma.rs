//! Mappings, as Linux's `vm_area_struct`.

use crate::memory::cache::ObjectId;
use crate::memory::objects::Anon;
use crate::ranges::Piece;
use crate::space::offsets::Offsets;
use mmulab_addr::{BASE_SHIFT, PageOrder, Prot};

/// Contents of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Back {
    /// Zeroed memory of the process's own.
    Anon,
    /// A file or shared memory, from this page on.
    Object(ObjectId, u64),
}

/// Advice about huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HugeAdvice {
    /// Nothing.
    #[default]
    None,
    /// MADV_HUGEPAGE.
    Huge,
    /// MADV_NOHUGEPAGE.
    NoHuge,
}

/// A mapping; where it lies is its span's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vma {
    pub prot: Prot,
    pub shared: bool,
    pub grows_down: bool,
    pub global: bool,
    /// MAP_HUGETLB, served by the pool of this size.
    pub hugetlb: Option<PageOrder>,
    pub advice: HugeAdvice,
    pub back: Back,
    /// Private pages were put in (Linux: `anon_vma` is set): fork copies its page table.
    pub has_private: bool,
    /// With reservations: the object of its own pages, once it has any.
    pub anon: Option<Anon>,
    /// With placement `ca`: how far its pages lie from their frames.
    pub offsets: Offsets,
    /// Text that the program has moved onto pages of its own, as far as it does.
    pub text_moved: bool,
}

impl Vma {
    /// Zeroed memory of the process's own with the given rights.
    pub fn anon(prot: Prot) -> Self {
        Self {
            prot,
            shared: false,
            grows_down: false,
            global: false,
            hugetlb: None,
            advice: HugeAdvice::None,
            back: Back::Anon,
            has_private: false,
            anon: None,
            offsets: Offsets::default(),
            text_moved: false,
        }
    }

    /// Whether it is private anonymous memory.
    pub fn is_anon(&self) -> bool {
        self.back == Back::Anon
    }

    /// Whether it is memory for code that the program makes.
    pub fn is_made_code(&self) -> bool {
        self.is_anon() && !self.shared && !self.grows_down && self.prot.has(Prot::X)
    }
}

impl Piece for Vma {
    fn advance(&mut self, bytes: u64) {
        if let Back::Object(_, page) = &mut self.back {
            *page += bytes >> BASE_SHIFT;
        }
        if let Some(anon) = &mut self.anon {
            anon.at += bytes >> BASE_SHIFT;
        }
    }

    /// As `can_vma_merge_after` in mm/vma.c, but for `anon_vma`, which this model has no cause to keep apart. Offsets
    /// keep no mappings apart: the published kernel of CA paging does not ask for them here.
    fn joins(&self, bytes: u64, next: &Self) -> bool {
        let continues = match (self.back, next.back) {
            (Back::Anon, Back::Anon) => true,
            (Back::Object(a, page), Back::Object(b, next)) => a == b && page + (bytes >> BASE_SHIFT) == next,
            _ => false,
        };
        let same_object = match (self.anon, next.anon) {
            (None, None) => true,
            (Some(a), Some(b)) => a.object == b.object && a.at + (bytes >> BASE_SHIFT) == b.at,
            // Memory mapped behind an anonymous object extends it (`vm_object_coalesce`).
            (Some(_), None) => self.is_anon(),
            (None, Some(_)) => false,
        };
        continues
            && same_object
            && self.prot == next.prot
            && self.shared == next.shared
            && self.grows_down == next.grows_down
            && self.global == next.global
            && self.hugetlb == next.hugetlb
            && self.advice == next.advice
    }

    fn absorb(&mut self, next: &Self) {
        self.has_private |= next.has_private;
        self.text_moved |= next.text_moved;
        if self.offsets.is_empty() {
            self.offsets = next.offsets.clone();
        }
    }
}
