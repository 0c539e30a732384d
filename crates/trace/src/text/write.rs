//! Text trace writer: description, references and events as lines that `TextReader` reads back. People can read and
//! edit a trace in this form.

use super::{read::DESCRIBES, warps::Acting};
use crate::{Advice, Backing, Batch, Body, Description, Event, ImageSegment, Item, MALLOC_ALIGN, MapFlags};
use mmulab_addr::{Access, Prot};
use std::{fmt::Write as _, io};

/// The line that [`super::TextReader`] reads as this event.
pub fn line_of_event(event: &Event) -> String {
    match event {
        Event::Switch { pid, tid } => format!("p {pid}.{tid}"),
        Event::Mmap { addr, len, prot, flags, backing } => {
            let mut line = format!("mmap {addr} {len:#x} {} ", rights(*prot));
            match backing {
                Backing::Anon => line.push_str("anon"),
                Backing::File { path, offset } => {
                    let _ = write!(line, "file:{}+{offset:#x}", escaped(path));
                }
            }
            push_flags(&mut line, flags);
            line
        }
        Event::Image { path, segments } => {
            let mut line = format!("image {}", escaped(path));
            for s in segments {
                let ImageSegment { address, bytes, offset, file_bytes, align, .. } = s;
                let _ =
                    write!(line, " {}:{address:#x}+{bytes:#x}:{offset:#x}+{file_bytes:#x}:{align:#x}", rights(s.prot));
            }
            line
        }
        Event::Munmap { addr, len } => format!("munmap {addr} {len:#x}"),
        Event::Mprotect { addr, len, prot } => format!("mprotect {addr} {len:#x} {}", rights(*prot)),
        Event::Mremap { old, old_len, new, new_len, keep_old } => {
            format!("mremap {old} {old_len:#x} {new} {new_len:#x}{}", if *keep_old { " keep" } else { "" })
        }
        Event::Madvise { addr, len, advice } => format!("madvise {addr} {len:#x} {}", advice_word(*advice)),
        Event::Brk { start, end } => format!("brk {start} {end}"),
        Event::Malloc { addr, len, align: MALLOC_ALIGN } => format!("malloc {addr} {len:#x}"),
        Event::Malloc { addr, len, align } => format!("malloc {addr} {len:#x} align={align:#x}"),
        Event::Free { addr } => format!("free {addr}"),
        Event::Name { addr, len, name } if name.is_empty() => format!("name {addr} {len:#x}"),
        Event::Name { addr, len, name } => format!("name {addr} {len:#x} {}", escaped(name)),
        Event::Frames { addr, pfn, size, count } => {
            format!(
                "frames {addr} {} {size}{}",
                pfn.addr(),
                if *count == 1 { String::new() } else { format!(" x{count}") }
            )
        }
        Event::Fork { child, shares_memory } => format!("fork {child}{}", if *shares_memory { " vm" } else { "" }),
        Event::Clone { child } => format!("clone {child}"),
        Event::Exec { path } => format!("exec {}", escaped(path)),
        Event::Prctl { daemon } => format!("prctl daemon={}", if *daemon { "on" } else { "off" }),
        Event::Pin { tid, cpu } => format!("pin {tid} {cpu}"),
        Event::ExitThread => "exit-thread".into(),
        Event::Exit { status } => format!("exit {status}"),
        Event::Invlpg { addr } => format!("invlpg {addr}"),
        Event::Tick => "tick".into(),
        Event::Resume => "resume".into(),
        Event::Pause => "pause".into(),
        Event::Continue { left_out } => format!("continue {left_out}"),
        Event::Lost { what } => format!("lost {}", escaped(what)),
    }
}

fn advice_word(advice: Advice) -> String {
    match advice {
        Advice::Hugepage => "hugepage".into(),
        Advice::Nohugepage => "nohugepage".into(),
        Advice::Collapse => "collapse".into(),
        Advice::Dontneed => "dontneed".into(),
        Advice::Free => "free".into(),
        Advice::Willneed => "willneed".into(),
        Advice::PageSize(size) => format!("page-size={size}"),
        Advice::Other(n) => n.to_string(),
    }
}

/// Blanks, `%` and `#` would end a word or a line: they are written as `%XX`, as in URLs.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'%' | b'#' | 0x7f.. | 0..=b' ' => {
                let _ = write!(out, "%{byte:02x}");
            }
            _ => out.push(byte as char),
        }
    }
    out
}

