//! The addresses of the bare loops.

/// Where the data are.
pub const DATA: u64 = 0x10_0000_0000;

/// A shift register: cheap enough not to show.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The bytes a pattern touches, and `count` addresses of it.
pub fn pattern(name: &str, count: usize) -> (u64, Vec<u64>) {
    let mut s = 0x9e37_79b9_7f4a_7c15;
    let (footprint, mut next): (u64, Box<dyn FnMut(usize) -> u64>) = match name {
        "random 8 GiB" => (8 << 30, Box::new(move |_| random(&mut s) & ((8 << 30) - 8))),
        "random 4 MiB" => (4 << 20, Box::new(move |_| random(&mut s) & ((4 << 20) - 8))),
        // Nine of ten to 128 KiB, the tenth to 1 GiB.
        "90/10 mix" => (
            1 << 30,
            Box::new(move |_| {
                let r = random(&mut s);
                if (r >> 40).is_multiple_of(10) { r & ((1 << 30) - 8) } else { r & ((128 << 10) - 8) }
            }),
        ),
        _ => (1 << 30, Box::new(|i| (i as u64 * 8) & ((1 << 30) - 1))),
    };
    (footprint, (0..count).map(|i| DATA + next(i)).collect())
}
