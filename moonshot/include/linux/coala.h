/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CoalaPaging: base pages of private memory at their own places of aligned blocks, so that sixteen of them can be
 * translated as one. The page-fault code asks here first, and goes to the page allocator as before if it gets nothing.
 */
#ifndef _LINUX_COALA_H
#define _LINUX_COALA_H

#include <linux/atomic.h>
#include <linux/types.h>

struct folio;
struct vm_fault;

/* What is counted since the system started: the lines of /sys/kernel/mm/coala/counts. */
enum coala_counted {
	/* No page of the range was there: the frame came out of a free block. */
	COALA_FIRST,
	/* None was there, and no block was free. */
	COALA_NO_BLOCK,
	/* A page of the range was there, and the frame beside it was free. */
	COALA_BESIDE,
	/* It was there, and the frame beside it was not free. */
	COALA_TAKEN,
	/* It was there, and not at its own place of a block. */
	COALA_MISPLACED,
	/* The contiguous bit was set in sixteen entries, whose pages were allocated one by one. */
	COALA_BIT_SET,
	/* An entry was written whose frame is not at its own place of a block. */
	COALA_BIT_MISALIGNED,
	/* Sixteen entries agreed, and their pages are not all small ones of private memory. */
	COALA_BIT_MIXED,
	COALA_COUNTED,
};

extern atomic_long_t coala_counts[COALA_COUNTED];

static inline void coala_count(enum coala_counted what)
{
	atomic_long_inc(&coala_counts[what]);
}

#ifdef CONFIG_COALA

extern int coala_paging;

struct folio *__coala_folio(struct vm_fault *vmf, bool zeroed);

/*
 * A page for the fault, charged to its process and filled with zeros if @zeroed; NULL if CoalaPaging is off or has no
 * frame for it.
 */
static inline struct folio *coala_folio(struct vm_fault *vmf, bool zeroed)
{
	return unlikely(READ_ONCE(coala_paging)) ? __coala_folio(vmf, zeroed) : NULL;
}

#else

static inline struct folio *coala_folio(struct vm_fault *vmf, bool zeroed)
{
	return NULL;
}

#endif /* CONFIG_COALA */

#endif /* _LINUX_COALA_H */
