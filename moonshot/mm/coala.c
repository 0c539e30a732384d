// SPDX-License-Identifier: GPL-2.0-only
/*
 * CoalaPaging: the coalescing-aware placement of Elastic Translations (Psomas et al., MICRO 2024, section IV-B and
 * Figure 5), for base pages in ranges of 64 KiB.
 *
 *   entries of the range   [ . | . | . | ? | . | . | A | . | ... ]     ?: the fault   A: an entry that is there
 *
 *   no entry is there      the frame at the place of ? in a free block of order 4 or more; what is left of the block
 *                          goes back, to the tails of the free lists
 *   A's frame lies at A's  the frame at the place of ? in the same block, if it is free
 *   own place in a block
 *   else                   any frame: the page allocator's own choice
 *
 * Nothing is reserved and nothing is remembered but the page table. The shared page of zeros is no A.
 */

#include <linux/coala.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/swap.h>
#include <linux/sysfs.h>
#include <linux/vmstat.h>
#include <asm/coala.h>
#include "internal.h"

/* Log2 of the pages that one entry of a TLB translates together. */
#define GROUP_ORDER (CONT_PTE_SHIFT - PAGE_SHIFT)
#define GROUP CONT_PTES

/* What such pages may lie in, as other pages of user memory. */
#define GFP GFP_HIGHUSER_MOVABLE

int coala_paging;
atomic_long_t coala_counts[COALA_COUNTED];

/*
 * Takes the page @target out of the free block of @order that begins at @head, and gives the rest back to the tails of
 * the free lists. False if the zone would have too little left. The caller holds the zone's lock.
 */
static bool take_out_of(struct page *head, unsigned int order, struct page *target)
{
	int type = get_pageblock_migratetype(head);

	if (!__isolate_free_page(head, order))
		return false;
	while (order) {
		struct page *upper = head + (1UL << --order);

		if (target < upper) {
			__putback_isolated_page(upper, order, type);
		} else {
			__putback_isolated_page(head, order, type);
			head = upper;
		}
	}
	return true;
}

/* Makes a page that was taken one that the page allocator might have returned. */
static struct page *prepared(struct zone *zone, struct page *page, bool zeroed)
{
	post_alloc_hook(page, 0, zeroed ? GFP | __GFP_ZERO : GFP);
	set_page_refcounted(page);
	clear_page_pfmemalloc(page);
	__count_zid_vm_events(PGALLOC, zone_idx(zone), 1);
	return page;
}

/* Below that the page allocator reclaims memory, which is not done here. */
static bool has_enough(struct zone *zone)
{
	return zone_watermark_ok(zone, 0, low_wmark_pages(zone), gfp_zone(GFP), 0);
}

/* The page that is the @place-th of a free block of sixteen or more. */
static struct page *take_within(unsigned long place, bool zeroed)
{
	struct zone *zone;
	struct zoneref *z;

	for_each_zone_zonelist(zone, z, node_zonelist(numa_node_id(), GFP), gfp_zone(GFP)) {
		struct page *target = NULL;
		unsigned long flags;
		unsigned int order;

		if (!has_enough(zone))
			continue;
		spin_lock_irqsave(&zone->lock, flags);
		for (order = GROUP_ORDER; order < NR_PAGE_ORDERS; order++) {
			struct list_head *list = &zone->free_area[order].free_list[MIGRATE_MOVABLE];
			struct page *head = list_first_entry_or_null(list, struct page, buddy_list);

			if (!head)
				continue;
			if (take_out_of(head, order, head + place))
				target = head + place;
			break;
		}
		spin_unlock_irqrestore(&zone->lock, flags);
		if (target)
			return prepared(zone, target, zeroed);
	}
	return NULL;
}

/* The page of frame @pfn, if it is free. One that waits in a list of a CPU's is not. */
static struct page *take_at(unsigned long pfn, bool zeroed)
{
	struct page *target = pfn_to_online_page(pfn);
	bool taken = false;
	unsigned long flags;
	unsigned int order;
	struct zone *zone;

	if (!target)
		return NULL;
	zone = page_zone(target);
	if (!has_enough(zone))
		return NULL;
	spin_lock_irqsave(&zone->lock, flags);
	for (order = 0; order < NR_PAGE_ORDERS && !taken; order++) {
		unsigned long first = ALIGN_DOWN(pfn, 1UL << order);
		struct page *head = pfn_to_page(first);

		if (!zone_spans_pfn(zone, first))
			break;
		if (!PageBuddy(head) || buddy_order(head) != order)
			continue;
		if (get_pageblock_migratetype(head) == MIGRATE_MOVABLE)
			taken = take_out_of(head, order, target);
		break;
	}
	spin_unlock_irqrestore(&zone->lock, flags);
	return taken ? prepared(zone, target, zeroed) : NULL;
}

