//! Which arrays a lookup searches, and which a fill writes: worked out once from the description.

use crate::{ArrayDesc, GeometryError, HierarchyDesc, Inclusion, array::Array};
use mmulab_addr::{PageOrder, Side};

/// Most arrays of one level on one side.
const MAX_BESIDE: usize = 8;
const ORDERS: usize = PageOrder::MAX.get() as usize + 1;
const SIDES: [Side; 2] = [Side::Instruction, Side::Data];

/// The arrays of a level that serve a side, in the order of the description: a byte each, their number plus one, from
/// the lowest up, so that a search keeps the list in a register.
#[derive(Clone, Copy, Default)]
pub struct Beside(u64);

impl Beside {
    #[inline(always)]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left & 0xff) as usize;
            left >>= 8;
            next.checked_sub(1)
        })
    }

    /// Adds array `index` (below 255); false if there is no room.
    fn push(&mut self, index: usize) -> bool {
        let count = self.iter().count();
        let room = count < MAX_BESIDE;
        if room {
            self.0 |= (index as u64 + 1) << (8 * count);
        }
        room
    }
}

/// The array that takes pages of some size, and the number of the size it holds them as.
#[derive(Clone, Copy)]
pub struct Target {
    pub array: u8,
    pub size: u8,
}

/// One level as one side sees it.
pub struct Level {
    /// The arrays that a lookup searches.
    pub search: Beside,
    /// By order: what is filled.
    takes: [Option<Target>; ORDERS],
    /// Latency of finding nothing.
    pub miss_cycles: u32,
}

impl Level {
    /// The array that takes pages of `order`.
    #[inline(always)]
    pub fn takes(&self, order: PageOrder) -> Option<Target> {
        self.takes[usize::from(order.get())]
    }
}

/// How the arrays of a core work together.
pub struct Levels {
    /// By level (less one) and side.
    pub of: [[Level; 2]; 2],
    /// For each array, the ones that take its evicted entries.
    pub victims: Vec<Vec<usize>>,
    /// One where both sides have a first-level array in common, whose order of use is then common too.
    pub shared_first: bool,
}

fn bad<T>(array: &str, what: String) -> Result<T, GeometryError> {
    Err(GeometryError { array: array.to_owned(), what })
}

impl Levels {
    /// Works out which arrays serve which side, and which take evicted entries.
    ///
    /// # Errors
    /// Arrays that contradict each other.
    pub fn new(desc: &[ArrayDesc], arrays: &[Array], rules: &HierarchyDesc) -> Result<Self, GeometryError> {
        if desc.len() >= usize::from(u8::MAX) {
            return bad("(all)", format!("{} arrays: give at most {}", desc.len(), u8::MAX - 1));
        }
        if rules.asid_bits > 16 {
            return bad("(rules)", format!("asid_bits is {}: give 0 to 16", rules.asid_bits));
        }
        let mut victims = vec![Vec::new(); arrays.len()];
        for (index, d) in desc.iter().enumerate() {
            if desc[..index].iter().any(|other| other.name == d.name) {
                return bad(&d.name, "two arrays have this name: rename one".into());
            }
            if d.shared && (d.level != 2 || d.victim_of.is_some() || rules.inclusion == Inclusion::Inclusive) {
                let what =
                    "shared: an array of level 2, not inclusive and nobody's victim array, can be one for all cores";
                return bad(&d.name, what.into());
            }
            if d.per_thread && d.shared {
                return bad(
                    &d.name,
                    "an array for each thread is not one for all cores: leave out per_thread or shared".into(),
                );
            }
            let Some(of) = &d.victim_of else { continue };
            match desc.iter().position(|other| other.name == *of && other.level == 1) {
                Some(above) if d.level == 2 && d.smash_to.is_none() => victims[above].push(index),
                Some(_) if d.level == 2 => {
                    return bad(&d.name, "smash_to: a victim array takes entries as they are; leave it out".into());
                }
                _ => return bad(&d.name, format!("victim_of is '{of}': name an array of level 1, from level 2")),
            }
        }
        let [i1, d1] = SIDES.map(|side| level(1, side, desc, arrays));
        let [i2, d2] = SIDES.map(|side| level(2, side, desc, arrays));
        let of = [[i1?, d1?], [i2?, d2?]];
        for (side, name) in SIDES.into_iter().zip(["instruction", "data"]) {
            // Without any array at all there are no TLBs: every reference misses.
            if !desc.is_empty() && of[0][side as usize].search.iter().next().is_none() {
                return bad("(all)", format!("no array of level 1 serves the {name} side: add one"));
            }
        }
        let shared_first = of[0][0].search.iter().any(|index| of[0][1].search.iter().any(|other| other == index));
        Ok(Self { of, victims, shared_first })
    }
}

fn level(level: u8, side: Side, desc: &[ArrayDesc], arrays: &[Array]) -> Result<Level, GeometryError> {
    let mut search = Beside::default();
    let mut takes = [None; ORDERS];
    let serving = || arrays.iter().enumerate().filter(|(_, a)| a.level == level && a.placement.serves(side));
    let mut miss_cycles = 0;
    for (index, a) in serving() {
        if !search.push(index) {
            return bad(&a.name, format!("more than {MAX_BESIDE} arrays of level {level} serve one side: merge some"));
        }
        miss_cycles = miss_cycles.max(a.miss_cycles);
        if desc[index].victim_of.is_some() {
            continue;
        }
        for (size, order) in a.sizes.iter().enumerate() {
            let taken = &mut takes[usize::from(order.get())];
            if let Some(Target { array, .. }) = *taken {
                let other = &arrays[usize::from(array)].name;
                return bad(
                    &a.name,
                    format!("'{other}' of the same level and side holds {order} pages too: choose one"),
                );
            }
            *taken = Some(Target { array: index as u8, size: size as u8 });
        }
    }
    // An array that holds a size as it is comes before one that holds a part of it.
    for (index, a) in serving().filter(|(index, _)| desc[*index].victim_of.is_none()) {
        let Some(part) = a.smash_to else { continue };
        let size = a.sizes.iter().position(|&o| o == part).unwrap_or_default() as u8;
        for taken in takes.iter_mut().skip(usize::from(part.get()) + 1).filter(|t| t.is_none()) {
            *taken = Some(Target { array: index as u8, size });
        }
    }
    Ok(Level { search, takes, miss_cycles })
}
