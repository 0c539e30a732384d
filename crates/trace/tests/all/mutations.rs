//! Thousands of damaged traces of every format, always the same ones: none makes a reader panic, run away or take
//! memory out of proportion. `fuzz/` looks for more; what its targets do is done here with some of the inputs.

#[path = "../../../../fuzz/src/lib.rs"]
mod fuzz;

use mmulab_addr::{Pid, Tid, VirtAddr};
use mmulab_trace::{
    AccelSimReader, Batch, ChampSimReader, Description, DrmemtraceReader, EndInfo, Event, Item, LackeyReader,
    NativeReader, NativeWriter, Ref, Source, Span, TextReader, WarpShape, open_file, sealed_chunk, slice, summarize,
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    io::Cursor,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Counts the memory in use, and the most there was.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static MEMORY: Counting = Counting;

/// The most memory that reading a damaged trace of a few kilobytes may take. A chunk's streams may have 48 MiB.
const MEMORY_MAX: usize = 256 << 20;
/// Batches read of one trace: a few bytes may stand for millions of references.
const BATCHES: usize = 200;

/// PCG's multiplier; the low bits are left out.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }

    /// Damages `bytes` in one to four ways.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let end = (at + 1 + self.below(64)).min(bytes.len());
            match self.below(8) {
                _ if bytes.is_empty() => bytes.push(self.below(256) as u8),
                0 => bytes.truncate(at),
                1 | 2 => bytes[at] ^= 1 << self.below(8),
                3 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'\n', b' ', b'9'][self.below(8)],
                4 => drop(bytes.drain(at..end)),
                5 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
                6 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    let over = (to + piece.len()).min(bytes.len());
                    bytes.splice(to..over, piece);
                }
                _ => {
                    let noise: Vec<u8> = (0..self.below(32)).map(|_| self.below(256) as u8).collect();
                    bytes.splice(at..at, noise);
                }
            }
        }
    }
}

/// Reads what can be read, checking that every word means something.
fn drain(source: impl Source + 'static) {
    drain_all(Box::new(source))
}

fn drain_all(mut source: Box<dyn Source>) {
    let mut batch = Batch::default();
    for _ in 0..BATCHES {
        let more = source.next_batch(&mut batch);
        for word in &batch.refs {
            match word.item() {
                Item::Event(i) => assert!(i < batch.events.len()),
                Item::Access(_, va, _) => assert_eq!(VirtAddr::new(va.raw()), va),
                Item::Retire(_) | Item::Code(_) => {}
            }
        }
        if !matches!(more, Ok(true)) {
            let _ = source.next_batch(&mut batch);
            return;
        }
    }
}

fn native(bytes: &[u8]) {
    let open = || NativeReader::new(Cursor::new(bytes.to_vec()), "t".into());
    if let Ok(reader) = open() {
        drain(reader);
    }
    if let Ok(mut reader) = open() {
        reader.verify(&mut |_| true);
    }
    if let Ok(mut reader) = open() {
        let _ = reader.seek(500);
    }
    if let Ok(reader) = open() {
        drain_all(slice(Box::new(reader), Span { start: 500, end: None }));
    }
}

/// A native trace of a few chunks with two processes, as recorders and converters write it.
fn native_sample() -> Vec<u8> {
    let mut writer = NativeWriter::new(Vec::new(), &Description::default()).unwrap();
    let mut batch = Batch::default();
    for round in 0..200u64 {
        if round == 100 {
            batch.push_event(Event::Fork { child: Pid(2), shares_memory: false });
            batch.push_event(Event::Switch { pid: Pid(2), tid: Tid(2) });
        }
        batch.push_block(VirtAddr::new(0x40_0ff0 + round % 5 * 64), 32, 7 + (round % 3) as u32 * 20);
        (0..round % 4).for_each(|i| batch.push_data(VirtAddr::new(0x7000_0ffc + round * 24 + i), 8, i == 1));
        batch.refs.push(Ref::retire(round));
    }
    batch.push_event(Event::Exit { status: 1 });
    writer.push_batch(&batch).unwrap();
    writer.finish(EndInfo::default()).unwrap()
}

const TEXT: &str = "#: program /bin/x\n#: isa aarch64\nmmap 0x400000 2M rx file:/bin/x+0x1000\n\
    mmap 0x7f0000000000 8M rw anon populate hugetlb=2M label=[x]\nbrk 0x600000 0x800000\nf 0x400100 x5\nw 0x600010\n\
    r 0x7f0000001000\nn 100\nmadvise 0x7f0000000000 64K hugepage\n\
    madvise 0x7f0000000000 32M page-size=2M\nmremap 0x1000 4K 0x2000 8K keep\nmunmap 0x2000 8K\n\
    mprotect 0x600000 4K r\nfork 7\np 7.8\nclone 9\nexec /bin/y%20z\nexit 3\nexit-thread\ninvlpg 0x1000\ntick\n\
    lost x\n";

