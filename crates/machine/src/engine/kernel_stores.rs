//! Stores of a kernel at a fault. It zeroes a page or copies to it. So lines of that page are in the second level when
//! the program goes on: docs/concepts/timing.md has the timing that shows it. Only executions in time ask for this
//! ([`Execution::KERNEL_STORES`]). The time of these stores is the kernel's, which is counted apart.

use super::{below::Below, execution::Execution, parts::Engine};
use mmulab_addr::{BASE_BYTES, LINE_BYTES, PageOrder, PhysAddr, VirtAddr};
use mmulab_kernel::FaultKind;

/// Whether the kernel stores to all of the page that a fault of this kind maps.
pub(super) fn stores_page(kind: FaultKind) -> bool {
    match kind {
        FaultKind::Anon
        | FaultKind::ZeroPageWrite
        | FaultKind::FilePrivate
        | FaultKind::Copy
        | FaultKind::TextMoved => true,
        // A device stores what is read from storage.
        FaultKind::FileRead
        | FaultKind::FileCached
        | FaultKind::ZeroPage
        | FaultKind::WriteNotify
        | FaultKind::Reuse
        | FaultKind::Resident
        | FaultKind::Spurious => false,
    }
}

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

impl<B: Below, X: Execution> Engine<B, X> {
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
            for line in 0..BASE_BYTES / LINE_BYTES {
                state.hardware.caches.prefetch_line(core, PhysAddr(pa.0 + line * LINE_BYTES));
            }
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
}
