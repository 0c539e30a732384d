// SPDX-License-Identifier: GPL-2.0-only
// arch/arm64/mm/contpte.c: folding no longer asks for one folio around the sixteen pages, but for sixteen that may.

@one_folio@
identifier folio_start, folio_end, cont_start, cont_end;
@@
-if (folio_start > cont_start || folio_end < cont_end)
+if ((folio_start > cont_start || folio_end < cont_end) && !coala_has_bit())
   return;

// The sixteen entries agree.
@agreed depends on one_folio@
identifier mm, addr, orig_ptep, pte;
symbol folio, pfn;
@@
+if (!coala_may_fold(folio, pfn) || coala_fold_in_place(orig_ptep))
+  return;
 pte = pte_mkcont(pte);
 contpte_convert(mm, addr, orig_ptep, pte);
