// SPDX-License-Identifier: GPL-2.0-only
// mm/memory.c: faults that need a page of private memory ask CoalaPaging before they ask the page allocator.

// The first touch of anonymous memory, and copies on write of private memory.
@faults@
identifier fault =~ "^(alloc_anon_folio|wp_page_copy|do_cow_fault)$";
identifier vmf;
expression mm, vma, address, zeroed;
@@
 fault(struct vm_fault *vmf)
 {
 <...
- folio_prealloc(mm, vma, address, zeroed)
+ (coala_folio(vmf, zeroed) ?: folio_prealloc(mm, vma, address, zeroed))
 ...>
 }

@includes depends on faults@
@@
 #include <linux/mm.h>
+#include <linux/coala.h>