const WARPS: &str = "#: warps 4\nwarp 1.3 0x400100 x40 r 0xff 0x7f0000000000+4\nwarp 0.2 0x400100 w 0x5 0x1000,0x2000\n\
    warp 0.2 0x400100 r 0xffffffffffffffff 0x7f0000000000-64\np 2.1\nwarp 0.0 0x8 x2 w 0x1 0x3000\n";

const KERNEL: &str = include_str!("../../../../tests/data/accel-sim/kernel-1.traceg");

const LACKEY: &str = "==7== Lackey, an example Valgrind tool\n==7== Command: /bin/ls /\n==7== \nI  0401ab70,3\n\
    I  0401afff,5\n S 1fff000678,8\n L 1fff000678,16\n M 04033ffc,8\n==7== Exit code:       0\n";

const VIEW: &str = "Output format:\n<--record#-> <--instr#->: <---tid---> <record details>\n-----\n\
    1 0: 2765542 <marker: filetype 0xe08>\n8 1: 2765542 ifetch       5 byte(s) @ 0x0000000000404a7e 48  mov\n\
    9 1: 2765542 read         8 byte(s) @ 0x00007fdf64e2affc by PC 0x0000000000404a7e\n\
    14 3: W1.T7 ifetch       1 byte(s) @ 0x0000000000404a85 c3 ret (target 0x1)\n16 3: W1.T7 <thread 7 exited>\n\
    View tool results:\n 3 : total instructions\n";

fn champsim_sample() -> Vec<u8> {
    let record = |i: u64| {
        let mut out = (0x40_1000 + i * 3).to_le_bytes().to_vec();
        out.extend([1, (i % 2) as u8, 6, 25, 6, 26, 0, 0]);
        [i * 64, 0, 0x7fff_0000 + i, 0, i % 3, 0].iter().for_each(|a: &u64| out.extend(a.to_le_bytes()));
        out
    };
    (0..40).flat_map(record).collect()
}

/// The streams of a chunk: what the encoder would write for a few executions.
fn streams() -> [Vec<u8>; 6] {
    // Two variants: a block with two accesses, and two accesses alone (dictionary.rs).
    let dictionary = vec![9, 0x80, 0x80, 0x80, 4, 32, 7, 6, 0x27, 8, 6, 7];
    let events = [vec![0, 100, 6], b"\"tick\"".to_vec()].concat();
    let codes = vec![2, 2, 3, 0, 0, 4, 4, 0];
    let forms = vec![6, 13, 0, 1, 2, 3, 4, 12, 11, 5, 0, 0];
    let deltas = (0..80).map(|i: u8| i.wrapping_mul(37)).collect();
    [dictionary, events, codes, vec![1, 0, 0, 2, 0, 0], forms, deltas]
}

