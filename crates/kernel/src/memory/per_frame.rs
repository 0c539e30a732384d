//! A value for each frame, made 2 MiB of frames at a time when the first of them is set.

use mmulab_addr::Pfn;

/// Frames of one chunk: 2 MiB.
const CHUNK: usize = 512;

/// The values of all frames; those that were never set are the default.
pub(crate) struct PerFrame<T> {
    chunks: Vec<Option<Box<[T; CHUNK]>>>,
}

impl<T: Copy + Default> PerFrame<T> {
    /// For a memory of this number of frames.
    pub fn new(frames: u64) -> Self {
        let mut chunks = Vec::new();
        chunks.resize_with((frames as usize).div_ceil(CHUNK), || None);
        Self { chunks }
    }

    /// The value of a frame; the default beyond memory, too.
    #[inline]
    pub fn get(&self, pfn: Pfn) -> T {
        match self.chunks.get(pfn.0 as usize / CHUNK) {
            Some(Some(chunk)) => chunk[pfn.0 as usize % CHUNK],
            _ => T::default(),
        }
    }

    /// The same, to be changed. The frame lies in memory.
    #[inline]
    pub fn get_mut(&mut self, pfn: Pfn) -> &mut T {
        let chunk = self.chunks[pfn.0 as usize / CHUNK].get_or_insert_with(|| Box::new([T::default(); CHUNK]));
        &mut chunk[pfn.0 as usize % CHUNK]
    }
}
