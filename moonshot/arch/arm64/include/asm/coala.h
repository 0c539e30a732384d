/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The transparent contiguous bit: for sixteen entries whose pages were allocated one by one. Linux's own code
 * (arch/arm64/mm/contpte.c) sets the bit for pages of one large folio only, and looks when the last of sixteen entries
 * is written. These hooks look after each entry, and care for what Linux knows about folios and not about pages.
 *
 * Included by asm/pgtable.h: it may use types of entries only.
 */
#ifndef __ASM_COALA_H
#define __ASM_COALA_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <asm/pgtable-types.h>

struct folio;
struct mm_struct;
struct vm_area_struct;

/* How the bit is set, as written to /sys/kernel/mm/coala/bit. */
enum {
	/* Not for pages that were allocated one by one. */
	COALA_BIT_OFF,
	/* By break before make: the entries are cleared, their range is flushed, and they are written again. */
	COALA_BIT_BREAK,
	/* In the entries as they stand, without a flush: as Elastic Translations do it. */
	COALA_BIT_IN_PLACE,
};

#ifdef CONFIG_COALA

extern int coala_bit;

void __coala_try_fold(struct mm_struct *mm, unsigned long addr, pte_t *ptep, pte_t pte);
int __coala_changed(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep, int changed);
bool coala_may_fold(struct folio *folio, unsigned long pfn);
bool coala_fold_in_place(pte_t *ptep);
int coala_keep_young(pte_t *ptep, int young);
void coala_unfold_small(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep);

/* Whether sixteen pages of their own may have the bit. */
static inline bool coala_has_bit(void)
{
	return unlikely(READ_ONCE(coala_bit) != COALA_BIT_OFF);
}

/* An entry was written: sets the bit in its sixteen if they are complete now. The caller holds the table's lock. */
static inline void coala_try_fold(struct mm_struct *mm, unsigned long addr, pte_t *ptep, pte_t pte)
{
	if (coala_has_bit())
		__coala_try_fold(mm, addr, ptep, pte);
}

/* The same where rights of an entry changed, or not: hands @changed through. */
static inline int coala_changed(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep, int changed)
{
	return coala_has_bit() ? __coala_changed(vma, addr, ptep, changed) : changed;
}

#else

static inline bool coala_has_bit(void)
{
	return false;
}

static inline void coala_try_fold(struct mm_struct *mm, unsigned long addr, pte_t *ptep, pte_t pte)
{
}

static inline int coala_changed(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep, int changed)
{
	return changed;
}

static inline bool coala_may_fold(struct folio *folio, unsigned long pfn)
{
	return true;
}

static inline bool coala_fold_in_place(pte_t *ptep)
{
	return false;
}

static inline int coala_keep_young(pte_t *ptep, int young)
{
	return young;
}

static inline void coala_unfold_small(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep)
{
}

#endif /* CONFIG_COALA */

#endif /* __ASM_COALA_H */
