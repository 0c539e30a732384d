//! The tests of this crate's interface, in one program: the compiler makes its generic code once, not once a file.

mod adviser;
mod base_page;
mod common;
mod contiguous;
mod daemons;
mod elastic;
mod freebsd;
mod kernel_half;
mod khugepaged_sizes;
mod linux;
mod model;
mod parts;
mod parts_list;
mod regions;
mod resident;
mod robust;
mod shared_tables;
mod switch;
mod text;
