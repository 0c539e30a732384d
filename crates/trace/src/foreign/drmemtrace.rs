//! DynamoRIO drmemtrace traces, as text from the `view` tool: instruction fetches, reads and writes become
//! references. A change of process or thread becomes a switch event. A text without the tool's final results counts
//! as cut.

use super::line_reader::{Tool, access, blanks, decimal, fill, hex, skip, until_ended};
use crate::{Batch, Event, Isa, Source, TraceError, TraceInfo, lines::Lines};
use mmulab_addr::{Pid, Tid};
use std::io::BufRead;

/// Reads what DynamoRIO's drmemtrace writes with `-tool view`.
///
/// Lines are those of clients/drcachesim/tools/view.cpp: `RECORD INSTR: TID ifetch SIZE byte(s) @ 0xADDR ...`, and
/// `read` and `write` likewise; newer versions write `W0.T123` for the thread. Markers, prefetches and flushes refer to
/// nothing. An `ifetch` that does not count as an instruction (a further round of a string instruction) is not one.
pub struct DrmemtraceReader<R> {
    lines: Lines<R>,
    info: TraceInfo,
    state: State,
    ended: bool,
}

/// State from earlier lines.
#[derive(Default)]
struct State {
    acting: Option<(u32, u32)>,
    /// The count of instructions at the last fetch.
    instructions: Option<u64>,
    begun: bool,
    finished: bool,
}

impl<R: BufRead + Send> DrmemtraceReader<R> {
    /// Reads `input`, called `name` in errors.
    pub fn new(mut input: R, name: String) -> Self {
        let isa = input.fill_buf().ok().and_then(isa).unwrap_or_default();
        let info = TraceInfo { name, format: "drmemtrace-view".into(), isa, ..TraceInfo::default() };
        Self { lines: Lines::new(input), info, state: State::default(), ended: false }
    }
}

/// `offline_file_type_t` of clients/drcachesim/common/trace_entry.h: OFFLINE_FILE_TYPE_ARCH_AARCH64.
const FILE_TYPE_AARCH64: u64 = 0x08;
/// FILTERED, IFILTERED and DFILTERED: references that hit in a small cache were left out.
const FILE_TYPE_FILTERED: u64 = 0x01 | 0x80 | 0x100;

/// The value of the file type's marker.
fn file_type(line: &[u8]) -> Option<u64> {
    const MARKER: &[u8] = b"<marker: filetype 0x";
    let at = line.windows(MARKER.len()).position(|w| w == MARKER)?;
    hex(&mut &line[at + MARKER.len()..])
}

fn isa(start: &[u8]) -> Option<Isa> {
    let kind = start.split(|&b| b == b'\n').find_map(file_type)?;
    Some(if kind & FILE_TYPE_AARCH64 != 0 { Isa::Aarch64 } else { Isa::X86_64 })
}

impl<R: BufRead + Send> Source for DrmemtraceReader<R> {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let Self { lines, state, info, ended } = self;
        until_ended(ended, batch, |batch| fill(lines, state, &info.name, batch))
    }
}

/// Whether `line` is one of the view tool's.
pub(crate) fn is_line(line: &[u8]) -> bool {
    line.starts_with(b"Output format:") || line.starts_with(b"<--record#->") || record(line).is_some()
}

/// A record: the count of instructions, who acts, and the rest of the line.
struct Record<'a> {
    instructions: Option<u64>,
    acting: (u32, u32),
    rest: &'a [u8],
}

fn record(line: &[u8]) -> Option<Record<'_>> {
    let mut rest = line;
    blanks(&mut rest);
    decimal(&mut rest)?;
    blanks(&mut rest);
    // Old versions do not count instructions.
    let instructions = decimal(&mut rest);
    skip(&mut rest, b":")?;
    blanks(&mut rest);
    let mut workload = 0;
    if skip(&mut rest, b"W").is_some() {
        workload = decimal(&mut rest)?;
        skip(&mut rest, b".")?;
    }
    let _ = skip(&mut rest, b"T");
    let tid = decimal(&mut rest)?;
    if !rest.is_empty() {
        skip(&mut rest, b" ")?;
    }
    blanks(&mut rest);
    let acting = (u32::try_from(workload).ok()?.checked_add(1)?, u32::try_from(tid).ok()?);
    Some(Record { instructions, acting, rest })
}

/// `SIZE byte(s) @ 0xADDR`.
fn reference(mut rest: &[u8]) -> Option<(u64, u64)> {
    blanks(&mut rest);
    let size = decimal(&mut rest)?;
    skip(&mut rest, b" byte(s) @ 0x")?;
    Some((hex(&mut rest)?, size))
}

