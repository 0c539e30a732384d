//! Where blocks that are given back go in their lists: a caller that hopes to get them later puts them last.

/// Where blocks that are given back go in their lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Where the allocator puts blocks that are freed.
    Usual,
    /// To the end: they are the last to go out again.
    Last,
}
