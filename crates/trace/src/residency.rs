//! The pages that a program used before a cut: what a copy or a recording that begins later must use again.
//!
//! A cut trace holds the events that came before it. Without the references between them, no simulated kernel would
//! know which pages were in memory, accessed and written. So each page is referred to again, once for every kind of use
//! that its page table does not show yet. That happens before the next event, because the event may change what a use
//! does. These references retire no instructions; [`Event::Resume`] ends them.

use crate::{Advice, Event};
use mmulab_addr::{Access, BASE_BYTES, Pid, Tid, VirtAddr};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Pages of one bitmap: as many as one page table holds.
const SPAN: u64 = 512;
type Bits = [u64; (SPAN / 64) as usize];
/// Spans of all address spaces at most, which take half a kilobyte each: 128 GiB, if they were full. Beyond that, some
/// uses are passed on a second time.
const SPANS_MAX: usize = 1 << 16;
/// Uses remembered to be noted already: most references repeat one of them.
const RECENT: usize = 256;

/// The kind of a load or fetch that follows a store, by number after those of [`Access`]. The store may have been
/// refused.
const LATER: usize = 3;
const KINDS: usize = 4;

/// The uses of 512 neighbouring pages: bitmaps by kind.
struct Span {
    /// Noted since the pages were last mapped.
    noted: [Bits; KINDS],
    /// Of these, not passed on yet.
    news: [Bits; KINDS],
    /// Whether it is among the spans with news.
    is_listed: bool,
    /// Whether the first of its news is a store.
    begins_with_store: bool,
}

/// The uses of the pages of one address space.
#[derive(Default)]
struct Log {
    spans: FxHashMap<u64, Span>,
    /// Spans with news, in the order of their first.
    listed: Vec<u64>,
    /// The end of the brk heap.
    heap_end: u64,
}

impl Log {
    #[inline(never)]
    fn note(&mut self, page: u64, access: Access) -> usize {
        let (number, before) = (page / SPAN, self.spans.len());
        let span = self.spans.entry(number).or_insert(Span {
            noted: Default::default(),
            news: Default::default(),
            is_listed: false,
            begins_with_store: false,
        });
        let (word, bit) = ((page % SPAN / 64) as usize, 1u64 << (page % 64));
        let has = |kind: usize| span.noted[kind][word] & bit != 0;
        let kind = if access != Access::Write && has(Access::Write as usize) { LATER } else { access as usize };
        // What a load left, a fetch leaves, too.
        if has(kind) || access != Access::Write && has(Access::Read as usize) {
            return 0;
        }
        span.noted[kind][word] |= bit;
        span.news[kind][word] |= bit;
        if !span.is_listed {
            (span.is_listed, span.begins_with_store) = (true, access == Access::Write);
            self.listed.push(number);
        }
        self.spans.len() - before
    }

    /// The pages from `start` up to `end` are not there any more, or are used anew from here on.
    fn forget(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let numbers = start / SPAN..=(end - 1) / SPAN;
        let clear = |number: u64, span: &mut Span| {
            let first = number * SPAN;
            let (from, to) = (start.max(first) - first, end.min(first + SPAN) - first);
            for word in from / 64..=(to - 1) / 64 {
                let low = from.saturating_sub(word * 64).min(63);
                let high = (to - word * 64).min(64);
                let gone = (u64::MAX >> (64 - (high - low))) << low;
                for bits in span.noted.iter_mut().chain(&mut span.news) {
                    bits[word as usize] &= !gone;
                }
            }
        };
        // Whichever is less: the spans of the range, or those there are.
        if numbers.end() - numbers.start() < self.spans.len() as u64 {
            for number in numbers {
                self.spans.get_mut(&number).into_iter().for_each(|span| clear(number, span));
            }
        } else {
            self.spans.iter_mut().filter(|(n, _)| numbers.contains(n)).for_each(|(&n, span)| clear(n, span));
        }
    }

    /// The pages from `start` up to `end` go. New uses of 512 aligned pages that go together are lost. Other uses are
    /// passed on first, because their neighbours may be in memory through them.
    fn lose(&mut self, start: u64, end: u64, tell: &mut impl FnMut(VirtAddr, Access)) {
        self.forget(start.next_multiple_of(SPAN), end / SPAN * SPAN);
        self.tell(tell);
        self.forget(start, end);
    }

