//! The page cache: which pages of files and of shared memory are in which frames, for all processes.

use mmulab_addr::Pfn;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Pages one chunk of an object's index holds: a power of two no smaller than a read-around window.
const CHUNK: u64 = 64;
/// No frame.
const ABSENT: u64 = u64::MAX;

/// A file, or a shared anonymous mapping, whose pages are found by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u32);

/// Pages of a file that are cached before the program begins: their number, and the frame of the first.
struct Extent {
    first: u64,
    pages: u64,
    base: Pfn,
}

struct Object {
    /// Where its pages were before the program began, as far as they were looked up; in order.
    extents: Vec<Extent>,
    chunks: FxHashMap<u64, Box<[u64; CHUNK as usize]>>,
    /// Pages known to exist: the furthest any mapping showed so far. Nothing beyond is read.
    content: u64,
    /// The same, and the pages of zeros that pad code behind it.
    end: u64,
    /// Shared anonymous memory: never read, never dropped while mapped.
    memory: bool,
}

impl Object {
    /// The frame that a page had before the program began has another user now.
    fn leave_place(&mut self, page: u64) {
        let Some(i) = self.extents.partition_point(|e| e.first <= page).checked_sub(1) else { return };
        let extent = &mut self.extents[i];
        let before = page - extent.first;
        if before >= extent.pages {
            return;
        }
        let behind =
            Extent { first: page + 1, pages: extent.pages - before - 1, base: Pfn(extent.base.0 + before + 1) };
        extent.pages = before;
        self.extents.insert(i + 1, behind);
    }

    /// A page goes; its chunk too if it was the last, so that a file read through a small memory takes no more than
    /// that.
    fn drop_page(&mut self, page: u64) {
        self.leave_place(page);
        if let Some(chunk) = self.chunks.get_mut(&(page / CHUNK)) {
            chunk[(page % CHUNK) as usize] = ABSENT;
            if chunk.iter().all(|&pfn| pfn == ABSENT) {
                self.chunks.remove(&(page / CHUNK));
            }
        }
    }
}

/// All files and shared memory.
#[derive(Default)]
pub struct Cache {
    objects: Vec<Object>,
    by_path: FxHashMap<Arc<str>, ObjectId>,
    /// File pages in the order they came in, for reclaim.
    queue: VecDeque<(ObjectId, u64)>,
    pages: u64,
    /// Of these, pages of files.
    file_pages: u64,
}

impl Cache {
    /// The file at `path`.
    pub fn file(&mut self, path: &Arc<str>) -> ObjectId {
        if let Some(&id) = self.by_path.get(path) {
            return id;
        }
        let id = self.push(false);
        self.by_path.insert(path.clone(), id);
        id
    }

    /// The file at `path`, if anything of it was mapped.
    pub fn find(&self, path: &str) -> Option<ObjectId> {
        self.by_path.get(path).copied()
    }

    /// New shared memory.
    pub fn memory(&mut self) -> ObjectId {
        self.push(true)
    }

    fn push(&mut self, memory: bool) -> ObjectId {
        self.objects.push(Object { extents: Vec::new(), chunks: FxHashMap::default(), content: 0, end: 0, memory });
        ObjectId(self.objects.len() as u32 - 1)
    }

    /// A mapping shows the pages before `end`.
    pub fn reaches(&mut self, id: ObjectId, end: u64) {
        let object = &mut self.objects[id.0 as usize];
        object.content = object.content.max(end);
        object.end = object.end.max(end);
    }

    /// Pages before `end` that the file has not are zeros, which pad its code.
    pub fn pad(&mut self, id: ObjectId, end: u64) {
        let object = &mut self.objects[id.0 as usize];
        object.end = object.end.max(end);
    }

    /// The page after the last that is the file's own, as far as mappings showed it.
    pub fn content_end(&self, id: ObjectId) -> u64 {
        self.objects[id.0 as usize].content
    }

    /// The first page that no mapping showed yet.
    pub fn end(&self, id: ObjectId) -> u64 {
        self.objects[id.0 as usize].end
    }

    /// Whether it is shared memory rather than a file.
    pub fn is_memory(&self, id: ObjectId) -> bool {
        self.objects[id.0 as usize].memory
    }

