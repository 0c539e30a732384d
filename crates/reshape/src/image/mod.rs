//! Programs as another linker would have laid them out (paper 1, section 2.3; S0-M046, S0-M048, S0-M049).
//!
//! Each ELF file whose code is mapped is placed anew. Its segments are as the linker would have laid them out with its
//! maxpagesize, at a load address that is a multiple of it. A recorded address of a segment's byte becomes the new
//! address of the same byte. What happens to recorded pages happens to the pages that now hold their bytes. A page that
//! holds parts of two has the rights of both. Whatever belongs to no ELF file stays where it was.

mod anew;
mod desc;
mod file;
mod files;
mod loaded;
mod pages;
mod space;
mod spaces;
mod spans;

pub use desc::ImageDesc;

use crate::ReshapeError;
use crate::rewrite::Rewritten;
use anew::Anew;
use mmulab_elf::layout;
use mmulab_trace::Source;

/// `source` with its ELF files laid out as `desc` says.
pub fn reshape(desc: &ImageDesc, source: Box<dyn Source>) -> Result<Box<dyn Source>, ReshapeError> {
    // What cannot be is refused before the first file is met.
    layout(&[], desc.linker, desc.max_page_size())?;
    let window = desc.checked_window().ok_or_else(|| ReshapeError::Window(desc.window.clone().unwrap_or_default()))?;
    if !source.info().has_address_space {
        return Err(ReshapeError::NoMappings(source.info().name.clone()));
    }
    Ok(Box::new(Rewritten::new(source, Anew::new(desc, window))))
}
