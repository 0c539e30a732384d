//! A recording as it would be had the program been made otherwise. The program is linked by another linker, or its
//! functions are in another order. Or it has another heap allocator, its memory from the start, or advice on it. What
//! comes out is a trace like any other; machines and kernels know nothing of it.

mod code_heap;
mod desc;
mod error;
mod headers;
mod heap;
mod hints;
mod huge;
mod image;
mod mappings;
mod order;
mod populate;
mod rewrite;

pub use desc::ReshapeDesc;
pub use error::ReshapeError;
pub use headers::with_headers;
pub use heap::{BlocksDesc, Bookkeeping, GlibcDesc, HeapDesc, JemallocDesc};
pub use huge::HugeRange;
pub use image::ImageDesc;
pub use order::{
    CLUSTER_BYTES, Move, OrderFile, OrderedFile, OrderedSummary, Profile as CallProfile, Tables as FunctionTables,
    by_calls,
};

use mmulab_trace::Source;

/// `source` as `desc` has it. Without anything to change it is `source` itself.
///
/// # Errors
/// The description cannot be met, or the trace does not tell what it needs.
pub fn reshape(desc: &ReshapeDesc, source: Box<dyn Source>) -> Result<Box<dyn Source>, ReshapeError> {
    // By bytes of files, as recorded: before these are laid out anew.
    let source = match &desc.order {
        Some(order) => order::reshape(order, source)?,
        None => source,
    };
    let source = match &desc.image {
        Some(image) => image::reshape(image, source)?,
        None => source,
    };
    let source = match &desc.heap {
        Some(heap) => heap::reshape(heap, source)?,
        None => source,
    };
    let source = match desc.code_heap {
        Some(step) => code_heap::reshape(step, source),
        None => source,
    };
    let source = if desc.populate { populate::reshape(source) } else { source };
    let source = if desc.huge.is_empty() { source } else { huge::reshape(&desc.huge, source) };
    match &desc.hints {
        Some(hints) => hints::reshape(hints, source),
        None => Ok(source),
    }
}