/* An entry of the sixteen from @start on that maps a page, and its place among them; 0 if there is none. */
static bool find_anchor(struct vm_fault *vmf, unsigned long start, unsigned long *frame, unsigned long *place)
{
	pte_t *entries = pte_offset_map(vmf->pmd, start);
	bool found = false;
	unsigned long i;

	if (!entries)
		return false;
	/* Without the table's lock: an entry that changes meanwhile makes a worse choice of a frame, and no wrong one. */
	for (i = 0; i < GROUP && !found; i++) {
		pte_t entry = ptep_get_lockless(entries + i);

		if (pte_present(entry) && !pte_special(entry)) {
			*frame = pte_pfn(entry);
			*place = i;
			found = true;
		}
	}
	pte_unmap(entries);
	return found;
}

static struct page *take(struct vm_fault *vmf, bool zeroed)
{
	unsigned long start = ALIGN_DOWN(vmf->address, CONT_PTE_SIZE);
	unsigned long place = (vmf->address - start) >> PAGE_SHIFT;
	unsigned long anchor, its_place;
	struct page *page;

	if (!find_anchor(vmf, start, &anchor, &its_place)) {
		page = take_within(place, zeroed);
		coala_count(page ? COALA_FIRST : COALA_NO_BLOCK);
		return page;
	}
	if (anchor % GROUP != its_place) {
		coala_count(COALA_MISPLACED);
		return NULL;
	}
	page = take_at(anchor - its_place + place, zeroed);
	coala_count(page ? COALA_BESIDE : COALA_TAKEN);
	return page;
}

struct folio *__coala_folio(struct vm_fault *vmf, bool zeroed)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	struct folio *folio;
	struct page *page;

	/* Memory whose tags must be set as it is zeroed. */
	if (vmf->vma->vm_flags & VM_MTE)
		return NULL;
	page = take(vmf, zeroed);
	if (!page)
		return NULL;
	folio = page_folio(page);
	if (mem_cgroup_charge(folio, mm, GFP_KERNEL)) {
		folio_put(folio);
		return NULL;
	}
	folio_throttle_swaprate(folio, GFP_KERNEL);
	return folio;
}

static int read_choice(const char *text, size_t length, unsigned int last, int *choice)
{
	unsigned int value;
	int error = kstrtouint(text, 10, &value);

	if (error)
		return error;
	if (value > last)
		return -EINVAL;
	WRITE_ONCE(*choice, value);
	return length;
}

static ssize_t paging_show(struct kobject *kobj, struct kobj_attribute *attr, char *text)
{
	return sysfs_emit(text, "%d\n", READ_ONCE(coala_paging));
}

static ssize_t paging_store(struct kobject *kobj, struct kobj_attribute *attr, const char *text, size_t length)
{
	return read_choice(text, length, 1, &coala_paging);
}
static struct kobj_attribute paging_attr = __ATTR_RW(paging);

static ssize_t bit_show(struct kobject *kobj, struct kobj_attribute *attr, char *text)
{
	return sysfs_emit(text, "%d\n", READ_ONCE(coala_bit));
}

static ssize_t bit_store(struct kobject *kobj, struct kobj_attribute *attr, const char *text, size_t length)
{
	return read_choice(text, length, COALA_BIT_IN_PLACE, &coala_bit);
}
static struct kobj_attribute bit_attr = __ATTR_RW(bit);

static ssize_t counts_show(struct kobject *kobj, struct kobj_attribute *attr, char *text)
{
	static const char * const names[COALA_COUNTED] = {
		[COALA_FIRST] = "first",
		[COALA_NO_BLOCK] = "no_block",
		[COALA_BESIDE] = "beside",
		[COALA_TAKEN] = "taken",
		[COALA_MISPLACED] = "misplaced",
		[COALA_BIT_SET] = "bit_set",
		[COALA_BIT_MISALIGNED] = "bit_misaligned",
		[COALA_BIT_MIXED] = "bit_mixed",
	};
	int at = 0, i;

	for (i = 0; i < COALA_COUNTED; i++)
		at += sysfs_emit_at(text, at, "%s %ld\n", names[i], atomic_long_read(&coala_counts[i]));
	return at;
}
static struct kobj_attribute counts_attr = __ATTR_RO(counts);

static struct attribute *coala_attrs[] = { &paging_attr.attr, &bit_attr.attr, &counts_attr.attr, NULL };
static const struct attribute_group coala_group = { .name = "coala", .attrs = coala_attrs };

static int __init coala_init(void)
{
	return sysfs_create_group(mm_kobj, &coala_group);
}
subsys_initcall(coala_init);
