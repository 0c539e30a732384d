//! The hot path of decoding: which variant comes next, and where its accesses go.

use super::{
    predict::{OpState, code, form},
    varint,
};
use crate::{Item, Ref};
use mmulab_addr::{BASE_BYTES, VirtAddr};

/// Bytes readable after the last difference.
pub(super) const SLACK: usize = 8;

/// Data of a variant for the hot path: half a cache line, 32 bytes.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// The word of its first fetch; unused when it has none.
    pub fetch: Ref,
    /// The kinds of its first [`GROUP`] accesses, the first in the low bits.
    pub kinds: u64,
    /// Position of its first access in the list of all.
    pub ops: u32,
    pub count: u16,
    /// Words of its fetches. Those after the first are at `more`.
    pub fetches: u16,
    pub more: u32,
    /// Instructions that an execution retires, and, in the top bit, whether its fetches include a control word.
    retires: u32,
}

/// The bit of [`Known::retires`] that says whether the fetches include a control word.
const CONTROL: u32 = 1 << 31;

impl Known {
    /// The variant with these fetches and these kinds of accesses. Its accesses are at `ops` in the list of all, its
    /// further fetches at `more` in theirs.
    pub fn new(words: &[Ref], kinds: &[u8], ops: usize, more: usize) -> Self {
        let retires = words.iter().fold(0, |sum, word| match word.item() {
            Item::Access(_, _, count) => sum + count,
            Item::Retire(count) => (sum + count as u32) | CONTROL,
            Item::Event(_) | Item::Code(_) => sum,
        });
        Self {
            fetch: words.first().copied().unwrap_or(Ref::retire(0)),
            kinds: packed(kinds),
            ops: ops as u32,
            count: kinds.len() as u16,
            fetches: words.len() as u16,
            more: more as u32,
            retires,
        }
    }

    /// Instructions that an execution retires.
    #[inline(always)]
    pub fn instructions(&self) -> u64 {
        u64::from(self.retires & !CONTROL)
    }

    /// Control words among those of its fetches.
    #[inline(always)]
    pub fn controls(&self) -> u64 {
        u64::from(self.retires / CONTROL)
    }

    /// Appends its fetches; `more` is the list that holds those after its first.
    #[inline(always)]
    pub fn push_fetches(&self, more: &[Ref], refs: &mut Vec<Ref>) {
        if self.fetches > 0 {
            refs.push(self.fetch);
            if self.fetches > 1 {
                let first = self.more as usize;
                refs.extend_from_slice(&more[first..first + usize::from(self.fetches) - 1]);
            }
        }
    }
}

/// Bits of the kind of an access.
const KIND_BITS: u32 = 4;
/// Accesses whose kinds fit a word.
const GROUP: usize = (u64::BITS / KIND_BITS) as usize;

/// The kinds of the first [`GROUP`] accesses as [`Known::kinds`] holds them.
fn packed(kinds: &[u8]) -> u64 {
    kinds.iter().take(GROUP).rev().fold(0, |word, &kind| word << KIND_BITS | u64::from(kind))
}

/// The meaning of a form, as masks: which form comes next is hard to foresee, so its meaning must not be a branch.
#[derive(Clone, Copy)]
struct FormMasks {
    /// Which bits of the difference count.
    raw: u64,
    /// All ones where the step is that of the access before, ...
    like_last: u64,
    /// ... of the one before that, ...
    like_earlier: u64,
    /// ... or the one this access made before.
    stride: u64,
    /// All ones where the step is from the access before.
    near: u64,
    /// Bytes of difference.
    bytes: usize,
}

/// By form. Forms that do not exist have no bits set, and are found by their number.
const FORMS: [FormMasks; 32] = {
    let none = FormMasks { raw: 0, like_last: 0, like_earlier: 0, stride: 0, near: 0, bytes: 0 };
    let mut all = [none; 32];
    all[form::LIKE_LAST as usize].like_last = u64::MAX;
    all[form::LIKE_EARLIER as usize].like_earlier = u64::MAX;
    all[form::STRIDE as usize].stride = u64::MAX;
    let mut bytes = 1;
    while bytes <= 8 {
        let told = FormMasks { raw: u64::MAX >> (64 - 8 * bytes), bytes, ..none };
        all[form::OWN as usize + bytes] = told;
        all[form::NEAR as usize + bytes] = FormMasks { near: u64::MAX, ..told };
        bytes += 1;
    }
    all
};

/// The next item of the codes stream.
pub(super) enum Name {
    /// The variant of this number is executed.
    Variant(u32),
    /// The next item of the events stream.
    Event,
    /// Nothing is left.
    End,
}

/// The streams that name variants.
pub(super) struct Names<'a> {
    /// The rest of the codes.
    pub codes: &'a [u8],
    /// The rest of the ids.
    pub ids: &'a [u8],
    /// Variants executed as new.
    pub used: &'a mut u32,
}

