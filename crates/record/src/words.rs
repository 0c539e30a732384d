//! Contents of a thread's buffer: one 64-bit word per execution or access.
//!
//! | bits | a block's execution | an access | a note |
//! |---|---|---|---|
//! | 0..3 | 7 | log2 of its bytes (0..=5) | 6 |
//! | 3 | | it stores | |
//! | 4..8 | | its instruction's index in the block | |
//! | 8..64 | the block's number | its address | for the next access: index, and log2 of its bytes at 16 |
//!
//! A recording of a whole system has pairs of words for the place of a page. The first is a note with bit 63 set, the
//! frame at 8 and log2 of the page's base pages at 56. The second is the page's address as an access has it.
//!
//! A user's addresses have 56 bits at most (half of a 57-bit address space), so nothing is lost. Instructions from the
//! 16th on, and accesses of 64 bytes and more, have a note before them.

/// The low bits of an execution.
pub const BLOCK: u64 = 7;
/// The low bits of a note.
pub const NOTE: u64 = 6;
/// The bits that distinguish words.
pub const KIND: u64 = 7;
const STORE_SHIFT: u32 = 3;
const INDEX_SHIFT: u32 = 4;
/// Instructions whose index fits in an access.
pub const NEAR_INSTRUCTIONS: u64 = 16;
/// Sizes that fit in an access.
const SMALL_SIZES: u32 = 6;
/// Where the payload begins.
pub const PAYLOAD_SHIFT: u32 = 8;
const NOTE_SIZE_SHIFT: u32 = 16;

/// The word of an execution of block `number`.
pub const fn block(number: u32) -> u64 {
    (number as u64) << PAYLOAD_SHIFT | BLOCK
}

/// The word of an access by instruction `index` (below [`NEAR_INSTRUCTIONS`]), if its size fits.
#[inline(always)]
pub const fn access(address: u64, size_shift: u32, store: bool, index: u64) -> Option<u64> {
    if size_shift >= SMALL_SIZES {
        return None;
    }
    Some(address << PAYLOAD_SHIFT | index << INDEX_SHIFT | (store as u64) << STORE_SHIFT | size_shift as u64)
}

/// A note and the access after it.
pub const fn noted(address: u64, size_shift: u32, store: bool, index: u64) -> [u64; 2] {
    [
        (index | (size_shift as u64) << NOTE_SIZE_SHIFT) << PAYLOAD_SHIFT | NOTE,
        address << PAYLOAD_SHIFT | (store as u64) << STORE_SHIFT,
    ]
}

const FRAME: u64 = 1 << 63;
const ORDER_SHIFT: u32 = 56;

/// Where the page at `address` lies: in frame `pfn` (below 2^48), 2^`order` base pages long (`order` below 64).
pub const fn frame(address: u64, pfn: u64, order: u8) -> [u64; 2] {
    [FRAME | (order as u64) << ORDER_SHIFT | pfn << PAYLOAD_SHIFT | NOTE, address << PAYLOAD_SHIFT]
}

/// The frame and the order in a word, if it is the first of such a pair.
#[inline(always)]
pub const fn framed(word: u64) -> Option<(u64, u8)> {
    if word & (FRAME | KIND) != FRAME | NOTE {
        return None;
    }
    Some((word >> PAYLOAD_SHIFT & ((1 << (ORDER_SHIFT - PAYLOAD_SHIFT)) - 1), (word >> ORDER_SHIFT) as u8 & 0x3f))
}

/// Most bytes of code in a definition: with its two other words it fits behind [`crate::arena::FULL_WORDS`]. QEMU's
/// blocks have at most 512 instructions of at most 15 bytes.
pub const MAX_CODE: usize = 512 * 15;
const _: () = assert!(2 + MAX_CODE.div_ceil(8) < (crate::arena::BUFFER_WORDS - crate::arena::FULL_WORDS) as usize);

/// Says that the code of a block does not follow.
const NO_CODE: u64 = 1 << 31;

/// The words that define a block: where it begins; its bytes and instructions; its code, eight bytes a word.
pub fn definition(start: u64, instructions: u32, code: &[u8]) -> impl Iterator<Item = u64> {
    let told = if code.len() <= MAX_CODE { code } else { &[] };
    let without = if told.len() < code.len() { NO_CODE } else { 0 };
    let counts = (code.len() as u64) << 32 | u64::from(instructions) & (NO_CODE - 1) | without;
    let words = told.chunks(8).map(|part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    });
    [start, counts].into_iter().chain(words)
}

