//! The tests of this crate's interface, in one program: the compiler makes its generic code once, not once a file.

mod frames;
mod freebsd;
