//! Which region of a report a new mapping belongs to.

use crate::report::region::{Identity, Prot3, RegionKind};
use mmulab_addr::Prot;
use mmulab_trace::{Backing, MapFlags};
use std::sync::Arc;

/// The region that a new mapping belongs to.
pub(crate) fn identity(flags: &MapFlags, backing: &Backing, prot: Prot, start: u64) -> Identity {
    let label = flags.label.clone();
    let is_stack = flags.grows_down || label.as_deref().is_some_and(|l| l.starts_with("[stack"));
    let (kind, name, origin): (_, Arc<str>, _) = match backing {
        Backing::File { path, offset } => (RegionKind::File, path.clone(), start.wrapping_sub(*offset)),
        Backing::Anon if is_stack => (RegionKind::Stack, label.unwrap_or_else(|| "[stack]".into()), 0),
        Backing::Anon => match label {
            Some(label) if &*label == "[heap]" => (RegionKind::Heap, label, 0),
            Some(label) => (RegionKind::Special, label, 0),
            None if flags.shared => (RegionKind::Shared, "shared".into(), 0),
            None => (RegionKind::Anon, "anon".into(), 0),
        },
    };
    Identity { kind, name, prot: Prot3(prot.bits()), is_kernel: flags.global, origin }
}
