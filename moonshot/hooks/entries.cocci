// SPDX-License-Identifier: GPL-2.0-only
// arch/arm64/include/asm/pgtable.h: all that Linux does to single entries of user memory goes through these functions.
// They look whether sixteen entries are complete (coala_try_fold, coala_changed), and keep apart what belongs to one of
// sixteen pages alone (coala_keep_young, coala_unfold_small).

@written@
identifier mm, addr, ptep, pte;
@@
 contpte_try_fold(mm, addr, ptep, pte);
+coala_try_fold(mm, addr, ptep, pte);

// fork() takes the right to store from one entry after the other.
@protected@
identifier mm, addr, ptep, orig_pte;
@@
 ___ptep_set_wrprotect(mm, addr, ptep, orig_pte);
+coala_try_fold(mm, addr, ptep, __ptep_get(ptep));

// A fault gave it back.
@allowed@
identifier vma, addr, ptep, entry, dirty;
@@
-return __ptep_set_access_flags(vma, addr, ptep, entry, dirty);
+return coala_changed(vma, addr, ptep, __ptep_set_access_flags(vma, addr, ptep, entry, dirty));

@aged@
identifier ask =~ "^contpte_ptep_(test_and_clear|clear_flush)_young$";
identifier vma, addr, ptep;
@@
-return ask(vma, addr, ptep);
+return coala_keep_young(ptep, ask(vma, addr, ptep));

@cleaned@
identifier vma, addr, ptep, nr, flags;
statement otherwise;
@@
+coala_unfold_small(vma, addr, ptep);
 if (likely(nr == 1 && !pte_cont(__ptep_get(ptep))))
   __clear_young_dirty_ptes(vma, addr, ptep, nr, flags);
 else
   otherwise

// Not among the first includes, which assembly code reads, too.
@includes depends on written@
@@
 #include <linux/mm_types.h>
+#include <asm/coala.h>
