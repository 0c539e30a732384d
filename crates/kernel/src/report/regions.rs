//! All regions of a run: which mapping belongs to which, and the folding of those that are gone.
//!
//! A program may map and unmap memory at new addresses for ever. Each mapping would be a region. So the regions that no
//! address space maps any more are folded, kind by kind, if there are many. The largest stay, because readers look for
//! these. Costs of regions are counted outside the kernel, which reports each folding as a [`Fold`].

use crate::report::region::{BySize, Identity, Prot3, Region, RegionId, RegionKind, Rights};
use mmulab_addr::{Pid, Prot, VirtAddr};
use mmulab_interleave::NUMBERS;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Unmapped regions that keep a row of their own when others are folded. Ours, so that
/// the rows of a result take about half a megabyte at most.
const KEPT: usize = 1024;
/// Folding sorts the unmapped regions, so it waits until there are as many again.
const GONE_MAX: usize = 2 * KEPT;

/// A region that is no more, and the row that sums it up from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fold {
    /// The slot that is free now.
    pub from: RegionId,
    /// The row of its kind.
    pub into: RegionId,
}

/// A program that processes run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The path of its exec; empty for what a trace begins with.
    pub path: Arc<str>,
    /// The first process that ran it.
    pub pid: Pid,
    /// Address spaces that it was run in, those of forked children among them.
    pub processes: u64,
}

/// The number of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ProgramId(u32);

/// A region's program, what it is, and its first address.
type Key = (ProgramId, Identity, u64);

struct Row {
    region: Region,
    program: ProgramId,
    /// Where `known` has it; none for region 0 and for rows that sum up others.
    key: Option<Key>,
    /// Bytes of address spaces that lie in it now.
    laid: u64,
    is_vacant: bool,
}

/// All regions of a run.
pub(crate) struct Regions {
    rows: Vec<Row>,
    vacant: Vec<RegionId>,
    next: u64,
    known: BTreeMap<Key, RegionId>,
    /// The rows that sum up unmapped regions; those of the kernel's half apart.
    folds: BTreeMap<(ProgramId, RegionKind, Prot3, bool), RegionId>,
    /// Regions that no address space maps and that are not folded.
    gone: usize,
    programs: Vec<Program>,
    /// By the member of a mix that runs it, and its path.
    by_path: BTreeMap<(u32, Arc<str>), ProgramId>,
}

impl Regions {
    pub fn new() -> Self {
        let mut new = Self {
            rows: Vec::new(),
            vacant: Vec::new(),
            next: 0,
            known: BTreeMap::new(),
            folds: BTreeMap::new(),
            gone: 0,
            programs: Vec::new(),
            by_path: BTreeMap::new(),
        };
        let program = new.program(Pid(0), &"".into());
        new.push(program, Pid(0), RegionKind::Unmapped, "(unmapped)".into(), Prot::NONE);
        new
    }

    /// The program at `path` that `pid` runs. Two members of a mix that run one file are two programs.
    pub fn program(&mut self, pid: Pid, path: &Arc<str>) -> ProgramId {
        let next = ProgramId(self.programs.len() as u32);
        let id = *self.by_path.entry((pid.0 / NUMBERS, Arc::clone(path))).or_insert(next);
        if id == next {
            self.programs.push(Program { path: Arc::clone(path), pid, processes: 0 });
        }
        id
    }

    /// An address space more runs a program.
    pub fn runs(&mut self, program: ProgramId, pid: Pid) {
        let program = &mut self.programs[program.0 as usize];
        if program.processes == 0 {
            program.pid = pid;
        }
        program.processes += 1;
    }