impl Names<'_> {
    /// The next name. `next` and `last` are those of the acting thread.
    #[inline(always)]
    pub fn next(&mut self, next: &mut [[u32; 2]], last: &mut u32) -> Result<Name, &'static str> {
        let Some((&told, rest)) = self.codes.split_first() else { return Ok(Name::End) };
        self.codes = rest;
        let followers = &mut next[*last as usize];
        let [latest, before] = *followers;
        let id = if told <= code::EARLIER {
            // One load, not a branch: which of the two it is cannot be foreseen.
            followers[usize::from(told)]
        } else {
            match self.told_otherwise(told)? {
                Some(id) => id,
                None => return Ok(Name::Event),
            }
        };
        *followers = [id, if latest == id { before } else { latest }];
        if id as usize >= next.len() {
            return Err("a variant is not in the dictionary");
        }
        *last = id;
        Ok(Name::Variant(id))
    }

    /// A variant that no prediction names; `None` for an event.
    fn told_otherwise(&mut self, told: u8) -> Result<Option<u32>, &'static str> {
        match told {
            code::NEW => {
                *self.used = self.used.saturating_add(1);
                Ok(Some(*self.used))
            }
            code::NAMED => {
                let (&[a, b, c], rest) = self.ids.split_first_chunk().ok_or("its ids end too early")?;
                self.ids = rest;
                Ok(Some(u32::from_le_bytes([a, b, c, 0])))
            }
            code::EVENT => Ok(None),
            _ => Err("a code has no meaning"),
        }
    }
}

/// The streams of addresses, and the state of the last accesses of all.
pub(super) struct Accesses<'a> {
    /// The rest of the forms.
    pub forms: &'a [u8],
    /// The rest of the differences, with [`SLACK`] more bytes.
    pub deltas: &'a [u8],
    /// The address of the last access, its step, and the step before.
    pub near: u64,
    pub step: u64,
    pub earlier: u64,
}

impl Accesses<'_> {
    /// Appends the accesses of an execution of `known`. `kinds` and `ops` are its dictionary's and its thread's.
    #[inline(always)]
    pub fn execute(
        &mut self,
        known: &Known,
        kinds: &[u8],
        ops: &mut [OpState],
        refs: &mut Vec<Ref>,
    ) -> Result<(), &'static str> {
        let (first, count) = (known.ops as usize, usize::from(known.count));
        let (mut told, rest) = self.forms.split_at_checked(count).ok_or("its forms end too early")?;
        self.forms = rest;
        let mut states = &mut ops[first..first + count];
        let mut packed_kinds = known.kinds;
        while !told.is_empty() {
            let now = told.len().min(GROUP);
            let (forms, more) = told.split_at(now);
            let (group, more_states) = std::mem::take(&mut states).split_at_mut(now);
            self.group(forms, group, packed_kinds, refs)?;
            (told, states) = (more, more_states);
            if !told.is_empty() {
                packed_kinds = packed(&kinds[first + count - told.len()..first + count]);
            }
        }
        Ok(())
    }

    /// At most [`GROUP`] accesses, one for each of `forms`.
    #[inline(always)]
    fn group(
        &mut self,
        forms: &[u8],
        states: &mut [OpState],
        kinds: u64,
        refs: &mut Vec<Ref>,
    ) -> Result<(), &'static str> {
        let before = refs.len();
        let (mut crosses, mut unknown, mut short, mut kinds_left) = (false, false, false, kinds);
        let (mut near, mut last_step, mut earlier) = (self.near, self.step, self.earlier);
        let (deltas, mut at) = (self.deltas, 0);
        refs.extend(forms.iter().zip(states).map(|(&form, state)| {
            let told = &FORMS[usize::from(form) % FORMS.len()];
            unknown |= form >= form::COUNT;
            let mut word = [0; 8];
            match deltas.get(at..at + 8) {
                Some(bytes) => word.copy_from_slice(bytes),
                None => short = true,
            }
            at += told.bytes;
            let raw = varint::unzigzag(u64::from_le_bytes(word) & told.raw) as u64;
            let step = raw | last_step & told.like_last | earlier & told.like_earlier | state.step & told.stride;
            let base = state.own ^ (state.own ^ near) & told.near;
            let address = base.wrapping_add(step);
            let step = address.wrapping_sub(state.own);
            *state = OpState { own: address, step };
            (earlier, last_step, near) = (last_step, step, address);
            crosses |= (address & (BASE_BYTES - 1)) + (1 << (kinds_left >> 1 & 7)) > BASE_BYTES;
            let word = Ref::data(VirtAddr::new(address), kinds_left & 1 != 0);
            kinds_left >>= KIND_BITS;
            word
        }));
        self.deltas = deltas.get(at..).unwrap_or_default();
        (self.near, self.step, self.earlier) = (near, last_step, earlier);
        if unknown || short {
            refs.truncate(before);
            return Err(if short { "its differences end too early" } else { "a form has no meaning" });
        }
        if crosses {
            add_crossings(refs, before, kinds);
        }
        Ok(())
    }
}

/// Adds the second reference of each access in `refs[from..]` that crosses a page boundary.
#[cold]
fn add_crossings(refs: &mut Vec<Ref>, from: usize, mut kinds: u64) {
    for word in refs.split_off(from) {
        refs.push(word);
        let inside = word.va().raw() & (BASE_BYTES - 1);
        if inside + (1 << (kinds >> 1 & 7)) > BASE_BYTES {
            refs.push(Ref::data(word.va().add(BASE_BYTES - inside), word.is_write()));
        }
        kinds >>= KIND_BITS;
    }
}
