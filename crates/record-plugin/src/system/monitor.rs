//! QEMU's monitor, asked for the one register that the plugin API (before version 4) does not give: CR3.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
};

const PROMPT: &[u8] = b"(qemu) ";
/// CR3's low bits say what tag its translations have, bit 63 whether to keep them: neither is part of the root's address.
const ROOT: u64 = 0x000f_ffff_ffff_f000;

/// A connection. The thread that asks is the one whose register it is, between two blocks, so the answer holds.
pub struct Monitor(UnixStream);

impl Monitor {
    /// Connects.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let mut this = Self(UnixStream::connect(path)?);
        this.until_prompt()?;
        Ok(this)
    }

    fn until_prompt(&mut self) -> io::Result<Vec<u8>> {
        let mut said = Vec::new();
        let mut part = [0; 8192];
        while !said.ends_with(PROMPT) {
            match self.0.read(&mut part)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                got => said.extend_from_slice(&part[..got]),
            }
        }
        Ok(said)
    }

    /// The root of the page tables in use.
    pub fn root(&mut self) -> io::Result<u64> {
        self.0.write_all(b"info registers\n")?;
        let said = self.until_prompt()?;
        parse(&String::from_utf8_lossy(&said)).ok_or_else(|| io::Error::other("QEMU's monitor tells no CR3"))
    }
}

fn parse(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once("CR3=")?;
    let digits = rest.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    Some(u64::from_str_radix(digits, 16).ok()? & ROOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_read_without_its_tag() {
        assert_eq!(parse("CR0=80050033 CR2=00005555 CR3=0000000002f3c805 CR4=00750ef0\r\n"), Some(0x2f3_c000));
        assert_eq!(parse("EAX=0"), None);
    }
}
