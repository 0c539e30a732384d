//! Stores of a kernel to pages that it maps. It zeroes a page or copies to it. So lines of that page are in the second
//! level when the program goes on: docs/concepts/timing.md has the timing that shows it. A page is mapped at a
//! fault, or because its mapping is populated. Only executions in time ask for this ([`Execution::KERNEL_STORES`]).
//! The time of these stores is the kernel's, which is counted apart.

use super::{below::Below, execution::Execution, parts::Engine};
use mmulab_addr::{BASE_BYTES, PageOrder, VirtAddr, VirtRange};

/// The base pages of a page of `pages`, in the order in which Linux stores to them (mm/memory.c, `process_huge_page`).
/// The one that the program wants comes last, and those near it shortly before.
///
/// ```text
///     1  3  5  wanted  4  2  0  0  0  0      0: first, from the end on
/// ```
fn in_order(pages: u64, wanted: u64) -> impl Iterator<Item = u64> {
    let around = wanted.min(pages - wanted);
    let far = pages - 2 * around;
    let is_in_first_half = 2 * wanted <= pages;
    let base = if is_in_first_half { 0 } else { far };
    let end = move |i| if is_in_first_half { pages - 1 - i } else { i };
    (0..far).map(end).chain((0..around).flat_map(move |i| [base + i, base + 2 * around - 1 - i]))
}

/// The last `bytes` of `runs`. Lines that were stored to before them are not in any cache any more.
fn last_of(runs: &[VirtRange], mut bytes: u64) -> Vec<VirtRange> {
    let mut last: Vec<VirtRange> = Vec::new();
    for run in runs.iter().rev() {
        let left_out = run.bytes().saturating_sub(bytes);
        bytes -= run.bytes() - left_out;
        last.push(VirtRange { start: run.start.add(left_out).align_down(PageOrder::P4K), end: run.end });
        if bytes == 0 {
            break;
        }
    }
    last.reverse();
    last
}

impl<B: Below, X: Execution> Engine<B, X> {
    /// The kernel has populated mappings: it stored to `runs` of whole pages, in this order.
    #[cold]
    pub(super) fn kernel_populated(&mut self, runs: &[VirtRange]) {
        for run in last_of(runs, self.state.hardware.caches.data_bytes()) {
            let mut at = run.start;
            while run.contains(at) {
                let leaf = self.state.context().and_then(|cx| cx.leaf(&self.state.system.mem, at));
                let Some(order) = leaf.map(|leaf| leaf.order) else { break };
                let page = at.align_down(order);
                // The kernel faults a page in by its first address.
                self.kernel_stored(page, order);
                at = page.add(order.bytes());
            }
        }
    }

    /// The kernel has stored to all of the page of `order` that holds `va`, which a program wants. The page's lines go
    /// to the second level, and displace others there.
    #[cold]
    pub(super) fn kernel_stored(&mut self, va: VirtAddr, order: PageOrder) {
        let Self { state, below, .. } = self;
        let Some(cx) = state.context() else { return };
        let (core, pages) = (state.acting.core(), order.base_pages());
        // Lines that were stored to before as many as all caches hold are not there any more.
        let kept = state.hardware.caches.data_bytes().div_ceil(BASE_BYTES).min(pages);
        let wanted = va.offset_in(order) / BASE_BYTES;
        for page in in_order(pages, wanted).skip((pages - kept) as usize) {
            let va = va.align_down(order).add(page * BASE_BYTES);
            let Some(leaf) = cx.leaf(&state.system.mem, va) else { continue };
            let Some(pa) = below.physical(leaf.translate(va)) else { continue };
            state.hardware.caches.store_page(core, pa);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel's source has it, with its own names.
    fn process_huge_page(nr_pages: i64, n: i64) -> Vec<u64> {
        let mut done = Vec::new();
        let (base, l);
        if 2 * n <= nr_pages {
            (base, l) = (0, n);
            done.extend((2 * n..nr_pages).rev());
        } else {
            (base, l) = (nr_pages - 2 * (nr_pages - n), nr_pages - n);
            done.extend(0..base);
        }
        for i in 0..l {
            done.extend([base + i, base + 2 * l - 1 - i]);
        }
        done.into_iter().map(|i| i as u64).collect()
    }

    #[test]
    fn base_pages_come_in_linuxs_order_and_the_wanted_one_last() {
        for pages in [1, 2, 16, 512] {
            for wanted in 0..pages {
                let found: Vec<u64> = in_order(pages, wanted).collect();
                assert_eq!(found, process_huge_page(pages as i64, wanted as i64), "{wanted} of {pages}");
                assert_eq!(found.last(), Some(&wanted));
            }
        }
        assert_eq!(in_order(8, 3).collect::<Vec<_>>(), [7, 6, 0, 5, 1, 4, 2, 3]);
    }

    #[test]
    fn of_populated_runs_the_last_stay() {
        let run = |first: u64, pages: u64| VirtRange::sized(VirtAddr::new(first << 12), pages << 12);
        let runs = [run(0, 8), run(100, 4), run(50, 6)];
        assert_eq!(last_of(&runs, 100 << 12), runs);
        assert_eq!(last_of(&runs, 6 << 12), [run(50, 6)]);
        assert_eq!(last_of(&runs, 7 << 12), [run(103, 1), run(50, 6)]);
        assert_eq!(last_of(&runs, 12 << 12), [run(6, 2), run(100, 4), run(50, 6)]);
        // Part of a page is all of it.
        assert_eq!(last_of(&runs, 64), [run(55, 1)]);
        assert_eq!(last_of(&[], 64), []);
    }
}