    /// Forgets all uses; those not passed on yet are lost.
    fn clear(&mut self) {
        self.spans.clear();
        self.listed.clear();
    }

    /// Passes new uses to `tell`. Spans follow in the order in which the program came to them. In a span whose first
    /// use was a store, stores come first, else loads and fetches. The first use decides whether a huge page is made.
    fn tell(&mut self, tell: &mut impl FnMut(VirtAddr, Access)) {
        for number in std::mem::take(&mut self.listed) {
            let Some(span) = self.spans.get_mut(&number) else { continue };
            let [fetched, read, written, later] = std::mem::take(&mut span.news);
            span.is_listed = false;
            let mut all = |bits: &dyn Fn(usize) -> u64, access: Access| {
                for word in 0..fetched.len() {
                    let mut left = bits(word);
                    while left != 0 {
                        let page = number * SPAN + word as u64 * 64 + u64::from(left.trailing_zeros());
                        tell(VirtAddr::new(page * BASE_BYTES), access);
                        left &= left - 1;
                    }
                }
            };
            let first = |word: usize| if span.begins_with_store { written[word] & !read[word] } else { 0 };
            all(&first, Access::Write);
            all(&|word| fetched[word] & !read[word] & !written[word], Access::Fetch);
            all(&|word| read[word], Access::Read);
            all(&|word| written[word] & !first(word), Access::Write);
            all(&|word| later[word], Access::Read);
        }
    }
}

/// First page and end of a range of bytes, rounded outwards.
fn pages(addr: VirtAddr, len: u64) -> (u64, u64) {
    let start = addr.vpn().0;
    let inside = addr.raw() & (BASE_BYTES - 1);
    (start, start.saturating_add(len.saturating_add(inside).div_ceil(BASE_BYTES)))
}

/// The pages that processes used before a cut. It is given all references and events there, and says what stands for
/// the references: see the file's head.
pub struct Residency {
    /// By process; processes that share memory have the same.
    of: BTreeMap<Pid, usize>,
    logs: Vec<Log>,
    /// Who acts, and each process's thread that acted last.
    actor: (Pid, Tid),
    threads: BTreeMap<Pid, Tid>,
    current: usize,
    /// Spans of all logs.
    held: usize,
    /// Uses that the acting process is known to have noted. By page and kind, hashed: the page times four and the kind,
    /// plus one.
    recent: [u64; RECENT],
}

impl Default for Residency {
    /// As a trace begins: with thread 1 of process 1.
    fn default() -> Self {
        Self::of(Pid(1), Tid(1))
    }
}

impl Residency {
    /// That of processes of which this thread of `pid` acts first.
    pub fn of(pid: Pid, tid: Tid) -> Self {
        Self {
            of: BTreeMap::from([(pid, 0)]),
            logs: vec![Log::default()],
            actor: (pid, tid),
            threads: BTreeMap::from([(pid, tid)]),
            current: 0,
            held: 0,
            recent: [0; RECENT],
        }
    }

    /// Sets the process and thread that act from here on.
    #[inline]
    pub fn act(&mut self, pid: Pid, tid: Tid) {
        if self.actor != (pid, tid) || !self.of.contains_key(&pid) {
            self.switch(pid, tid);
        }
    }

    #[cold]
    fn switch(&mut self, pid: Pid, tid: Tid) {
        self.actor = (pid, tid);
        self.threads.insert(pid, tid);
        let next = self.logs.len();
        let before = std::mem::replace(&mut self.current, *self.of.entry(pid).or_insert(next));
        if self.current != before {
            self.recent = [0; RECENT];
        }
        if self.current == next {
            self.logs.push(Log::default());
        }
    }

    /// A reference of the acting process.
    #[inline(always)]
    pub fn touch(&mut self, va: VirtAddr, access: Access) {
        let page = va.vpn().0;
        let key = (page << 2 | access as u64) + 1;
        let recent = &mut self.recent[(page << 1 ^ access as u64) as usize % RECENT];
        if *recent != key {
            *recent = key;
            self.held += self.logs[self.current].note(page, access);
        }
    }

