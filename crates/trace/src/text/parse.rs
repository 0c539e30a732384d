use crate::{Advice, Backing, Batch, Event, MapFlags, Ref, Source, TraceError, TraceErrorKind, TraceInfo};
use mmulab_addr::{PageOrder, Pid, Prot, Tid, VirtAddr, parse_bytes};
use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    str::FromStr,
    sync::Arc,
};

/// Longest line taken: a path of PATH_MAX bytes, every one escaped, and room for the rest.
const LINE_MAX: usize = 16 * 1024;

/// Reads the text form.
pub struct TextReader<R> {
    input: R,
    info: TraceInfo,
    line: Vec<u8>,
    number: u64,
    ended: bool,
    /// Bytes read, of so many.
    read: u64,
    bytes: Option<u64>,
}

/// What is wrong in a line: the column of the word, and what to do.
struct Wrong(usize, String);

impl TextReader<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|e| TraceError::io(path, e))?;
        let bytes = file.metadata().ok().map(|m| m.len());
        Ok(Self { bytes, ..Self::new(BufReader::new(file), path.display().to_string()) })
    }
}

impl<R: BufRead + Send> TextReader<R> {
    /// Reads `input`, called `name` in errors.
    pub fn new(input: R, name: String) -> Self {
        let info = TraceInfo { name, format: "text".into(), has_address_space: true, ..TraceInfo::default() };
        Self { input, info, line: Vec::new(), number: 0, ended: false, read: 0, bytes: None }
    }

    /// The next line; false at the end.
    fn advance(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        let mut limited = std::io::Read::take(&mut self.input, LINE_MAX as u64 + 1);
        let n = limited.read_until(b'\n', &mut self.line).map_err(|e| self.error(0, TraceErrorKind::Io(e)))?;
        self.number += 1;
        self.read += n as u64;
        if n > LINE_MAX {
            return Err(self.error(1, TraceErrorKind::Syntax(format!("the line is longer than {LINE_MAX} bytes"))));
        }
        Ok(n != 0)
    }

    fn error(&self, column: usize, kind: TraceErrorKind) -> TraceError {
        TraceError::new(self.info.name.clone(), format!("line {}, column {column}", self.number), kind)
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        while !batch.is_full() {
            if !self.advance()? {
                self.ended = true;
                return Ok(());
            }
            let text = str::from_utf8(&self.line)
                .map_err(|e| self.error(e.valid_up_to() + 1, TraceErrorKind::Foreign("this is no text".into())))?;
            if let Err(Wrong(column, message)) = take_line(text, batch) {
                return Err(self.error(column, TraceErrorKind::Syntax(message)));
            }
        }
        Ok(())
    }
}

impl<R: BufRead + Send> Source for TextReader<R> {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        if self.ended {
            return Ok(false);
        }
        self.fill(batch).inspect_err(|_| self.ended = true)?;
        Ok(!self.ended || !batch.refs.is_empty())
    }

    fn progress(&self) -> Option<f64> {
        self.bytes.map(|all| self.read as f64 / all.max(1) as f64)
    }
}

/// The words of a line, each with its column.
struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        let rest = &self.line[self.at..];
        let start = self.at + rest.find(|c: char| !c.is_whitespace())?;
        let word = &self.line[start..];
        let word = &word[..word.find(char::is_whitespace).unwrap_or(word.len())];
        self.at = start + word.len();
        Some((start + 1, word))
    }

    fn need(&mut self, what: &str) -> Result<(usize, &'a str), Wrong> {
        let column = self.at + 1;
        self.next().ok_or_else(|| Wrong(column, format!("{what} is missing")))
    }

    fn address(&mut self) -> Result<VirtAddr, Wrong> {
        let (column, word) = self.need("an address")?;
        let raw = match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => word.parse().ok(),
        };
        let raw =
            raw.ok_or_else(|| Wrong(column, format!("'{word}' is no address: write 0x and hexadecimal digits")))?;
        let va = VirtAddr::new(raw);
        if va.raw() != raw {
            return Err(Wrong(column, format!("'{word}' is not a canonical address of 57 bits")));
        }
        Ok(va)
    }

    fn length(&mut self) -> Result<u64, Wrong> {
        let (column, word) = self.need("a length")?;
        parse_bytes(word)
            .filter(|&b| b <= 1 << 57)
            .ok_or_else(|| Wrong(column, format!("'{word}' is no length: write bytes, or a number with K, M, G or T")))
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Wrong> {
        let (column, word) = self.need(what)?;
        word.parse().map_err(|_| Wrong(column, format!("'{word}' is not {what}")))
    }

    fn rights(&mut self) -> Result<Prot, Wrong> {
        let (column, word) = self.need("rights")?;
        let mut prot = Prot::NONE;
        for c in word.chars() {
            prot = prot.with(match c {
                'r' => Prot::R,
                'w' => Prot::W,
                'x' => Prot::X,
                '-' => Prot::NONE,
                _ => return Err(Wrong(column, format!("'{word}' are no rights: write letters of rwx, or -"))),
            });
        }
        Ok(prot)
    }

    fn text(&mut self, what: &str) -> Result<Arc<str>, Wrong> {
        let (column, word) = self.need(what)?;
        unescaped(word).map(Into::into).ok_or_else(|| Wrong(column, format!("'{word}' has a % without two digits")))
    }

    /// Whether the line ends here, or with this word.
    fn maybe(&mut self, wanted: &str) -> Result<bool, Wrong> {
        match self.next() {
            None => Ok(false),
            Some((_, word)) if word == wanted => Ok(true),
            Some((column, word)) => Err(Wrong(column, format!("'{word}' is not expected here; {wanted} could be"))),
        }
    }

    fn end(&mut self) -> Result<(), Wrong> {
        match self.next() {
            None => Ok(()),
            Some((column, word)) => Err(Wrong(column, format!("'{word}' is one word too many"))),
        }
    }
}