    /// Where a page is.
    #[inline]
    pub fn get(&self, id: ObjectId, page: u64) -> Option<Pfn> {
        let pfn = self.objects[id.0 as usize].chunks.get(&(page / CHUNK))?[(page % CHUNK) as usize];
        (pfn != ABSENT).then_some(Pfn(pfn))
    }

    /// The first page of `from..to` that is in it. Ranges may be far longer than what is.
    pub fn next(&self, id: ObjectId, from: u64, to: u64) -> Option<u64> {
        let chunks = &self.objects[id.0 as usize].chunks;
        let present = |number: u64| {
            let (chunk, first) = (chunks.get(&number)?, number * CHUNK);
            (from.max(first)..to.min(first + CHUNK)).find(|page| chunk[(page - first) as usize] != ABSENT)
        };
        let mut numbers = from / CHUNK..to.div_ceil(CHUNK);
        if numbers.end.saturating_sub(numbers.start) <= chunks.len() as u64 {
            numbers.find_map(present)
        } else {
            chunks.keys().filter(|number| numbers.contains(number)).filter_map(|&number| present(number)).min()
        }
    }

    /// Where a page of a file was before the program began, if that was decided and it did not leave its place since.
    pub fn placed(&self, id: ObjectId, page: u64) -> Option<Pfn> {
        let extents = &self.objects[id.0 as usize].extents;
        let extent = &extents[extents.partition_point(|e| e.first <= page).checked_sub(1)?];
        (page - extent.first < extent.pages).then(|| Pfn(extent.base.0 + (page - extent.first)))
    }

    /// The pages around one that has no place yet, as far as the file is known to go: from which one on, and how many.
    pub fn unplaced_around(&self, id: ObjectId, page: u64) -> (u64, u64) {
        let object = &self.objects[id.0 as usize];
        let next = object.extents.partition_point(|e| e.first <= page);
        let first = next.checked_sub(1).map_or(0, |i| object.extents[i].first + object.extents[i].pages);
        let after = object.extents.get(next).map_or(u64::MAX, |e| e.first);
        (first, after.min(object.end.max(page + 1)) - first)
    }

    /// Decides where pages were.
    pub fn place(&mut self, id: ObjectId, first: u64, base: Pfn, pages: u64) {
        let extents = &mut self.objects[id.0 as usize].extents;
        extents.insert(extents.partition_point(|e| e.first <= first), Extent { first, pages, base });
    }

    /// Whether any of the pages `from..to` is in it.
    pub fn has_any(&self, id: ObjectId, from: u64, to: u64) -> bool {
        self.next(id, from, to).is_some()
    }

    /// A page came in.
    pub fn put(&mut self, id: ObjectId, page: u64, pfn: Pfn) {
        let object = &mut self.objects[id.0 as usize];
        let chunk = object.chunks.entry(page / CHUNK).or_insert_with(|| Box::new([ABSENT; CHUNK as usize]));
        chunk[(page % CHUNK) as usize] = pfn.0;
        self.pages += 1;
        if !object.memory {
            self.file_pages += 1;
            self.queue.push_back((id, page));
        }
    }

    /// A page was moved to another frame.
    pub fn move_to(&mut self, id: ObjectId, page: u64, pfn: Pfn) {
        if let Some(chunk) = self.objects[id.0 as usize].chunks.get_mut(&(page / CHUNK)) {
            chunk[(page % CHUNK) as usize] = pfn.0;
        }
    }