/// A block as its words define it.
pub struct Definition {
    /// Where it begins.
    pub start: u64,
    /// Its bytes.
    pub bytes: u32,
    /// Its instructions.
    pub instructions: u32,
    /// Its code, if it was sent.
    pub code: Vec<u8>,
}

/// Takes a definition from the front of `words`; `None` at their end.
pub fn take_definition(words: &mut &[u64]) -> Option<Definition> {
    let (&[start, counts], rest) = words.split_first_chunk()?;
    let bytes = (counts >> 32) as u32;
    let told = if counts & NO_CODE == 0 { bytes as usize } else { 0 };
    let (code, rest) = rest.split_at_checked(told.div_ceil(8))?;
    *words = rest;
    let mut code: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    code.truncate(told);
    Some(Definition { start, bytes, instructions: (counts & (NO_CODE - 1)) as u32, code })
}

/// An access without its address: `index << 4 | store << 3 | size_shift`.
#[inline(always)]
pub const fn shape(word: u64, note: Option<u64>) -> u32 {
    match note {
        None => word as u32 & 0xff,
        Some(note) => {
            let payload = (note >> PAYLOAD_SHIFT) as u32;
            let (index, size) = (payload & 0xffff, payload >> NOTE_SIZE_SHIFT & 7);
            index << INDEX_SHIFT | word as u32 & 1 << STORE_SHIFT | size
        }
    }
}

/// The shape of an access of one byte by a block's first instruction.
pub const fn plain_shape(store: bool) -> u32 {
    (store as u32) << STORE_SHIFT
}

/// The address an access goes to: the 56 bits kept, extended by their sign (x86-64's vsyscall page is near the top).
#[inline(always)]
pub const fn address(word: u64) -> u64 {
    (word as i64 >> PAYLOAD_SHIFT) as u64
}

/// The access a shape describes.
pub const fn op(shape: u32) -> mmulab_trace::Op {
    mmulab_trace::Op {
        instruction: (shape >> INDEX_SHIFT) as u16,
        store: shape >> STORE_SHIFT & 1 == 1,
        size_shift: shape as u8 & 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_come_out_as_they_went_in() {
        let long = vec![7; MAX_CODE + 1];
        let mut words: Vec<u64> = definition(0x1000, 3, &[1, 2, 3, 4, 5, 6, 7, 8, 9]).collect();
        words.extend(definition(0x2000, 600, &long));
        words.extend(definition(0x3000, 1, &[0xc3]));
        let mut rest = words.as_slice();
        let mut next = || take_definition(&mut rest).map(|d| (d.start, d.bytes, d.instructions, d.code));
        assert_eq!(next(), Some((0x1000, 9, 3, vec![1, 2, 3, 4, 5, 6, 7, 8, 9])));
        assert_eq!(next(), Some((0x2000, MAX_CODE as u32 + 1, 600, vec![])));
        assert_eq!(next(), Some((0x3000, 1, 1, vec![0xc3])));
        assert_eq!(next(), None);
    }

    #[test]
    fn words_tell_what_they_were_made_of() {
        let address = (1 << 55) - 64;
        let word = access(address, 3, true, 15).unwrap();
        assert_eq!(super::address(access(0xffff_ffff_ff60_0000, 3, false, 0).unwrap()), 0xffff_ffff_ff60_0000);
        assert_eq!(word >> PAYLOAD_SHIFT, address);
        let near = op(shape(word, None));
        assert_eq!((near.instruction, near.store, near.size_shift), (15, true, 3));
        assert!(access(address, 6, true, 0).is_none());
        let [note, word] = noted(address, 7, false, 500);
        assert_eq!((note & KIND, word >> PAYLOAD_SHIFT), (NOTE, address));
        let far = op(shape(word, Some(note)));
        let [first, second] = frame(0xffff_8880_0020_0000, 0x12345, 9);
        assert_eq!((framed(first), framed(note)), (Some((0x12345, 9)), None));
        assert_eq!((super::address(second), first & KIND), (0xffff_8880_0020_0000, NOTE));
        assert_eq!((far.instruction, far.store, far.size_shift), (500, false, 7));
    }
}
