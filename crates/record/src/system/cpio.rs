//! The archive a Linux kernel unpacks into its first file system
//! (Documentation/driver-api/early-userspace/buffer-format.rst: "newc"; not compressed, since it is read once).

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Write},
    path::{Component, Path},
};

const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const CHARACTERS: u32 = 0o020_000;
/// /dev/console.
const CONSOLE: (u32, u32) = (5, 1);

/// An archive being written.
pub(super) struct Archive<W: Write> {
    to: W,
    at: u64,
    inode: u32,
    names: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    pub fn new(to: W) -> io::Result<Self> {
        let mut this = Self { to, at: 0, inode: 1, names: BTreeSet::new() };
        this.directory("dev")?;
        this.entry("dev/console", CHARACTERS | 0o600, 0, CONSOLE)?;
        Ok(this)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.to.write_all(bytes)
    }

    fn pad(&mut self) -> io::Result<()> {
        let short = (4 - self.at % 4) % 4;
        self.put(&[0; 3][..short as usize])
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: u32, device: (u32, u32)) -> io::Result<()> {
        let inode = self.inode;
        self.inode += 1;
        // inode, mode, uid, gid, links, mtime, bytes, device, special device, length of the name, checksum (none).
        let fields = [inode, mode, 0, 0, 1, 0, bytes, 0, 0, device.0, device.1, name.len() as u32 + 1, 0];
        let head: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        self.put(format!("070701{head}{name}\0").as_bytes())?;
        self.pad()
    }

    /// Makes sure that the directories above the name are there, and that it was not taken before.
    fn is_new(&mut self, name: &str) -> io::Result<bool> {
        if let Some((above, _)) = name.rsplit_once('/') {
            self.directory(above)?;
        }
        Ok(self.names.insert(name.into()))
    }

    fn directory(&mut self, name: &str) -> io::Result<()> {
        if !name.is_empty() && self.is_new(name)? {
            self.entry(name, DIRECTORY | 0o755, 0, (0, 0))?;
        }
        Ok(())
    }

    /// Adds a file with these contents.
    pub fn text(&mut self, guest: &Path, text: &[u8]) -> io::Result<()> {
        let name = name_of(guest)?;
        if self.is_new(&name)? {
            self.entry(&name, REGULAR | 0o644, text.len() as u32, (0, 0))?;
            self.put(text)?;
            self.pad()?;
        }
        Ok(())
    }

    /// Adds what is at `host`, whatever it is, with all that is below it.
    pub fn add(&mut self, host: &Path, guest: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let name = name_of(guest)?;
        let told = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", host.display()));
        let meta = std::fs::metadata(host).map_err(told)?;
        if meta.is_dir() {
            self.directory(&name)?;
            let mut entries = std::fs::read_dir(host).map_err(told)?.collect::<io::Result<Vec<_>>>().map_err(told)?;
            entries.sort_by_key(std::fs::DirEntry::file_name);
            for entry in entries {
                self.below(&entry.path(), &guest.join(entry.file_name()))?;
            }
            return Ok(());
        }
        if !meta.is_file() {
            return Ok(());
        }
        let bytes = u32::try_from(meta.len())
            .map_err(|_| io::Error::other(format!("{}: a guest's file has less than 4 GB", host.display())))?;
        if self.is_new(&name)? {
            self.entry(&name, REGULAR | meta.permissions().mode() & 0o777, bytes, (0, 0))?;
            let mut from = io::Read::take(File::open(host).map_err(told)?, u64::from(bytes));
            let copied = io::copy(&mut from, &mut self.to)?;
            // One that shrank meanwhile is as long as was promised.
            io::copy(&mut io::Read::take(io::repeat(0), u64::from(bytes) - copied), &mut self.to)?;
            self.at += u64::from(bytes);
            self.pad()?;
        }
        Ok(())
    }

    /// Adds a directory's entry: links stay links.
    fn below(&mut self, host: &Path, guest: &Path) -> io::Result<()> {
        let Ok(target) = std::fs::read_link(host) else { return self.add(host, guest) };
        let name = name_of(guest)?;
        if self.is_new(&name)? {
            let target = target.display().to_string();
            self.entry(&name, LINK | 0o777, target.len() as u32, (0, 0))?;
            self.put(target.as_bytes())?;
            self.pad()?;
        }
        Ok(())
    }

    /// Ends the archive.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, 0, (0, 0))?;
        Ok(self.to)
    }
}

/// The name of a guest's path in an archive: without a slash before it.
fn name_of(guest: &Path) -> io::Result<String> {
    let mut parts = Vec::new();
    for part in guest.components() {
        match part {
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            Component::RootDir | Component::CurDir => {}
            _ => return Err(io::Error::other(format!("{}: a guest's path is absolute, without ..", guest.display()))),
        }
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_what_the_format_says() {
        let mut archive = Archive::new(Vec::new()).unwrap();
        archive.text(Path::new("/etc/x"), b"hello").unwrap();
        archive.text(Path::new("/etc/x"), b"again").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        // Walked as the kernel walks it: 110 bytes, the name, the contents, each padded to 4.
        let mut names = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let field = |i: usize| {
                let digits = std::str::from_utf8(&bytes[at + 6 + 8 * i..][..8]).unwrap();
                usize::from_str_radix(digits, 16).unwrap()
            };
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (length, name) = (field(6), field(11));
            names.push((std::str::from_utf8(&bytes[at + 110..][..name - 1]).unwrap().to_owned(), field(1), length));
            at = (at + 110 + name).next_multiple_of(4) + length.next_multiple_of(4);
        }
        let names: Vec<_> = names.iter().map(|(n, mode, bytes)| (n.as_str(), *mode, *bytes)).collect();
        let expected = [
            ("dev", 0o040_755, 0),
            ("dev/console", 0o020_600, 0),
            ("etc", 0o040_755, 0),
            ("etc/x", 0o100_644, 5),
            ("TRAILER!!!", 0, 0),
        ];
        assert_eq!(names, expected);
        assert!(name_of(Path::new("/a/../b")).is_err());
    }
}