    /// The programs that were run.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter().filter(|program| program.processes > 0)
    }

    /// The regions, by number.
    pub fn all(&self) -> Vec<&Region> {
        let mut all: Vec<_> = self.rows.iter().filter(|row| !row.is_vacant).map(|row| &row.region).collect();
        all.sort_unstable_by_key(|region| region.number);
        all
    }

    pub fn get(&self, id: RegionId) -> &Region {
        &self.rows[id.index()].region
    }

    pub fn get_mut(&mut self, id: RegionId) -> &mut Region {
        &mut self.rows[id.index()].region
    }

    /// A new row, in a slot that is free.
    fn push(&mut self, program: ProgramId, pid: Pid, kind: RegionKind, name: Arc<str>, prot: Prot) -> RegionId {
        let id = self.vacant.pop().unwrap_or(RegionId(self.rows.len() as u32));
        let region = Region {
            id,
            number: self.next,
            pid,
            program: Arc::clone(&self.programs[program.0 as usize].path),
            folded: 0,
            name,
            kind,
            start: VirtAddr::new(0),
            end: VirtAddr::new(0),
            first: VirtAddr::new(0),
            prot,
            file: None,
            offset: 0,
            is_kernel: false,
            mapped: BySize::default(),
            mapped_zero: BySize::default(),
        };
        self.next += 1;
        let row = Row { region, program, key: None, laid: 0, is_vacant: false };
        match self.rows.get_mut(id.index()) {
            Some(free) => *free = row,
            None => self.rows.push(row),
        }
        id
    }

    /// The region of a mapping of `start..end`: one of the same identity that it touches or overlaps, grown to hold
    /// it, or a new one. Programs that map and unmap in turn at one place thus have one region there.
    pub fn place(&mut self, program: ProgramId, identity: &Identity, start: u64, end: u64, pid: Pid) -> RegionId {
        if let Some((key, id)) = self.near(program, identity, start, end) {
            let row = &mut self.rows[id.index()];
            row.region.end = VirtAddr::new(row.region.end.raw().max(end));
            if start < key.2 {
                row.region.start = VirtAddr::new(start);
                row.region.offset = start.wrapping_sub(identity.origin);
                self.known.remove(&key);
                self.know(id, (program, identity.clone(), start));
            }
            return id;
        }
        let is_file = identity.kind == RegionKind::File;
        let prot = Prot::from_bits(identity.prot.0);
        let name = match is_file {
            true => format!("{} {}", identity.name, Rights(prot)).into(),
            false => identity.name.clone(),
        };
        let id = self.push(program, pid, identity.kind, name, prot);
        let region = self.get_mut(id);
        (region.start, region.end) = (VirtAddr::new(start), VirtAddr::new(end));
        region.first = region.start;
        region.is_kernel = identity.is_kernel;
        if is_file {
            region.file = Some(identity.name.clone());
            region.offset = start.wrapping_sub(identity.origin);
        }
        self.know(id, (program, identity.clone(), start));
        self.gone += 1;
        id
    }

    /// The region that one becomes with this name, or without a name if it is empty. None: it keeps its name.
    pub fn named(&self, id: RegionId, name: &str) -> Option<Identity> {
        let (_, identity, _) = self.rows[id.index()].key.as_ref()?;
        let plain = match identity.kind {
            RegionKind::Anon => "anon",
            RegionKind::Shared => "shared",
            RegionKind::Heap => "[heap]",
            RegionKind::Unmapped | RegionKind::File | RegionKind::Stack | RegionKind::Special => return None,
        };
        let identity = match name {
            "" => Identity { name: plain.into(), ..identity.clone() },
            // Of a thread: it is what the name says, so that reports have it beside the others.
            stack if stack.starts_with("[stack") => {
                Identity { kind: RegionKind::Stack, name: stack.into(), ..identity.clone() }
            }
            site => Identity { name: format!("{plain}: {site}").into(), ..identity.clone() },
        };
        Some(identity)
    }

    /// Gives a region that lies on `start..end`, and nowhere else, another name. False: a part of one, or there is a
    /// region of that name at that place already.
    pub fn rename(&mut self, id: RegionId, identity: &Identity, start: u64, end: u64) -> bool {
        let row = &self.rows[id.index()];
        let whole = (row.region.start.raw(), row.region.end.raw(), row.laid) == (start, end, end - start);
        let Some(key) = row.key.clone().filter(|_| whole) else { return false };
        if key.1 == *identity {
            return true;
        }
        let is_taken = self.near(key.0, identity, start, end).is_some();
        // A name that goes leaves the row with what was counted under it.
        let is_plain = identity.name.len() < key.1.name.len() && key.1.name.starts_with(&*identity.name);
        if is_taken || is_plain {
            return false;
        }
        self.known.remove(&key);
        let region = self.get_mut(id);
        (region.name, region.kind) = (Arc::clone(&identity.name), identity.kind);
        self.know(id, (key.0, identity.clone(), key.2));
        true
    }

    /// The region of this identity that `start..end` touches or overlaps.
    fn near(&self, program: ProgramId, identity: &Identity, start: u64, end: u64) -> Option<(Key, RegionId)> {
        let from = (program, identity.clone(), 0);
        let to = (program, identity.clone(), end);
        let near = self.known.range(from..=to).next_back().map(|(key, &id)| (key.clone(), id));
        near.filter(|&(_, id)| self.get(id).end.raw() >= start && self.get(id).start.raw() <= end)
    }

    fn know(&mut self, id: RegionId, key: Key) {
        self.rows[id.index()].key = Some(key.clone());
        self.known.insert(key, id);
    }

    /// A part of a region now lies on `start..end`: it moves there, or grows to hold it where the two touch.
    pub fn moved(&mut self, id: RegionId, start: u64, end: u64) {
        let region = self.get_mut(id);
        let (old_start, old_end) = (region.start.raw(), region.end.raw());
        if start <= old_end && old_start <= end {
            region.start = VirtAddr::new(old_start.min(start));
            region.end = VirtAddr::new(old_end.max(end));
        } else {
            region.start = VirtAddr::new(start);
            region.end = VirtAddr::new(end);
        }
    }

    /// `bytes` more of an address space lie in a region.
    pub fn lay(&mut self, id: RegionId, bytes: u64) {
        let row = &mut self.rows[id.index()];
        self.gone -= usize::from(row.laid == 0 && row.key.is_some() && bytes > 0);
        row.laid += bytes;
    }

    /// `bytes` fewer do.
    pub fn lift(&mut self, id: RegionId, bytes: u64) {
        let row = &mut self.rows[id.index()];
        row.laid -= bytes;
        self.gone += usize::from(row.laid == 0 && row.key.is_some() && bytes > 0);
    }

    /// Whether more regions are unmapped than are kept apart, so that they should be folded.
    #[inline]
    pub fn are_many_gone(&self) -> bool {
        self.gone > GONE_MAX
    }

    /// Folds the unmapped regions but for the largest. `is_free` says of one whether no page of it is left.
    pub fn fold(&mut self, is_free: impl Fn(RegionId) -> bool) -> Vec<Fold> {
        let is_gone = |row: &&Row| row.laid == 0 && row.key.is_some() && !row.is_vacant;
        let size = |region: &Region| region.end.raw() - region.start.raw();
        let mut gone: Vec<&Region> = self.rows.iter().filter(is_gone).map(|row| &row.region).collect();
        gone.sort_unstable_by_key(|region| (std::cmp::Reverse(size(region)), region.number));
        let mut small: Vec<(u64, RegionId)> = gone.iter().skip(KEPT).map(|r| (r.number, r.id)).collect();
        // In the order of their numbers, so that the rows they go to are numbered in that order.
        small.sort_unstable();
        let small = small.into_iter().map(|(_, id)| id).filter(|&id| is_free(id)).collect::<Vec<_>>();
        small.into_iter().map(|from| Fold { from, into: self.fold_one(from) }).collect()
    }

    fn fold_one(&mut self, from: RegionId) -> RegionId {
        let row = &mut self.rows[from.index()];
        row.is_vacant = true;
        if let Some(key) = row.key.take().filter(|key| self.known.get(key) == Some(&from)) {
            self.known.remove(&key);
        }
        self.gone -= 1;
        let (program, kind, prot, pid) = (row.program, row.region.kind, row.region.prot, row.region.pid);
        let is_kernel = row.region.is_kernel;
        let (mapped, zero) = (std::mem::take(&mut row.region.mapped), std::mem::take(&mut row.region.mapped_zero));
        let key = (program, kind, Prot3(prot.bits()), is_kernel);
        let into = match self.folds.get(&key) {
            Some(&into) => into,
            None => {
                let into =
                    self.push(program, pid, kind, format!("unmapped {} {}", kind.word(), Rights(prot)).into(), prot);
                self.folds.insert(key, into);
                into
            }
        };
        let sum = self.get_mut(into);
        sum.folded += 1;
        sum.is_kernel = is_kernel;
        sum.mapped.absorb(&mapped);
        sum.mapped_zero.absorb(&zero);
        self.vacant.push(from);
        into
    }
}
