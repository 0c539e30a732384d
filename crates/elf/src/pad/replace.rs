//! Replacement of a file by another: written beside it, checked, and renamed. Nothing is ever half written. A program
//! that runs goes on with the file that it was started from (writing into that would fail with ETXTBSY).

use super::refusal::{PadError, PadRefusal};
use std::{
    ffi::{CStr, CString},
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::{
            ffi::OsStrExt as _,
            fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
        },
    },
    path::{Path, PathBuf},
};

/// Mode bits: setuid and setgid.
const PRIVILEGED: u32 = 0o6000;
const OWNER_WRITES: u32 = 0o200;
/// Extended attributes: the one that gives a program rights.
const CAPABILITY: &CStr = c"security.capability";

/// Whether a file may be padded where it is, or copied padded.
///
/// # Errors
/// Why not.
pub fn admit(path: &Path, found: &Metadata, in_place: bool) -> Result<(), PadRefusal> {
    if !found.is_file() {
        return Err(PadRefusal::Special);
    }
    if found.mode() & PRIVILEGED != 0 {
        return Err(PadRefusal::Setuid(found.mode() & 0o7777));
    }
    if attribute(path, CAPABILITY).is_some() {
        return Err(PadRefusal::Capabilities);
    }
    if in_place && found.nlink() > 1 {
        return Err(PadRefusal::Links(found.nlink()));
    }
    if in_place && found.mode() & OWNER_WRITES == 0 {
        return Err(PadRefusal::ReadOnly(found.mode() & 0o777));
    }
    Ok(())
}

/// The file beside the one that is to be replaced; removed if it never took its place.
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Puts `content` where `path` is, with the owner, mode and extended attributes of `like`, if `check` agrees with what
/// was written.
///
/// # Errors
/// It cannot be written, or `check` does not agree. Then `path` is as it was.
pub fn replace(
    path: &Path,
    like: &Path,
    content: &[u8],
    check: impl FnOnce(&[u8]) -> Result<(), PadError>,
) -> Result<(), PadError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = Beside(path.with_file_name(format!(".{name}.mmulab-{}", std::process::id())));
    let at = |error| PadError::Write { path: path.to_path_buf(), error };
    write(&beside.0, like, content).map_err(at)?;
    check(&fs::read(&beside.0).map_err(at)?)?;
    fs::rename(&beside.0, path).map_err(at)?;
    // The rename itself is on the disk once the directory is; a file system that cannot say so is not asked.
    if let Ok(directory) = File::open(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))) {
        let _ = directory.sync_all();
    }
    Ok(())
}

fn write(beside: &Path, like: &Path, content: &[u8]) -> io::Result<()> {
    let found = fs::metadata(like)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
    file.write_all(content)?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (found.uid(), found.gid()) {
        fchown(&file, Some(found.uid()), Some(found.gid()))?;
    }
    for name in attributes(like) {
        if let Some(value) = attribute(like, &name) {
            set_attribute(&file, &name, &value)?;
        }
    }
    // Last: a change of owner or of access lists changes it.
    file.set_permissions(fs::Permissions::from_mode(found.mode() & 0o7777))?;
    file.sync_all()
}

fn c_path(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// The names of a file's extended attributes; none on file systems without any.
fn attributes(path: &Path) -> Vec<CString> {
    let Some(path) = c_path(path) else { return Vec::new() };
    // SAFETY: a length of 0 asks for the length; no byte is written.
    let length = unsafe { libc::listxattr(path.as_ptr(), std::ptr::null_mut(), 0) };
    let mut names = vec![0u8; usize::try_from(length).unwrap_or(0)];
    // SAFETY: the buffer has the length that is passed.
    let length = unsafe { libc::listxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    names.truncate(usize::try_from(length).unwrap_or(0));
    names.split_inclusive(|&byte| byte == 0).filter_map(|name| CString::from_vec_with_nul(name.to_vec()).ok()).collect()
}

/// The value of an extended attribute.
fn attribute(path: &Path, name: &CStr) -> Option<Vec<u8>> {
    let path = c_path(path)?;
    // SAFETY: a length of 0 asks for the length; no byte is written.
    let length = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) };
    let mut value = vec![0u8; usize::try_from(length).ok()?];
    // SAFETY: the buffer has the length that is passed.
    let length = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    value.truncate(usize::try_from(length).ok()?);
    Some(value)
}

fn set_attribute(file: &File, name: &CStr, value: &[u8]) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the value has the length that is passed.
    let done = unsafe { libc::fsetxattr(file.as_raw_fd(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The processes that have the file mapped as code, as far as they can be looked at.
pub fn running(path: &Path, found: &Metadata) -> Vec<u32> {
    let same = |other: &Path| fs::metadata(other).is_ok_and(|m| (m.dev(), m.ino()) == (found.dev(), found.ino()));
    let (shown, inode) = (path.display().to_string(), found.ino().to_string());
    // proc_pid_maps(5): addresses, rights, offset, device, inode, path.
    let is_code = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let rights = fields.nth(1).unwrap_or_default();
        rights.contains('x') && fields.nth(2) == Some(&inode) && line.ends_with(&shown)
    };
    let mapped = |process: &Path| {
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        same(&process.join("exe")) || maps.lines().any(is_code)
    };
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let mut found: Vec<u32> = processes
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .filter(|(_, process)| mapped(process))
        .map(|(pid, _)| pid)
        .collect();
    found.sort_unstable();
    found
}
