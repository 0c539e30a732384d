//! Parser of text-trace lines: one line becomes references, an instruction count, code or an event. People write these
//! lines by hand, so an error names the column, the expected form and, for a misspelled word, the likely one.

use super::{
    warps::Acting,
    words::{Words, Wrong, letters, unescaped},
};
use crate::{Advice, Backing, Batch, Event, ImageSegment, MALLOC_ALIGN, MapFlags, Ref};
use mmulab_addr::{PageOrder, PhysAddr, Pid, Tid, parse_bytes};

/// Every word that begins an event.
const WORDS: [&str; 31] = [
    "code",
    "warp",
    "pin",
    "prctl",
    "image",
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "brk",
    "malloc",
    "free",
    "frames",
    "name",
    "f",
    "r",
    "w",
    "n",
    "p",
    "fork",
    "clone",
    "exec",
    "exit",
    "exit-thread",
    "invlpg",
    "tick",
    "resume",
    "pause",
    "continue",
    "lost",
];

/// Whether the first word of `line` begins an event; `None` when it has no word.
pub(crate) fn begins_an_event(line: &[u8]) -> Option<bool> {
    let word = line.split(|b| b.is_ascii_whitespace() || *b == b'#').find(|w| !w.is_empty());
    let comment = line.iter().find(|b| !b.is_ascii_whitespace()).is_none_or(|&b| b == b'#');
    word.filter(|_| !comment).map(|word| WORDS.iter().any(|w| w.as_bytes() == word))
}

/// Appends the items of `line`.
pub(super) fn take_line(line: &str, acting: &mut Acting, batch: &mut Batch) -> Result<(), Wrong> {
    let line = line.split('#').next().unwrap_or("");
    let mut words = Words::new(line);
    let Some((column, verb)) = words.next() else { return Ok(()) };
    let event = match verb {
        "f" => {
            let va = words.address()?;
            let count = match words.next() {
                None => 1,
                Some((column, word)) => word
                    .strip_prefix('x')
                    .and_then(|n| n.parse::<u32>().ok())
                    .ok_or_else(|| Wrong(column, format!("'{word}' is not a count: write x and a number")))?,
            };
            batch.push_block(va, 1, count);
            return words.end();
        }
        "r" | "w" => {
            batch.push_data(words.address()?, 1, verb == "w");
            return words.end();
        }
        "code" => {
            let code = super::code::take(&mut words)?;
            batch.push_code(&std::sync::Arc::new(code));
            return Ok(());
        }
        "n" => {
            let count: u64 = words.number("a number of instructions")?;
            acting.retire(count).map_err(|what| Wrong(column, what))?;
            batch.refs.push(Ref::retire(count));
            return words.end();
        }
        "warp" => return acting.take(&mut words, batch),
        "mmap" => {
            let (addr, len, prot) = (words.address()?, words.length()?, words.rights()?);
            let backing = backing(&mut words)?;
            Event::Mmap { addr, len, prot, flags: flags(&mut words)?, backing }
        }
        "image" => Event::Image { path: words.text("a path")?, segments: segments(&mut words)? },
        "munmap" => Event::Munmap { addr: words.address()?, len: words.length()? },
        "mprotect" => Event::Mprotect { addr: words.address()?, len: words.length()?, prot: words.rights()? },
        "mremap" => {
            let (old, old_len, new, new_len) = (words.address()?, words.length()?, words.address()?, words.length()?);
            Event::Mremap { old, old_len, new, new_len, keep_old: words.maybe("keep")? }
        }
        "madvise" => Event::Madvise { addr: words.address()?, len: words.length()?, advice: advice(&mut words)? },
        "brk" => Event::Brk { start: words.address()?, end: words.address()? },
        "malloc" => Event::Malloc { addr: words.address()?, len: words.length()?, align: alignment(&mut words)? },
        "free" => Event::Free { addr: words.address()? },
        "frames" => frames(&mut words)?,
        "name" => Event::Name { addr: words.address()?, len: words.length()?, name: words.rest_of_name()? },
        "p" => {
            let (column, word) = words.need("PID.TID")?;
            let (pid, tid) = word.split_once('.').unwrap_or((word, word));
            match (pid.parse(), tid.parse()) {
                (Ok(pid), Ok(tid)) => Event::Switch { pid: Pid(pid), tid: Tid(tid) },
                _ => return Err(Wrong(column, format!("'{word}' names no thread: write PID.TID in numbers"))),
            }
        }
        "fork" => Event::Fork { child: Pid(words.number("a process number")?), shares_memory: words.maybe("vm")? },
        "clone" => Event::Clone { child: Tid(words.number("a thread number")?) },
        "exec" => Event::Exec { path: words.text("a path")? },
        "exit" => Event::Exit {
            status: match words.next() {
                None => 0,
                Some((column, word)) => {
                    word.parse().map_err(|_| Wrong(column, format!("'{word}' is not an exit status")))?
                }
            },
        },
        "prctl" => Event::Prctl { daemon: switch(&mut words)? },
        "pin" => Event::Pin { tid: Tid(words.number("a thread number")?), cpu: words.number("a processor number")? },
        "exit-thread" => Event::ExitThread,
        "invlpg" => Event::Invlpg { addr: words.address()? },
        "tick" => Event::Tick,
        "resume" => Event::Resume,
        "pause" => Event::Pause,
        "continue" => Event::Continue { left_out: words.number("a number of instructions")? },
        "lost" => Event::Lost { what: words.text("what was lost")? },
        other => {
            let near = WORDS.iter().map(|w| (strsim::damerau_levenshtein(other, w), w)).min();
            let hint = near.filter(|(d, w)| *d <= 2 && w.len() > 1).map(|(_, w)| format!("; did you mean '{w}'?"));
            return Err(Wrong(column, format!("'{other}' is not an event{}", hint.unwrap_or_default())));
        }
    };
    words.end()?;
    acting.follow(&event);
    batch.push_event(event);
    Ok(())
}