fn unescaped(word: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |b: Option<u8>| (b? as char).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

const WORDS: [&str; 20] = [
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "brk",
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
    "lost",
    "#",
];

fn take_line(line: &str, batch: &mut Batch) -> Result<(), Wrong> {
    let line = line.split('#').next().unwrap_or("");
    let mut words = Words { line, at: 0 };
    let Some((column, verb)) = words.next() else { return Ok(()) };
    let event = match verb {
        "f" => {
            let va = words.address()?;
            let count = match words.next() {
                None => 1,
                Some((column, word)) => word
                    .strip_prefix('x')
                    .and_then(|n| n.parse::<u32>().ok())
                    .ok_or_else(|| Wrong(column, format!("'{word}' is no count: write x and a number")))?,
            };
            batch.push_block(va, 1, count);
            return words.end();
        }
        "r" | "w" => {
            batch.push_data(words.address()?, 1, verb == "w");
            return words.end();
        }
        "n" => {
            let count: u64 = words.number("a number of instructions")?;
            if count >= 1 << 57 {
                return Err(Wrong(column, "more instructions than any program retires".into()));
            }
            batch.refs.push(Ref::retire(count));
            return words.end();
        }
        "mmap" => {
            let (addr, len, prot) = (words.address()?, words.length()?, words.rights()?);
            let backing = backing(&mut words)?;
            Event::Mmap { addr, len, prot, flags: flags(&mut words)?, backing }
        }
        "munmap" => Event::Munmap { addr: words.address()?, len: words.length()? },
        "mprotect" => Event::Mprotect { addr: words.address()?, len: words.length()?, prot: words.rights()? },
        "mremap" => {
            let (old, old_len, new, new_len) = (words.address()?, words.length()?, words.address()?, words.length()?);
            Event::Mremap { old, old_len, new, new_len, keep_old: words.maybe("keep")? }
        }
        "madvise" => Event::Madvise { addr: words.address()?, len: words.length()?, advice: advice(&mut words)? },
        "brk" => Event::Brk { start: words.address()?, end: words.address()? },
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
                    word.parse().map_err(|_| Wrong(column, format!("'{word}' is no exit status")))?
                }
            },
        },
        "exit-thread" => Event::ExitThread,
        "invlpg" => Event::Invlpg { addr: words.address()? },
        "tick" => Event::Tick,
        "lost" => Event::Lost { what: words.text("what was lost")? },
        other => {
            let near = WORDS.iter().map(|w| (strsim::damerau_levenshtein(other, w), w)).min();
            let hint = near.filter(|(d, w)| *d <= 2 && w.len() > 1).map(|(_, w)| format!("; did you mean '{w}'?"));
            return Err(Wrong(column, format!("'{other}' is no event{}", hint.unwrap_or_default())));
        }
    };
    words.end()?;
    batch.push_event(event);
    Ok(())
}

fn backing(words: &mut Words<'_>) -> Result<Backing, Wrong> {
    let (column, word) = words.need("anon or file:PATH+OFFSET")?;
    if word == "anon" {
        return Ok(Backing::Anon);
    }
    let wrong = || Wrong(column, format!("'{word}' is no backing: write anon or file:PATH+OFFSET"));
    let file = word.strip_prefix("file:").ok_or_else(wrong)?;
    let (path, offset) = file.rsplit_once('+').unwrap_or((file, "0"));
    let path = unescaped(path).filter(|p| !p.is_empty()).ok_or_else(wrong)?;
    Ok(Backing::File { path: path.into(), offset: parse_bytes(offset).ok_or_else(wrong)? })
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
            _ => return Err(wrong("is no flag: shared, growsdown, populate, global, hugetlb=SIZE, label=TEXT are")),
        }
    }
    Ok(flags)
}

fn advice(words: &mut Words<'_>) -> Result<Advice, Wrong> {
    let (column, word) = words.need("advice")?;
    Ok(match word {
        "hugepage" => Advice::Hugepage,
        "nohugepage" => Advice::Nohugepage,
        "collapse" => Advice::Collapse,
        "dontneed" => Advice::Dontneed,
        "free" => Advice::Free,
        "willneed" => Advice::Willneed,
        other => Advice::Other(other.parse().map_err(|_| {
            let known = "hugepage, nohugepage, collapse, dontneed, free, willneed, or madvise's number";
            Wrong(column, format!("'{other}' is no advice; known: {known}"))
        })?),
    })
}