fn rights(prot: Prot) -> String {
    let all: String = [(Prot::R, 'r'), (Prot::W, 'w'), (Prot::X, 'x')]
        .into_iter()
        .filter(|(right, _)| prot.has(*right))
        .map(|(_, letter)| letter)
        .collect();
    if all.is_empty() { "-".into() } else { all }
}

fn push_flags(line: &mut String, flags: &MapFlags) {
    let words = [
        (flags.shared, " shared"),
        (flags.grows_down, " growsdown"),
        (flags.populate, " populate"),
        (flags.global, " global"),
    ];
    words.iter().filter(|(on, _)| *on).for_each(|(_, word)| line.push_str(word));
    if let Some(order) = flags.hugetlb {
        let _ = write!(line, " hugetlb={order}");
    }
    if let Some(label) = &flags.label {
        let _ = write!(line, " label={}", escaped(label));
    }
}

/// Writes the lines that describe a trace; they come first in it.
///
/// # Errors
/// Those of `out`.
pub fn write_description(description: &Description, out: &mut impl io::Write) -> io::Result<()> {
    let Description { program, args, isa, has_address_space, has_heap, misses_of, warps, skipped, .. } = description;
    if !program.is_empty() {
        writeln!(out, "{DESCRIBES} program {}", escaped(program))?;
    }
    for arg in args.iter().filter(|arg| !arg.is_empty()) {
        writeln!(out, "{DESCRIBES} arg {}", escaped(arg))?;
    }
    writeln!(out, "{DESCRIBES} isa {isa}")?;
    if !has_address_space {
        writeln!(out, "{DESCRIBES} mappings untold")?;
    }
    if *has_heap {
        writeln!(out, "{DESCRIBES} heap told")?;
    }
    if let Some(of) = misses_of {
        writeln!(out, "{DESCRIBES} misses {}", escaped(of))?;
    }
    if let Some(warps) = warps {
        writeln!(out, "{DESCRIBES} warps {warps}")?;
    }
    if let Some(skipped) = skipped {
        writeln!(out, "{DESCRIBES} skipped {skipped}")?;
    }
    Ok(())
}

/// Writes a batch as text, a line per reference or event.
///
/// # Errors
/// Those of `out`.
pub fn write_batch(batch: &Batch, out: &mut impl io::Write) -> io::Result<()> {
    batch.refs.iter().try_for_each(|word| write_item(word.item(), batch, out))
}

fn write_item(item: Item, batch: &Batch, out: &mut impl io::Write) -> io::Result<()> {
    match item {
        Item::Access(Access::Fetch, va, 1) => writeln!(out, "f {va}"),
        Item::Access(Access::Fetch, va, n) => writeln!(out, "f {va} x{n}"),
        Item::Access(Access::Read, va, _) => writeln!(out, "r {va}"),
        Item::Access(Access::Write, va, _) => writeln!(out, "w {va}"),
        Item::Retire(n) => writeln!(out, "n {n}"),
        Item::Event(index) => writeln!(out, "{}", line_of_event(&batch.events[index])),
        // Where nothing is known of the code, the fetch says all there is.
        Item::Code(index) if batch.code[index].body == Body::Unknown => Ok(()),
        Item::Code(index) => writeln!(out, "{}", super::code::line(&batch.code[index])),
    }
}

/// Writes a whole trace as text; of a trace of warps, a line for each of their instructions.
pub struct TextWriter<W> {
    out: W,
    acting: Acting,
}

impl<W: io::Write> TextWriter<W> {
    /// Begins with the lines that describe the trace.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W, description: &Description) -> io::Result<Self> {
        write_description(description, &mut out)?;
        Ok(Self { out, acting: Acting::new(description.warps) })
    }

    /// Appends all of a batch.
    ///
    /// # Errors
    /// The writer's.
    pub fn push_batch(&mut self, batch: &Batch) -> io::Result<()> {
        let mut at = 0;
        while at < batch.refs.len() {
            if let Some((line, words)) = self.acting.line(batch, at) {
                writeln!(self.out, "{line}")?;
                at += words;
                continue;
            }
            let item = batch.refs[at].item();
            if let Item::Event(index) = item {
                self.acting.follow(&batch.events[index]);
            }
            write_item(item, batch, &mut self.out)?;
            at += 1;
        }
        Ok(())
    }

    /// Writes out what is left; the writer.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
