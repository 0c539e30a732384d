// SPDX-License-Identifier: GPL-2.0-only
/*
 * The transparent contiguous bit of Elastic Translations (Psomas et al., MICRO 2024, section IV-A), for 64 KiB.
 *
 * Linux folds sixteen entries into one translation, and unfolds them before any of them changes: that is done by
 * contpte.c, and all of it is used. What is here makes up for one assumption of that code, which holds no longer: that
 * sixteen pages with the bit are of one folio.
 *
 *   when to look       after each entry that is written, not after the last of sixteen alone: faults come in any order
 *   which may have it  sixteen small folios of private memory, or one large folio as before, and no mixture: code that
 *                      takes pte_batch_hint() as pages of one folio asks it of large folios only
 *   accessed           is one bit for the sixteen. When it is cleared for one page, the fifteen others are marked by
 *                      PG_young, which page reclaim takes for their accessed bit
 *   dirty              likewise: a page's bit is cleared in its own entry, so the sixteen are unfolded first, or the
 *                      others' stores would be forgotten
 */

#include <linux/mm.h>
#include <linux/page_idle.h>
#include <linux/pgtable.h>
#include <linux/coala.h>

int coala_bit;

void __coala_try_fold(struct mm_struct *mm, unsigned long addr, pte_t *ptep, pte_t pte)
{
	unsigned long place = (addr >> PAGE_SHIFT) % CONT_PTES;

	if (!pte_valid(pte) || pte_cont(pte) || pte_special(pte))
		return;
	if (pte_pfn(pte) % CONT_PTES != place)
		coala_count(COALA_BIT_MISALIGNED);
	else
		__contpte_try_fold(mm, addr, ptep, pte);
}

int __coala_changed(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep, int changed)
{
	if (changed)
		__coala_try_fold(vma->vm_mm, addr, ptep, __ptep_get(ptep));
	return changed;
}

/*
 * Sixteen entries agree, and map the frames from @pfn on; @folio has one of them. The caller holds the table's lock,
 * so that all sixteen stay what they are.
 */
bool coala_may_fold(struct folio *folio, unsigned long pfn)
{
	int i;

	if (folio_nr_pages(folio) >= CONT_PTES)
		return true;
	for (i = 0; i < CONT_PTES; i++) {
		folio = page_folio(pfn_to_page(pfn + i));
		if (folio_test_large(folio) || !folio_test_anon(folio)) {
			coala_count(COALA_BIT_MIXED);
			return false;
		}
	}
	coala_count(COALA_BIT_SET);
	return true;
}

/*
 * Sets the bit in sixteen entries that agree, and flushes nothing: what TLBs have of them stays true. Hardware may
 * write accessed and dirty bits meanwhile, so each entry is exchanged. False if that is not how the bit is to be set.
 *
 * The architecture asks for break before make here, unless a processor has FEAT_BBM of level 2: a TLB that had entries
 * of both sizes might report a conflict. Elastic Translations take that risk, and so does who writes 2 to the file.
 */
bool coala_fold_in_place(pte_t *ptep)
{
	int i;

	if (READ_ONCE(coala_bit) != COALA_BIT_IN_PLACE)
		return false;
	ptep = PTR_ALIGN_DOWN(ptep, sizeof(*ptep) * CONT_PTES);
	for (i = 0; i < CONT_PTES; i++, ptep++) {
		pteval_t seen = pte_val(__ptep_get(ptep)), was;

		do {
			was = seen;
			seen = cmpxchg_relaxed(&pte_val(*ptep), was, pte_val(pte_mkcont(__pte(was))));
		} while (seen != was);
	}
	dsb(ishst);
	return true;
}

/* The accessed bits of the sixteen entries around @ptep were cleared for its page's sake. */
int coala_keep_young(pte_t *ptep, int young)
{
	pte_t *first = PTR_ALIGN_DOWN(ptep, sizeof(*ptep) * CONT_PTES);
	int i;

	if (!young || folio_test_large(page_folio(pte_page(__ptep_get(ptep)))))
		return young;
	for (i = 0; i < CONT_PTES; i++)
		if (first + i != ptep)
			folio_set_young(page_folio(pte_page(__ptep_get(first + i))));
	return young;
}

/* Accessed and dirty bits of small folios are about to be cleared. */
void coala_unfold_small(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep)
{
	pte_t pte = __ptep_get(ptep);

	if (pte_valid_cont(pte) && !folio_test_large(page_folio(pte_page(pte))))
		__contpte_try_unfold(vma->vm_mm, addr, ptep, pte);
}
