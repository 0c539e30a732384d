//! Reasons why a file is not padded, each with its name and what to do. A file that is refused stays as it was.

use crate::ElfError;
use std::{io, path::PathBuf};
use thiserror::Error;

/// Why a file, or one of its code segments, is not padded.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PadRefusal {
    /// No regular file.
    #[error("not a regular file")]
    Special,
    /// An object file, or a core dump.
    #[error("an ELF file of type {0}; only programs (2) and shared libraries (3) are loaded by segments")]
    Type(u16),
    /// Compressed by UPX.
    #[error("packed by UPX: the code that runs is not the file's\nhint: unpack it first (upx -d)")]
    Packed,
    /// A segment that ends behind the end of the file, or is larger there than in memory.
    #[error("cut: segment {0} ends behind the end of the file, or is larger there than in memory")]
    Cut(usize),
    /// No segment holds code that only runs.
    #[error("no code to pad: no segment is executable and not writable")]
    NoCode,
    /// A code segment that is larger in memory than in the file.
    #[error(
        "its code at {address:#x} has zeros behind it that are not in the file, so that file pages cannot follow it"
    )]
    Zeros {
        /// The segment's address.
        address: u64,
    },
    /// A code segment that ends at a multiple of 2 MB.
    #[error("its code ends at {end:#x}, a multiple of 2 MB: there is nothing to pad")]
    Whole {
        /// The segment's end.
        end: u64,
    },
    /// A code segment that begins behind the last multiple of 2 MB before its end.
    #[error(
        "its code at {address:#x} begins behind a multiple of 2 MB and reaches no other: padded, it would be no \
         superpage\n\
         hint: link the program with -Wl,-z,max-page-size=0x200000"
    )]
    Begins {
        /// The segment's address.
        address: u64,
    },
    /// A code segment whose place in the file differs from its place in memory.
    #[error(
        "its code at {address:#x} is misaligned with the file by {pages} pages, modulo 2 MB: no superpage of the \
         file's pages\n\
         hint: link the program with -Wl,-z,max-page-size=0x200000"
    )]
    Misaligned {
        /// The segment's address.
        address: u64,
        /// The misalignment in base pages.
        pages: u64,
    },
    /// Another segment begins before the next multiple of 2 MB.
    #[error(
        "no gap: its code ends at {end:#x}, the next segment begins at {next:#x}, and padding needs all up to \
         {boundary:#x}\n\
         hint: link the program with -Wl,-z,max-page-size=0x200000"
    )]
    NoGap {
        /// The segment's end.
        end: u64,
        /// The next segment's address.
        next: u64,
        /// The next multiple of 2 MB.
        boundary: u64,
    },
    /// Padded by mmulab before.
    #[error("padded already\nhint: `mmulab elf pad --undo` takes that back")]
    Padded,
    /// Bytes that no header names.
    #[error(
        "{0} bytes stand behind all that its headers name: programs that look for such bytes at the end of their file \
         would not find them"
    )]
    Overlay(u64),
    /// A set-user-ID or set-group-ID program.
    #[error("mode {0:o} is setuid or setgid: a program that runs with others' rights is not changed")]
    Setuid(u32),
    /// A program with file capabilities.
    #[error("has file capabilities: a program that runs with rights of its own is not changed")]
    Capabilities,
    /// A file with several names.
    #[error("{0} names (hard links): the others would keep the file as it is\nhint: pad a copy, with --out")]
    Links(u64),
    /// A file without permission to write.
    #[error("read-only (mode {0:o})\nhint: chmod u+w it, or write a copy with --out")]
    ReadOnly(u32),
    /// Without mmulab's record at its end.
    #[error("not padded by `mmulab elf pad`: the record of what it changed is not at the end of the file")]
    NotPadded,
    /// Changed since it was padded.
    #[error("changed since it was padded: what is taken back would not be the file as it was")]
    Changed,
}

impl PadRefusal {
    /// Its name, for scripts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Special => "special",
            Self::Type(_) => "type",
            Self::Packed => "packed",
            Self::Cut(_) => "cut",
            Self::NoCode => "no-code",
            Self::Zeros { .. } => "zeros",
            Self::Whole { .. } => "whole",
            Self::Begins { .. } => "begins",
            Self::Misaligned { .. } => "misaligned",
            Self::NoGap { .. } => "no-gap",
            Self::Padded => "padded",
            Self::Overlay(_) => "overlay",
            Self::Setuid(_) => "setuid",
            Self::Capabilities => "capabilities",
            Self::Links(_) => "links",
            Self::ReadOnly(_) => "read-only",
            Self::NotPadded => "not-padded",
            Self::Changed => "changed",
        }
    }
}

/// Why padding a file failed.
#[derive(Debug, Error)]
pub enum PadError {
    /// Its headers cannot be read.
    #[error("{0}")]
    Elf(#[from] ElfError),
    /// It is refused.
    #[error("{0}")]
    Refused(#[from] PadRefusal),
    /// The new file cannot be written.
    #[error("{}: cannot be written: {error}", path.display())]
    Write {
        /// The file beside the one that was to be replaced, or that one.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The new file is not what it was to be: a defect of mmulab, or of the disk.
    #[error("the file that was written is not the one that was planned ({0}); the original is as it was")]
    Unverified(String),
}

impl PadError {
    /// Whether the user can do something about it by asking for something else.
    pub fn is_mistake(&self) -> bool {
        matches!(self, Self::Elf(_) | Self::Refused(_))
    }
}
