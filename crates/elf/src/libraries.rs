//! Shared libraries of a program: the search of the dynamic linker, done without running the program. An analysis of
//! page alignment can then include the code in libraries.

use crate::{ElfFile, read};
use mmulab_trace::Isa;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// The libraries that the dynamic linker would load for the file at `path`, and the names of those not found. Looked
/// for like ld.so(8) does, but without its cache: the file's own run path, `LD_LIBRARY_PATH`, then the system's
/// directories.
pub fn libraries(path: &Path, file: &ElfFile) -> (Vec<PathBuf>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), BTreeSet::new());
    let mut seen = BTreeSet::new();
    let mut open: Vec<(PathBuf, ElfFile)> = vec![(path.to_path_buf(), file.clone())];
    while let Some((path, file)) = open.pop() {
        let directories = directories(&path, &file);
        for name in &file.needed {
            if !seen.insert(name.clone()) {
                continue;
            }
            let at = directories.iter().map(|d| d.join(name)).find_map(|p| Some((read(&p).ok()?, p)));
            match at.filter(|(library, _)| library.isa == file.isa) {
                Some((library, path)) => {
                    found.push(path.clone());
                    open.push((path, library));
                }
                None => drop(missing.insert(name.clone())),
            }
        }
    }
    found.sort();
    (found, missing.into_iter().collect())
}

fn directories(path: &Path, file: &ElfFile) -> Vec<PathBuf> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let origin = real.parent().unwrap_or(Path::new("/")).display().to_string();
    let own = file.run_path.clone().unwrap_or_default();
    let own = own.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
    let asked = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let triplet = match file.isa {
        Isa::X86_64 => "x86_64-linux-gnu",
        Isa::Aarch64 => "aarch64-linux-gnu",
        Isa::Riscv64 => "riscv64-linux-gnu",
    };
    let system = [
        format!("/usr/local/lib/{triplet}"),
        "/usr/local/lib".into(),
        format!("/lib/{triplet}"),
        format!("/usr/lib/{triplet}"),
        "/lib64".into(),
        "/usr/lib64".into(),
        "/lib".into(),
        "/usr/lib".into(),
        format!("/usr/{triplet}/lib"),
    ];
    let listed = own.split(':').chain(asked.split(':')).filter(|d| !d.is_empty()).map(PathBuf::from);
    listed.chain(system.into_iter().map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_of_this_program_is_found() {
        let own = std::env::current_exe().unwrap();
        let (found, missing) = libraries(&own, &read(&own).unwrap());
        assert!(found.iter().any(|p| p.display().to_string().contains("libc.so")), "{found:?}");
        assert_eq!(missing, Vec::<String>::new());
    }
}
