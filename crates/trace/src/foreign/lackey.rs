//! Valgrind lackey traces: text lines of instructions, loads and stores become references. All references belong to
//! one thread, because the lines contain no thread numbers. Valgrind's first messages name the traced command.

use super::line_reader::{Tool, access, decimal, fill, hex, skip, until_ended};
use crate::{Batch, Source, TraceError, TraceInfo, lines::Lines};
use std::io::BufRead;

/// Reads what Valgrind's lackey writes with `--trace-mem=yes`.
///
/// Lines are those of lackey/lk_main.c ("Memory tracing"): `I  ADDR,SIZE` an instruction, ` L`, ` S` and ` M` its
/// loads, stores and modifications (here a load, then a store), addresses in hexadecimal. `SB ADDR` lines of
/// `--trace-superblocks=yes` add nothing. Valgrind's own messages begin with `==PID==`; the lines contain no threads.
pub struct LackeyReader<R> {
    lines: Lines<R>,
    info: TraceInfo,
    state: State,
    ended: bool,
}

/// Valgrind's messages seen so far.
#[derive(Default)]
struct State {
    begun: bool,
    finished: bool,
}

impl<R: BufRead + Send> LackeyReader<R> {
    /// Reads `input`, called `name` in errors.
    pub fn new(mut input: R, name: String) -> Self {
        // The messages come first; a name that cannot be read yet will show as an error of the first batch.
        let program = input.fill_buf().ok().and_then(command).unwrap_or_default();
        let mut words = program.split(' ').map(str::to_owned);
        let info = TraceInfo {
            name,
            format: "lackey".into(),
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            ..TraceInfo::default()
        };
        Self { lines: Lines::new(input), info, state: State::default(), ended: false }
    }
}

/// The traced command, out of Valgrind's first messages.
fn command(start: &[u8]) -> Option<String> {
    let lines = start.split(|&b| b == b'\n').take_while(|l| l.starts_with(b"=="));
    let mut texts = lines.filter_map(|l| str::from_utf8(l).ok());
    texts.find_map(|l| l.split_once("== Command: ")).map(|(_, command)| command.trim_end().to_owned())
}

impl<R: BufRead + Send> Source for LackeyReader<R> {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let Self { lines, state, info, ended } = self;
        until_ended(ended, batch, |batch| fill(lines, state, &info.name, batch))
    }
}

/// Whether `line` is one of lackey's references.
pub(crate) fn is_line(line: &[u8]) -> bool {
    record(line).is_some()
}

fn record(line: &[u8]) -> Option<(u8, u64, u64)> {
    let (kind, mut rest) = match line {
        [b'I', b' ', b' ', rest @ ..] => (b'I', rest),
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => (*kind, rest),
        _ => return None,
    };
    let address = hex(&mut rest)?;
    skip(&mut rest, b",")?;
    let size = decimal(&mut rest)?;
    rest.is_empty().then_some((kind, address, size))
}

impl Tool for State {
    fn take(&mut self, line: &[u8], batch: &mut Batch) -> Result<(), String> {
        let Some((kind, address, size)) = record(line) else {
            return match line {
                [] | [b'S', b'B', b' ', ..] | [b'-', b'-', ..] | [b'*', b'*', ..] => Ok(()),
                [b'=', b'=', rest @ ..] => {
                    self.begun |= find(rest, b"Lackey, an example");
                    self.finished |= find(rest, b"Exit code:");
                    Ok(())
                }
                _ => Err("this is not a line of lackey; run valgrind with --log-file=FILE, \
                          so that the program's own output is not among them"
                    .into()),
            };
        };
        let (va, size) = access(address, size)?;
        match kind {
            b'I' => batch.push_block(va, size, 1),
            b'L' => batch.push_data(va, size, false),
            b'S' => batch.push_data(va, size, true),
            _ => {
                batch.push_data(va, size, false);
                batch.push_data(va, size, true);
            }
        }
        Ok(())
    }

    fn end(&self) -> Result<(), String> {
        if self.begun && !self.finished {
            return Err("valgrind's last message, the exit code, is not there".into());
        }
        Ok(())
    }
}

fn find(line: &[u8], what: &[u8]) -> bool {
    line.windows(what.len()).any(|w| w == what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ref, TraceErrorKind};
    use mmulab_addr::VirtAddr;

    // As Valgrind 3.19 writes it.
    const TEXT: &str = "==22007== Lackey, an example Valgrind tool\n==22007== Command: /bin/ls /\n==22007== \n\
        I  0401ab70,3\nI  0401afff,5\n S 1fff000678,8\n M 04033ffc,8\n==22007== \n==22007== Exit code:       0\n";

    fn read(text: &str) -> (Vec<Ref>, Option<TraceError>) {
        let mut batch = Batch::default();
        let error = LackeyReader::new(text.as_bytes(), "t".into()).next_batch(&mut batch).err();
        (batch.refs, error)
    }

    #[test]
    fn lines_become_references_and_page_crossings_two() {
        let (refs, error) = read(TEXT);
        assert!(error.is_none(), "{error:?}");
        let va = VirtAddr::new;
        let expected = [
            Ref::fetch(va(0x401_ab70), 1),
            Ref::fetch(va(0x401_afff), 1),
            Ref::fetch(va(0x401_b000), 0),
            Ref::write(va(0x1f_ff00_0678)),
            Ref::read(va(0x403_3ffc)),
            Ref::read(va(0x403_4000)),
            Ref::write(va(0x403_3ffc)),
            Ref::write(va(0x403_4000)),
        ];
        assert_eq!(refs, expected);
        let reader = LackeyReader::new(TEXT.as_bytes(), "t".into());
        assert_eq!((reader.info().program.as_str(), reader.info().args.as_slice()), ("/bin/ls", &["/".to_owned()][..]));
    }

    #[test]
    fn cut_and_strange_texts_are_told_with_their_place() {
        let (refs, error) = read(&TEXT[..TEXT.find(" M 0403").unwrap() + 6]);
        assert_eq!(refs.len(), 4);
        let error = error.unwrap();
        assert!(matches!(error.kind, TraceErrorKind::Cut(_)), "{error}");
        let (_, error) = read(TEXT.split("==22007== \n==22007== Exit").next().unwrap());
        assert!(error.unwrap().to_string().contains("exit code"));
        let (refs, error) = read("I  1000,1\nhello, world\n");
        assert_eq!(refs.len(), 1);
        assert!(error.unwrap().to_string().contains("line 2 (byte 10): damaged"));
        assert!(read(" L f00000000000000,1\n").1.unwrap().to_string().contains("canonical"));
    }
}
