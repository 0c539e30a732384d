//! Text trace reader: first the `#:` lines that describe the trace, then batches of references and events. An error
//! names the line and column, because people write these traces by hand.

use super::{
    parse::take_line,
    warps::Acting,
    words::{Words, Wrong},
};
use crate::{
    Batch, Isa, Source, TraceError, TraceErrorKind, TraceInfo,
    foreign::unpacking_error,
    lines::{LINE_MAX, Line, Lines},
};
use std::io::BufRead;

/// Beginning of a line that describes the trace.
pub(super) const DESCRIBES: &str = "#:";

/// Reads the text form.
pub struct TextReader<R> {
    lines: Lines<R>,
    info: TraceInfo,
    acting: Acting,
    /// Whether batches say which code runs.
    tells_code: bool,
    ended: bool,
    /// A fault in the description, reported with the first batch.
    wrong: Option<TraceError>,
}

impl<R: BufRead + Send> TextReader<R> {
    /// Reads `input`, called `name` in errors.
    pub fn new(input: R, name: String) -> Self {
        let info = TraceInfo { name, format: "text".into(), has_address_space: true, ..TraceInfo::default() };
        let mut this = Self {
            lines: Lines::new(input),
            info,
            acting: Acting::new(None),
            tells_code: false,
            ended: false,
            wrong: None,
        };
        this.wrong = this.describe().err();
        this.acting = Acting::new(this.info.warps);
        this
    }

    /// Takes the lines that describe the trace, which are the first.
    fn describe(&mut self) -> Result<(), TraceError> {
        let io = |this: &Self, e| unpacking_error(&this.info.name, this.lines.place_in_bytes(), e);
        while self.lines.next_begins_with(DESCRIBES.as_bytes()).map_err(|e| io(self, e))? {
            self.advance()?;
            let line = self.text()?.to_owned();
            let described = describe(&line[DESCRIBES.len()..], &mut self.info);
            described
                .map_err(|Wrong(column, what)| self.error(column + DESCRIBES.len(), TraceErrorKind::Syntax(what)))?;
        }
        Ok(())
    }

    /// Goes to the next line; false at the end.
    fn advance(&mut self) -> Result<bool, TraceError> {
        match self.lines.advance() {
            Ok(Line::End) => Ok(false),
            Ok(Line::TooLong) => {
                Err(self.error(1, TraceErrorKind::Syntax(format!("the line is longer than {LINE_MAX} bytes"))))
            }
            Ok(_) => Ok(true),
            Err(e) => Err(unpacking_error(&self.info.name, self.lines.place_in_bytes(), e)),
        }
    }

    fn text(&self) -> Result<&str, TraceError> {
        str::from_utf8(self.lines.line())
            .map_err(|e| self.error(e.valid_up_to() + 1, TraceErrorKind::Foreign("this is not text".into())))
    }

    fn error(&self, column: usize, kind: TraceErrorKind) -> TraceError {
        TraceError::new(self.info.name.clone(), self.lines.place(column), kind)
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        while !batch.is_full() {
            if !self.advance()? {
                self.ended = true;
                return Ok(());
            }
            // Not `self.text()`: who acts is written to meanwhile.
            let Self { lines, acting, .. } = self;
            let before = batch.refs.len();
            let taken = str::from_utf8(lines.line()).map(|line| take_line(line, acting, batch));
            if !self.tells_code && batch.code.pop().is_some() {
                batch.refs.truncate(before);
            }
            let Ok(taken) = taken else { return self.text().map(drop) };
            if let Err(Wrong(column, message)) = taken {
                return Err(self.error(column, TraceErrorKind::Syntax(message)));
            }
        }
        Ok(())
    }
}

/// Takes in one line of the description.
fn describe(line: &str, info: &mut TraceInfo) -> Result<(), Wrong> {
    let mut words = Words::new(line);
    let (column, key) = words.need("what is described")?;
    match key {
        "program" => info.program = words.text("a program")?.to_string(),
        "arg" => info.args.push(words.text("an argument")?.to_string()),
        "isa" => {
            let (column, word) = words.need("an instruction set")?;
            info.isa = [Isa::X86_64, Isa::Aarch64, Isa::Riscv64]
                .into_iter()
                .find(|isa| isa.to_string() == word)
                .ok_or_else(|| Wrong(column, format!("'{word}' is none of x86-64, aarch64, riscv64")))?;
        }
        "warps" => {
            let (column, word) = words.need("how many warps a core has")?;
            let warps = word.parse().ok().filter(|&warps| warps != 0);
            info.warps = Some(warps.ok_or_else(|| Wrong(column, format!("'{word}' is not 1 to 65535 warps")))?);
        }
        "skipped" => info.skipped = Some(words.number("a number of instructions")?),
        "mappings" => info.has_address_space = is_told(&mut words)?,
        "heap" => info.has_heap = is_told(&mut words)?,
        "misses" => info.misses_of = Some(words.text("a machine")?.to_string()),
        _ => {
            let what = format!(
                "unknown key '{key}' after `#:`; known keys: program, arg, isa, mappings, heap, misses, warps, skipped"
            );
            return Err(Wrong(column, what));
        }
    }
    words.end()
}

fn is_told(words: &mut Words<'_>) -> Result<bool, Wrong> {
    match words.need("told or untold")? {
        (_, "told") => Ok(true),
        (_, "untold") => Ok(false),
        (column, word) => Err(Wrong(column, format!("'{word}' is neither told nor untold"))),
    }
}

impl<R: BufRead + Send> Source for TextReader<R> {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn tell_code(&mut self) -> bool {
        self.tells_code = true;
        true
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        if self.ended {
            return Ok(false);
        }
        self.fill(batch).inspect_err(|_| self.ended = true)?;
        Ok(!self.ended || !batch.refs.is_empty())
    }
}
