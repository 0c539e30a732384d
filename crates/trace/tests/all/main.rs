//! The tests of this crate's interface, in one program: the compiler makes its generic code once, not once a file.

mod code;
mod cuts;
mod damaged_ends;
mod format_page;
mod mutations;
mod native;
mod text;
