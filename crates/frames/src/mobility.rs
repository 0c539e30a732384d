//! Whether what lies in a frame could lie elsewhere. The free lists of Linux, the blocks that compaction empties and
//! the lists observed in guests are all sorted by it.

/// Whether the contents of frames could be moved elsewhere (Linux's migrate types).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mobility {
    /// The kernel's own: page tables.
    Unmovable = 0,
    /// The program's.
    Movable = 1,
    /// Caches the kernel can drop.
    Reclaimable = 2,
}

impl Mobility {
    pub(crate) const COUNT: usize = 3;
    pub(crate) const ALL: [Self; Self::COUNT] = [Self::Unmovable, Self::Movable, Self::Reclaimable];
}