/// A format, a trace in it, and what reads it.
type Sample = (&'static str, Vec<u8>, fn(&[u8]));

#[test]
fn damaged_traces_are_survived() {
    let mut random = Random(20_240_601);
    let samples: [Sample; 7] = [
        ("native", native_sample(), native),
        ("text", TEXT.into(), |b| drain(TextReader::new(Cursor::new(b.to_vec()), "t".into()))),
        ("lackey", LACKEY.into(), |b| drain(LackeyReader::new(Cursor::new(b.to_vec()), "t".into()))),
        ("view", VIEW.into(), |b| drain(DrmemtraceReader::new(Cursor::new(b.to_vec()), "t".into()))),
        ("warps", WARPS.into(), |b| drain(TextReader::new(Cursor::new(b.to_vec()), "t".into()))),
        ("accel-sim", KERNEL.into(), |b| {
            let input = Box::new(Cursor::new(b.to_vec()));
            drain(AccelSimReader::new(input, "t".into(), WarpShape { cores: 2, warps: 4 }));
        }),
        ("champsim", champsim_sample(), |b| drain(ChampSimReader::new(Cursor::new(b.to_vec()), "t".into()))),
    ];
    for (name, sample, read) in &samples {
        read(sample);
        for case in 0..6000 {
            let mut bytes = sample.clone();
            random.damage(&mut bytes);
            let before = NOW.load(Ordering::Relaxed);
            MOST.store(before, Ordering::Relaxed);
            read(&bytes);
            let took = MOST.load(Ordering::Relaxed).saturating_sub(before);
            assert!(took < MEMORY_MAX, "{name}, case {case}: {took} bytes");
        }
        // Any cut.
        (0..sample.len().min(600)).for_each(|cut| read(&sample[..cut]));
    }
}

#[test]
fn the_fuzz_targets_survive_samples() {
    // CHANGELOG number 16: under checked arithmetic, without a compiler that fuzzing needs.
    let mut random = Random(16);
    let samples: [Sample; 6] = [
        ("native", native_sample(), fuzz::native),
        ("text", [TEXT, WARPS].concat().into(), fuzz::text),
        ("lackey", LACKEY.into(), fuzz::lackey),
        ("view", VIEW.into(), fuzz::drmemtrace),
        ("accel-sim", KERNEL.into(), fuzz::accelsim),
        ("champsim", champsim_sample(), fuzz::champsim),
    ];
    for (_, sample, target) in &samples {
        target(sample);
        for _ in 0..500 {
            let mut bytes = sample.clone();
            random.damage(&mut bytes);
            target(&bytes);
        }
    }
    let whole = streams();
    for _ in 0..2000 {
        let mut damaged = whole.clone();
        let which = random.below(damaged.len());
        random.damage(&mut damaged[which]);
        fuzz::native_streams(damaged[2].len() as u32, std::array::from_fn(|i| damaged[i].as_slice()));
    }
}

#[test]
fn damaged_streams_under_a_right_checksum_are_survived() {
    let mut random = Random(7);
    let head = Description::default().to_bytes();
    let whole = streams();
    let chunk = sealed_chunk(whole[2].len() as u32, std::array::from_fn(|i| whole[i].as_slice()));
    let mut reader = NativeReader::new(Cursor::new([head.clone(), chunk].concat()), "t".into()).unwrap();
    let mut batch = Batch::default();
    let error = reader.next_batch(&mut batch).unwrap_err().to_string();
    assert!(error.contains("no index") && batch.refs.len() > 10, "undamaged it reads to its end: {error}");
    for case in 0..20_000 {
        let mut damaged = whole.clone();
        for stream in &mut damaged {
            if random.below(3) == 0 {
                random.damage(stream);
            }
        }
        let codes = damaged[2].len() as u32;
        let mut file = head.clone();
        file.extend(sealed_chunk(codes, std::array::from_fn(|i| damaged[i].as_slice())));
        let before = NOW.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        native(&file);
        let took = MOST.load(Ordering::Relaxed).saturating_sub(before);
        assert!(took < MEMORY_MAX, "case {case}: {took} bytes");
    }
}

#[test]
fn damaged_files_are_opened_by_content_or_refused() {
    let mut random = Random(99);
    let dir = std::env::temp_dir().join(format!("mmulab-mutations-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let gzip = |bytes: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packer, bytes).unwrap();
        packer.finish().unwrap()
    };
    let xz = |bytes: &[u8]| {
        let mut packer = liblzma::write::XzEncoder::new(Vec::new(), 1);
        std::io::Write::write_all(&mut packer, bytes).unwrap();
        packer.finish().unwrap()
    };
    let champsim = champsim_sample();
    let samples = [
        native_sample(),
        TEXT.into(),
        LACKEY.into(),
        VIEW.into(),
        KERNEL.into(),
        gzip(&champsim),
        xz(&champsim),
        champsim.clone(),
    ];
    let mut opened = 0;
    for (i, sample) in samples.iter().enumerate() {
        for name in ["a.mmt", "a.mmtx", "a.champsim", "a"] {
            let path = dir.join(name);
            for case in 0..25 {
                let mut bytes = sample.clone();
                if case > 0 {
                    random.damage(&mut bytes);
                }
                std::fs::write(&path, &bytes).unwrap();
                match open_file(&path) {
                    Ok(source) => {
                        opened += 1;
                        drain(Opened(source));
                        let mut beats = 0;
                        summarize(open_file(&path).unwrap().as_mut(), |_| {
                            beats += 1;
                            beats < 3
                        });
                    }
                    Err(error) => {
                        assert!(case > 0, "sample {i} as {name}: {error}");
                        assert!(error.to_string().contains(name), "{error}");
                    }
                }
            }
        }
    }
    assert!(opened > 300, "{opened}");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A boxed source as a source.
struct Opened(Box<dyn Source>);

impl Source for Opened {
    fn info(&self) -> &mmulab_trace::TraceInfo {
        self.0.info()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, mmulab_trace::TraceError> {
        self.0.next_batch(batch)
    }
}