    /// Takes in an event of the acting process. `tell` gets the references to be made before it.
    pub fn event(&mut self, event: &Event, mut tell: impl FnMut(VirtAddr, Access)) {
        if let Event::Switch { pid, tid } = event {
            return self.act(*pid, *tid);
        }
        self.recent = [0; RECENT];
        let (acting, before) = (self.current, self.logs[self.current].spans.len());
        self.take(event, &mut tell);
        self.held = self.held + self.logs[acting].spans.len() - before;
    }

    fn take(&mut self, event: &Event, tell: &mut impl FnMut(VirtAddr, Access)) {
        let log = &mut self.logs[self.current];
        match event {
            Event::Munmap { addr, len }
            | Event::Mmap { addr, len, .. }
            | Event::Madvise { addr, len, advice: Advice::Dontneed } => {
                let (start, end) = pages(*addr, *len);
                log.lose(start, end, tell);
            }
            Event::Mremap { old, old_len, new, new_len, .. } => {
                log.tell(tell);
                for (addr, len) in [(old, old_len), (new, new_len)] {
                    let (start, end) = pages(*addr, *len);
                    log.forget(start, end);
                }
            }
            Event::Madvise { addr, len, .. } | Event::Mprotect { addr, len, .. } => {
                log.tell(tell);
                // What is stored after MADV_FREE is dirty again; what was refused may be allowed now.
                let (start, end) = pages(*addr, *len);
                log.forget(start, end);
            }
            Event::Brk { start, end } => {
                let end = pages(*start, end.raw().saturating_sub(start.raw())).1;
                let gone = std::mem::replace(&mut log.heap_end, end).max(end);
                log.lose(end, gone, tell);
            }
            Event::Fork { child, shares_memory } => {
                log.tell(tell);
                let space = if *shares_memory {
                    self.current
                } else {
                    // From here on a store copies the page, in either process.
                    log.clear();
                    let heap_end = log.heap_end;
                    self.logs.push(Log { heap_end, ..Log::default() });
                    self.logs.len() - 1
                };
                self.of.insert(*child, space);
            }
            Event::Exec { .. } => self.leave(tell),
            Event::Exit { .. } => {
                self.leave(tell);
                self.of.remove(&self.actor.0);
                self.threads.remove(&self.actor.0);
            }
            Event::Switch { .. }
            | Event::Image { .. }
            | Event::Malloc { .. }
            | Event::Free { .. }
            | Event::Name { .. }
            | Event::Clone { .. }
            | Event::ExitThread
            | Event::Prctl { .. }
            | Event::Pin { .. }
            | Event::Invlpg { .. }
            | Event::Frames { .. }
            | Event::Tick
            | Event::Resume
            | Event::Pause
            | Event::Continue { .. }
            | Event::Lost { .. } => {}
        }
    }

    /// The acting process has an address space of its own from here on, in which nothing is.
    fn leave(&mut self, tell: &mut impl FnMut(VirtAddr, Access)) {
        let (pid, current) = (self.actor.0, self.current);
        if self.of.iter().any(|(&other, &space)| space == current && other != pid) {
            // It borrowed the memory, in which its uses stay.
            self.logs[current].tell(tell);
            self.current = self.logs.len();
            self.logs.push(Log::default());
            self.of.insert(pid, self.current);
        } else {
            self.logs[current] = Log::default();
        }
    }