/// Where pages lie: `ADDRESS FRAME SIZE [xCOUNT]`.
fn frames(words: &mut Words<'_>) -> Result<Event, Wrong> {
    let (addr, frame) = (words.address()?, words.address()?);
    let (column, word) = words.need("a page size")?;
    let size = parse_bytes(word)
        .and_then(PageOrder::of_bytes)
        .ok_or_else(|| Wrong(column, format!("'{word}' is not a page size: write 4K, 2M or 1G")))?;
    let count = match words.next() {
        None => 1,
        Some((column, word)) => word
            .strip_prefix('x')
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| Wrong(column, format!("'{word}' is not a number of pages: write xCOUNT")))?,
    };
    Ok(Event::Frames { addr, pfn: PhysAddr(frame.raw()).pfn(), size, count })
}

fn backing(words: &mut Words<'_>) -> Result<Backing, Wrong> {
    let (column, word) = words.need("anon or file:PATH+OFFSET")?;
    if word == "anon" {
        return Ok(Backing::Anon);
    }
    let wrong = || Wrong(column, format!("'{word}' is not a backing: write anon or file:PATH+OFFSET"));
    let file = word.strip_prefix("file:").ok_or_else(wrong)?;
    let (path, offset) = file.rsplit_once('+').unwrap_or((file, "0"));
    let path = unescaped(path).filter(|p| !p.is_empty()).ok_or_else(wrong)?;
    Ok(Backing::File { path: path.into(), offset: parse_bytes(offset).ok_or_else(wrong)? })
}

