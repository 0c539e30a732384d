//! A recording as it would be had the program been made otherwise: linked by another linker, with another heap
//! allocator, with its memory there from the start, or with advice on it. What comes out is a trace like any other;
//! machines and kernels know nothing of it.

mod desc;
mod error;
mod headers;
mod heap;
mod hints;
mod huge;
mod image;
mod mappings;
mod populate;
mod rewrite;

pub use desc::ReshapeDesc;
pub use error::ReshapeError;
pub use headers::with_headers;
pub use heap::{BlocksDesc, Bookkeeping, GlibcDesc, HeapDesc, JemallocDesc};
pub use huge::HugeRange;
pub use image::ImageDesc;

use mmulab_trace::Source;

/// `source` as `desc` has it. Without anything to change it is `source` itself.
///
/// # Errors
/// The description cannot be met, or the trace does not tell what it needs.
pub fn reshape(desc: &ReshapeDesc, source: Box<dyn Source>) -> Result<Box<dyn Source>, ReshapeError> {
    let source = match &desc.image {
        Some(image) => image::reshape(image, source)?,
        None => source,
    };
    let source = match &desc.heap {
        Some(heap) => heap::reshape(heap, source)?,
        None => source,
    };
    let source = if desc.populate { populate::reshape(source) } else { source };
    let source = if desc.huge.is_empty() { source } else { huge::reshape(&desc.huge, source) };
    match &desc.hints {
        Some(hints) => hints::reshape(hints, source),
        None => Ok(source),
    }
}