    /// Whether new uses should be passed on now, so that not too many are kept.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.held > SPANS_MAX
    }

    /// Passes on new uses of all processes, each with a thread that makes these references.
    pub fn tell_all(&mut self, mut tell: impl FnMut((Pid, Tid), VirtAddr, Access)) {
        for (&pid, &space) in &self.of {
            let Some(&tid) = self.threads.get(&pid) else { continue };
            self.logs[space].tell(&mut |va, access| tell((pid, tid), va, access));
        }
        if self.is_full() {
            self.logs.iter_mut().for_each(Log::clear);
            (self.held, self.recent) = (0, [0; RECENT]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, MapFlags};
    use mmulab_addr::Prot;

    type Uses = Vec<(u64, Access)>;

    fn page(n: u64) -> VirtAddr {
        VirtAddr::new(n * BASE_BYTES)
    }

    fn news(residency: &mut Residency) -> Uses {
        let mut told = Vec::new();
        residency.tell_all(|_, va, access| told.push((va.raw() / BASE_BYTES, access)));
        told
    }

    fn before(residency: &mut Residency, event: &Event) -> Uses {
        let mut told = Vec::new();
        residency.event(event, |va, access| told.push((va.raw() / BASE_BYTES, access)));
        told
    }

    #[test]
    fn each_use_is_told_once_in_an_order_that_first_uses_decide() {
        let mut all = Residency::default();
        // The first span begins with a load, the second, which comes first in memory, with a store.
        [(600, Access::Read), (601, Access::Write), (600, Access::Read), (5, Access::Write), (3, Access::Read)]
            .into_iter()
            .chain([(3, Access::Write), (4, Access::Fetch), (5, Access::Read)])
            .for_each(|(n, access)| all.touch(page(n).add(8), access));
        let expected = [(600, Access::Read), (601, Access::Write), (5, Access::Write), (4, Access::Fetch)];
        let rest = [(3, Access::Read), (3, Access::Write), (5, Access::Read)];
        assert_eq!(news(&mut all), [&expected[..], &rest].concat());
        all.touch(page(600), Access::Write);
        all.touch(page(3), Access::Read);
        assert_eq!(news(&mut all), [(600, Access::Write)]);
        assert!(news(&mut all).is_empty());
    }

    #[test]
    fn what_is_gone_is_forgotten_and_what_an_event_may_change_is_told_before_it() {
        let mut all = Residency::default();
        let touch = |all: &mut Residency| (60..70).for_each(|n| all.touch(page(n), Access::Write));
        touch(&mut all);
        let told = before(&mut all, &Event::Munmap { addr: page(63), len: 2 * BASE_BYTES });
        assert_eq!(told.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (60..70).collect::<Vec<_>>());
        touch(&mut all);
        assert_eq!(news(&mut all).len(), 2, "used again");
        touch(&mut all);
        let map = Event::Mmap {
            addr: page(0),
            len: SPAN * BASE_BYTES,
            prot: Prot::RW,
            flags: MapFlags::default(),
            backing: Backing::Anon,
        };
        assert!(before(&mut all, &map).is_empty(), "nothing is left of them");
        touch(&mut all);
        let free = Event::Madvise { addr: page(60), len: 10 * BASE_BYTES, advice: Advice::Free };
        assert_eq!(before(&mut all, &free).len(), 10, "they were dirty then");
        touch(&mut all);
        assert_eq!(news(&mut all).len(), 10, "and are again");
        before(&mut all, &Event::Brk { start: page(100), end: page(110) });
        all.touch(page(109), Access::Write);
        all.touch(page(104), Access::Write);
        assert_eq!(before(&mut all, &Event::Brk { start: page(100), end: page(105) }).len(), 2);
        all.touch(page(109), Access::Write);
        assert_eq!(news(&mut all), [(109, Access::Write)], "mapped again");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut all = Residency::default();
        let mut told = 0;
        for n in 0..3 * SPANS_MAX as u64 {
            all.touch(page(n * SPAN), Access::Read);
            if all.is_full() {
                told += news(&mut all).len();
            }
            assert!(all.held <= SPANS_MAX + 1);
        }
        assert_eq!(told + news(&mut all).len(), 3 * SPANS_MAX);
        before(&mut all, &Event::Exec { path: "/x".into() });
        assert_eq!(all.held, 0);
    }

    #[test]
    fn a_forked_process_uses_pages_anew_and_one_that_borrows_memory_does_not() {
        let mut all = Residency::default();
        all.touch(page(1), Access::Write);
        let told = before(&mut all, &Event::Fork { child: Pid(2), shares_memory: false });
        assert_eq!(told, [(1, Access::Write)]);
        all.touch(page(1), Access::Write);
        before(&mut all, &Event::Fork { child: Pid(3), shares_memory: true });
        all.act(Pid(3), Tid(3));
        all.touch(page(1), Access::Write);
        all.touch(page(2), Access::Write);
        assert_eq!(before(&mut all, &Event::Exec { path: "/x".into() }), [(2, Access::Write)]);
        all.act(Pid(2), Tid(2));
        all.touch(page(1), Access::Read);
        let mut told = Vec::new();
        all.tell_all(|(pid, tid), va, access| told.push((pid.0, tid.0, va.raw() / BASE_BYTES, access)));
        assert_eq!(told, [(2, 2, 1, Access::Read)]);
    }
}