impl Tool for State {
    fn take(&mut self, line: &[u8], batch: &mut Batch) -> Result<(), String> {
        let Some(Record { instructions, acting, rest }) = record(line) else {
            self.finished |= line.starts_with(b"View tool results:");
            let header = is_line(line);
            // The program's own output may come first.
            let known = header || !self.begun || self.finished || line.is_empty() || line.starts_with(b"---");
            self.begun |= header;
            return if known { Ok(()) } else { Err("this is not a line of drmemtrace's view tool".into()) };
        };
        self.begun = true;
        // A trace starts as process 1, thread 1.
        if self.acting.unwrap_or((1, 1)) != acting {
            batch.push_event(Event::Switch { pid: Pid(acting.0), tid: Tid(acting.1) });
        }
        self.acting = Some(acting);
        let word = rest.iter().take_while(|b| !b.is_ascii_whitespace()).count();
        let (word, details) = rest.split_at(word);
        let write = match word {
            b"ifetch" => None,
            b"read" => Some(false),
            b"write" => Some(true),
            b"<thread" if details.ends_with(b"exited>") => {
                batch.push_event(Event::ExitThread);
                return Ok(());
            }
            _ => {
                if file_type(rest).is_some_and(|kind| kind & FILE_TYPE_FILTERED != 0) {
                    let what = "the tracer left out references that hit in its filter".into();
                    batch.push_event(Event::Lost { what });
                }
                return Ok(());
            }
        };
        let (address, size) = reference(details).ok_or("its size and address are not understood")?;
        let (va, size) = access(address, size)?;
        match write {
            Some(write) => batch.push_data(va, size, write),
            None => {
                if instructions.is_none() || instructions != self.instructions {
                    batch.push_block(va, size, 1);
                }
                self.instructions = instructions;
            }
        }
        Ok(())
    }

    fn end(&self) -> Result<(), String> {
        if self.finished {
            return Ok(());
        }
        Err("the view tool's last lines, its results, are not there".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ref, TraceErrorKind};
    use mmulab_addr::VirtAddr;

    // After the examples of DynamoRIO's documentation.
    const TEXT: &str = "Output format:\n<--record#-> <--instr#->: <---tid---> <record details>\n\
        ------------------------------------------------------------\n\
        \x20          1           0:     2765542 <marker: version 5>\n\
        \x20          2           0:     2765542 <marker: filetype 0xe08>\n\
        \x20          8           1:     2765542 ifetch       5 byte(s) @ 0x0000000000404a7e \
        48 8b 5c 24 08  mov 0x08(%rsp)\n\
        \x20          9           1:     2765542 read         8 byte(s) @ 0x00007fdf64e2affc by PC 0x0000000000404a7e\n\
        \x20         10           2:     2765542 ifetch       2 byte(s) @ 0x0000000000404a83 f3 a4  rep movs\n\
        \x20         11           2:     2765542 write        1 byte(s) @ 0x00007fdf64e2a000 by PC 0x0000000000404a83\n\
        \x20         12           2:     2765542 ifetch       2 byte(s) @ 0x0000000000404a83 f3 a4  rep movs\n\
        \x20         13           2:     2765542 write        1 byte(s) @ 0x00007fdf64e2a001 by PC 0x0000000000404a83\n\
        ------------------------------------------------------------\n\
        \x20         14           3:          W1.T7 ifetch       1 byte(s) @ 0x0000000000404a85 c3 ret (target 0x1)\n\
        \x20         15           3:          W1.T7 pref-w       0 byte(s) @ 0x0000000000001000 \
        by PC 0x0000000000404a85\n\
        \x20         16           3:          W1.T7 <thread 7 exited>\n\
        View tool results:\n              3 : total instructions\n";

    fn read(text: &str) -> (Batch, Option<TraceError>) {
        let mut batch = Batch::default();
        let error = DrmemtraceReader::new(text.as_bytes(), "t".into()).next_batch(&mut batch).err();
        (batch, error)
    }

    #[test]
    fn records_become_references_of_their_threads() {
        let (batch, error) = read(TEXT);
        assert!(error.is_none(), "{error:?}");
        let va = VirtAddr::new;
        let expected = [
            Ref::event(0),
            Ref::fetch(va(0x40_4a7e), 1),
            Ref::read(va(0x7fdf_64e2_affc)),
            Ref::read(va(0x7fdf_64e2_b000)),
            Ref::fetch(va(0x40_4a83), 1),
            Ref::write(va(0x7fdf_64e2_a000)),
            Ref::write(va(0x7fdf_64e2_a001)),
            Ref::event(1),
            Ref::fetch(va(0x40_4a85), 1),
            Ref::event(2),
        ];
        assert_eq!(batch.refs, expected);
        assert_eq!(batch.events[0], Event::Switch { pid: Pid(1), tid: Tid(2_765_542) });
        assert_eq!(batch.events[1], Event::Switch { pid: Pid(2), tid: Tid(7) });
        assert_eq!(batch.events[2], Event::ExitThread);
        assert_eq!(DrmemtraceReader::new(TEXT.as_bytes(), "t".into()).info().isa, Isa::Aarch64);
    }

    #[test]
    fn cut_filtered_and_damaged_texts_say_so() {
        let (_, error) = read(TEXT.split("View").next().unwrap());
        assert!(matches!(error.unwrap().kind, TraceErrorKind::Cut(_)));
        let (batch, _) = read(&TEXT.replace("0xe08", "0xec0"));
        assert!(batch.events.iter().any(|e| matches!(e, Event::Lost { .. })));
        let (_, error) = read(&TEXT.replace("read         8 byte(s)", "read         8 bites"));
        assert!(error.unwrap().to_string().contains("line 7 (byte"));
    }
}
