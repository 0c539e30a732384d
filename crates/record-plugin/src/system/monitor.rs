//! QEMU's monitor, asked for the one register that the plugin API (before version 4) does not give: the root of page
//! tables.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
};

const PROMPT: &[u8] = b"(qemu) ";
/// The root's address, which has no more than 48 bits on the machines that are emulated. The other bits are the tag of
/// translations and whether to keep them.
const CR3_ROOT: u64 = 0x0000_ffff_ffff_f000;
/// The same of TTBR0_EL1 and TTBR1_EL1, where a table of few entries may lie anywhere in a page. The lowest bit says
/// whether other CPUs have the same tables.
const TTBR_ROOT: u64 = 0x0000_ffff_ffff_fffe;

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

    /// The root of the page tables that were just loaded: from CR3, or from the numbered register that it was loaded
    /// from.
    pub fn root(&mut self, from: Option<u8>) -> io::Result<u64> {
        self.0.write_all(b"info registers\n")?;
        let said = String::from_utf8_lossy(&self.until_prompt()?).into_owned();
        let name = from.map_or("CR3=".into(), |number| format!("X{number:02}="));
        let mask = if from.is_some() { TTBR_ROOT } else { CR3_ROOT };
        let root = parse(&said, &name).map(|root| root & mask);
        root.ok_or_else(|| io::Error::other(format!("QEMU's monitor tells no {name}")))
    }
}

fn parse(said: &str, name: &str) -> Option<u64> {
    let (_, rest) = said.split_once(name)?;
    let digits = rest.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_read_without_its_tag() {
        let root = |said, name, mask| parse(said, name).map(|root| root & mask);
        let cr3 = "CR0=80050033 CR2=00005555 CR3=0000000002f3c805 CR4=00750ef0\r\n";
        assert_eq!(root(cr3, "CR3=", CR3_ROOT), Some(0x2f3_c000));
        let ttbr0 = "PC=ffff X00=0 X01=\r\nX02=0012000041abc041 X03=";
        assert_eq!(root(ttbr0, "X02=", TTBR_ROOT), Some(0x41ab_c040));
        assert_eq!(parse("EAX=0", "CR3="), None);
    }
}
