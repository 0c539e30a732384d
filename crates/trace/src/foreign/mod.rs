//! Traces of other tools. None of them contains mappings.

mod accelsim;
mod champsim;
mod drmemtrace;
mod lackey;
mod line_reader;

pub use accelsim::{AccelSimReader, WarpShape};
pub use champsim::{ChampSimReader, ChampSimWriter};
pub use drmemtrace::DrmemtraceReader;
pub use lackey::LackeyReader;

pub(crate) use accelsim::{is_kernel_line, is_list_line, kernels_of};
pub(crate) use champsim::looks_like as looks_like_champsim;
pub(crate) use drmemtrace::is_line as is_drmemtrace_line;
pub(crate) use lackey::is_line as is_lackey_line;
pub(crate) use line_reader::unpacking_error;
