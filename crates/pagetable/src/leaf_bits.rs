//! A leaf as a few letters, for drawings of trees and of hashed tables.

use crate::Leaf;
use mmulab_addr::Prot;
use std::fmt::{self, Display, Formatter, Write};

/// Rights, and the accessed and the dirty bit: `rw-ad`, each `-` where it is clear.
pub struct Bits(pub Leaf);

impl Display for Bits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Leaf { prot, accessed, dirty, .. } = self.0;
        let rights = [(prot.has(Prot::R), 'r'), (prot.has(Prot::W), 'w'), (prot.has(Prot::X), 'x')];
        let set = rights.into_iter().chain([(accessed, 'a'), (dirty, 'd')]);
        set.map(|(is_set, letter)| if is_set { letter } else { '-' }).try_for_each(|letter| f.write_char(letter))
    }
}
