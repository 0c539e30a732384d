//! Formats of trace files. A reader recognises the format by the first 64 KiB of the content. A writer chooses the
//! format by the file name, if the user names no format.

use crate::{NativeReader, foreign, text};
use std::{fmt, path::Path, str::FromStr};

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// This project's own: docs/formats/trace-format.md.
    Native,
    /// Text: docs/formats/text-traces.md.
    Text,
    /// ChampSim's records.
    ChampSim,
    /// The view tool of DynamoRIO's drmemtrace.
    Drmemtrace,
    /// Valgrind's lackey.
    Lackey,
    /// GPU kernels as Accel-Sim takes them.
    AccelSim,
}

/// Bytes of a file's beginning by which its format is known.
pub(super) const START: usize = 64 << 10;

impl Format {
    /// All, each with the name it is chosen by.
    const ALL: [(Self, &str); 6] = [
        (Self::Native, "native"),
        (Self::Text, "text"),
        (Self::ChampSim, "champsim"),
        (Self::Drmemtrace, "drmemtrace-view"),
        (Self::Lackey, "lackey"),
        (Self::AccelSim, "accel-sim"),
    ];

    /// The format to write to `path` when none is asked for: by the ends of its name.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = [".gz", ".xz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "mmt" => Some(Self::Native),
            "mmtx" => Some(Self::Text),
            "champsim" | "champsimtrace" => Some(Self::ChampSim),
            _ => None,
        }
    }

    /// The format of a file that begins with `start`, which is all of it if shorter than 64 KiB.
    pub(super) fn of_content(start: &[u8]) -> Option<Self> {
        if NativeReader::recognises(start) {
            return Some(Self::Native);
        }
        let whole = start.len() < START;
        let end = if whole { start.len() } else { start.iter().rposition(|&b| b == b'\n').unwrap_or(start.len()) };
        // Text has no zero bytes; ChampSim's records are full of them.
        if start[..end].contains(&0) {
            return foreign::looks_like_champsim(start).then_some(Self::ChampSim);
        }
        let mut first = None;
        for line in start[..end].split(|&b| b == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.starts_with(b"==") && line.windows(7).any(|w| w == b" Lackey") || foreign::is_lackey_line(line) {
                return Some(Self::Lackey);
            }
            if foreign::is_list_line(line) || foreign::is_kernel_line(line) {
                return Some(Self::AccelSim);
            }
            if foreign::is_drmemtrace_line(line) {
                return Some(Self::Drmemtrace);
            }
            first = first.or_else(|| text::begins_an_event(line));
            if first == Some(true) {
                return Some(Self::Text);
            }
        }
        // Comments alone are a trace in which nothing happens.
        (first.is_none() && !start.is_empty() && str::from_utf8(start).is_ok()).then_some(Self::Text)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(format, _)| *format == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(format, _)| *format).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("no format '{text}'; known: {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_tells_the_format() {
        let known = |start: &[u8]| Format::of_content(start);
        assert_eq!(known(b"\x89MMT\r\n\x1a\n........"), Some(Format::Native));
        assert_eq!(known(b"# hello\n\nmmap 0x1000 4K rw anon\n"), Some(Format::Text));
        assert_eq!(known(b"# hello\n"), Some(Format::Text));
        assert_eq!(known(b"==12== Lackey, an example Valgrind tool\n"), Some(Format::Lackey));
        assert_eq!(known(b"I  0401ab70,3\n"), Some(Format::Lackey));
        assert_eq!(known(b"Output format:\n"), Some(Format::Drmemtrace));
        assert_eq!(known(b"    12   3:   W0.T12 ifetch 3 byte(s) @ 0x12\n"), Some(Format::Drmemtrace));
        assert_eq!(known(b"-kernel name = _Z3addPfS_\n-kernel id = 1\n"), Some(Format::AccelSim));
        assert_eq!(known(b"MemcpyHtoD,0x0000000502000000,800000\n"), Some(Format::AccelSim));
        assert_eq!(known(b"hello, world\n"), None);
        assert_eq!(known(b"\x7fELF\0\0\0\0"), None);
        assert_eq!(known(b""), None);
        let mut record = [0; 64];
        record[0] = 1;
        assert_eq!(known(&record), Some(Format::ChampSim));
    }

    #[test]
    fn names_tell_what_to_write() {
        assert_eq!(Format::of_name(Path::new("/a.b/x.mmt")), Some(Format::Native));
        assert_eq!(Format::of_name(Path::new("x.champsimtrace.XZ")), Some(Format::ChampSim));
        assert_eq!(Format::of_name(Path::new("mmt")), None);
        for (format, name) in Format::ALL {
            assert_eq!(name.parse(), Ok(format));
        }
    }
}
