//! Code shared by daemons that scan: their pace and limits, the order in which they scan memory, and promotion by copy.

pub(super) mod copy;
pub(super) mod coverage;
pub(super) mod fair;
pub(super) mod limits;
pub(super) mod linear;
pub(super) mod mappings;
pub(super) mod mthp;
pub(super) mod pace;
pub(super) mod recovery;
pub(super) mod text;