/// The segments of an ELF file: `RIGHTS:ADDRESS+BYTES:OFFSET+FILE_BYTES:ALIGN` each.
fn segments(words: &mut Words<'_>) -> Result<Vec<ImageSegment>, Wrong> {
    let mut segments = Vec::new();
    while let Some((column, word)) = words.next() {
        let segment = segment(word);
        segments.push(segment.ok_or_else(|| {
            let shape = "write RIGHTS:ADDRESS+BYTES:OFFSET+FILE_BYTES:ALIGN, as rx:0x1000+0x234:0x1000+0x234:4K";
            Wrong(column, format!("'{word}' is not a segment: {shape}"))
        })?);
    }
    Ok(segments)
}

fn segment(word: &str) -> Option<ImageSegment> {
    let mut fields = word.split(':');
    let prot = letters(fields.next()?)?;
    let pair = |field: &str| field.split_once('+').and_then(|(at, n)| Some((parse_bytes(at)?, parse_bytes(n)?)));
    let ((address, bytes), (offset, file_bytes)) = (pair(fields.next()?)?, pair(fields.next()?)?);
    let align = parse_bytes(fields.next()?)?;
    fields.next().is_none().then_some(ImageSegment { address, bytes, offset, file_bytes, prot, align })
}

fn alignment(words: &mut Words<'_>) -> Result<u64, Wrong> {
    let Some((column, word)) = words.next() else { return Ok(MALLOC_ALIGN) };
    let bytes = word.strip_prefix("align=").and_then(parse_bytes).filter(|bytes| bytes.is_power_of_two());
    bytes.ok_or_else(|| Wrong(column, format!("'{word}' is not an alignment: write align= and a power of two")))
}

fn flags(words: &mut Words<'_>) -> Result<MapFlags, Wrong> {
    let mut flags = MapFlags::default();
    while let Some((column, word)) = words.next() {
        let wrong = |what: &str| Wrong(column, format!("'{word}' {what}"));
        match word.split_once('=').unwrap_or((word, "")) {
            ("shared", "") => flags.shared = true,
            ("growsdown", "") => flags.grows_down = true,
            ("populate", "") => flags.populate = true,
            ("global", "") => flags.global = true,
            ("hugetlb", size) => {
                let order: PageOrder = size.parse().map_err(|_| wrong("names no page size: write hugetlb=2M"))?;
                flags.hugetlb = Some(order);
            }
            ("label", label) => {
                let label = unescaped(label).ok_or_else(|| wrong("has a % without two digits"))?;
                flags.label = Some(label.into());
            }
            _ => {
                return Err(wrong(
                    "is not a flag: give shared, growsdown, populate, global, hugetlb=SIZE or label=TEXT",
                ));
            }
        }
    }
    Ok(flags)
}

/// `daemon=on` or `daemon=off`.
fn switch(words: &mut Words<'_>) -> Result<bool, Wrong> {
    match words.need("daemon=on or daemon=off")? {
        (_, "daemon=on") => Ok(true),
        (_, "daemon=off") => Ok(false),
        (column, word) => {
            Err(Wrong(column, format!("'{word}' turns nothing on or off: write daemon=on or daemon=off")))
        }
    }
}

fn advice(words: &mut Words<'_>) -> Result<Advice, Wrong> {
    let (column, word) = words.need("advice")?;
    if let Some(size) = word.strip_prefix("page-size=") {
        let size = size.parse().map_err(|_| Wrong(column, format!("'{word}' names no page size: write page-size=64K")));
        return size.map(Advice::PageSize);
    }
    Ok(match word {
        "hugepage" => Advice::Hugepage,
        "nohugepage" => Advice::Nohugepage,
        "collapse" => Advice::Collapse,
        "dontneed" => Advice::Dontneed,
        "free" => Advice::Free,
        "willneed" => Advice::Willneed,
        other => Advice::Other(other.parse().map_err(|_| {
            let known = "hugepage, nohugepage, collapse, dontneed, free, willneed, page-size=SIZE, or madvise's number";
            Wrong(column, format!("'{other}' is not an advice; known: {known}"))
        })?),
    })
}