    /// Every page in it, in no order.
    pub fn frames(&self) -> impl Iterator<Item = (Pfn, ObjectId, u64)> + '_ {
        self.objects.iter().enumerate().flat_map(|(id, object)| {
            object.chunks.iter().flat_map(move |(&chunk, frames)| {
                let present = frames.iter().enumerate().filter(|f| *f.1 != ABSENT);
                present.map(move |(i, &pfn)| (Pfn(pfn), ObjectId(id as u32), chunk * CHUNK + i as u64))
            })
        })
    }

    /// Pages in it.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages of files in it: shared memory left out.
    pub fn file_pages(&self) -> u64 {
        self.file_pages
    }

    /// Drops up to `wanted` of the oldest file pages that `droppable` allows and returns their frames.
    pub fn reclaim(&mut self, wanted: usize, droppable: impl Fn(Pfn) -> bool) -> Vec<Pfn> {
        let mut out = Vec::new();
        for _ in 0..self.queue.len() {
            if out.len() == wanted {
                break;
            }
            let Some((id, page)) = self.queue.pop_front() else { break };
            match self.get(id, page) {
                Some(pfn) if droppable(pfn) => {
                    self.objects[id.0 as usize].drop_page(page);
                    self.pages -= 1;
                    self.file_pages -= 1;
                    out.push(pfn);
                }
                _ => self.queue.push_back((id, page)),
            }
        }
        out
    }

    /// Forgets shared memory that no process maps any more and returns its frames, in the order of its pages.
    pub fn forget(&mut self, id: ObjectId) -> Vec<Pfn> {
        let mut chunks: Vec<_> = std::mem::take(&mut self.objects[id.0 as usize].chunks).into_iter().collect();
        chunks.sort_unstable_by_key(|c| c.0);
        let frames: Vec<_> =
            chunks.iter().flat_map(|c| c.1.iter()).filter(|&&p| p != ABSENT).map(|&p| Pfn(p)).collect();
        self.pages -= frames.len() as u64;
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_near_and_far() {
        let mut cache = Cache::default();
        let a = cache.file(&"/a".into());
        for page in [3, 70, 71, 1 << 40] {
            cache.put(a, page, Pfn(page + 1));
        }
        // The last range of each pair is longer than the object has chunks.
        for to in [200, u64::MAX] {
            assert_eq!([0, 3, 4, 70, 71].map(|from| cache.next(a, from, to)), [3, 3, 70, 70, 71].map(Some));
        }
        assert_eq!((cache.next(a, 72, 1 << 40), cache.next(a, 72, u64::MAX)), (None, Some(1 << 40)));
        assert_eq!((cache.next(a, 0, 3), cache.next(a, 4, 70), cache.next(a, 5, 5)), (None, None, None));
    }

    /// CHANGELOG number 10: where pages of files were before the program began.
    #[test]
    fn pages_have_the_places_they_were_given_until_they_are_dropped() {
        let mut cache = Cache::default();
        let a = cache.file(&"/a".into());
        cache.reaches(a, 100);
        assert_eq!(cache.unplaced_around(a, 50), (0, 100));
        cache.place(a, 0, Pfn(1000), 60);
        assert_eq!((cache.placed(a, 59), cache.placed(a, 60)), (Some(Pfn(1059)), None));
        assert_eq!(cache.unplaced_around(a, 70), (60, 40));
        cache.place(a, 60, Pfn(3000), 40);
        cache.put(a, 10, Pfn(1010));
        assert_eq!(cache.reclaim(1, |_| true), [Pfn(1010)]);
        assert_eq!((cache.placed(a, 9), cache.placed(a, 10)), (Some(Pfn(1009)), None));
        assert_eq!((cache.placed(a, 11), cache.placed(a, 99)), (Some(Pfn(1011)), Some(Pfn(3039))));
        assert_eq!(cache.unplaced_around(a, 10), (10, 1));
    }

    #[test]
    fn pages_are_found_by_file_and_number_and_the_oldest_unused_go_first() {
        let mut cache = Cache::default();
        let a = cache.file(&"/a".into());
        let b = cache.file(&"/b".into());
        assert_eq!(cache.file(&"/a".into()), a);
        for page in 0..100 {
            cache.put(a, page, Pfn(page));
            cache.put(b, page, Pfn(1000 + page));
        }
        assert_eq!(cache.get(b, 63), Some(Pfn(1063)));
        assert_eq!(cache.get(b, 64 * 9), None);
        assert_eq!(cache.reclaim(3, |pfn| pfn.0 % 2 == 1), [Pfn(1), Pfn(1001), Pfn(3)]);
        assert_eq!((cache.get(a, 1), cache.get(a, 0), cache.pages()), (None, Some(Pfn(0)), 197));
        assert_eq!(cache.reclaim(200, |pfn| pfn.0 < 1000).len(), 98);
        assert!(cache.objects[a.0 as usize].chunks.is_empty(), "a file of which nothing is left takes no memory");
        for page in 0..98 {
            cache.put(a, page, Pfn(page));
        }
        let shared = cache.memory();
        cache.put(shared, 0, Pfn(5000));
        assert_eq!((cache.pages(), cache.file_pages()), (198, 197));
        assert_eq!(cache.forget(shared), [Pfn(5000)]);
        assert_eq!((cache.pages(), cache.file_pages()), (197, 197));
    }
}
