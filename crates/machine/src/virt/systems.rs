//! Every kernel that programs run on: the machine's own, or each guest's.

use super::host::Host;
use crate::system::System;

/// Every kernel with its memory: the one that runs, `acting`, and those of guests that do not, by number.
pub(crate) fn systems<'a>(acting: &'a System, host: Option<&'a Host>) -> impl Iterator<Item = (usize, &'a System)> {
    let (running, parked) = match host {
        None => (0, None),
        Some(host) => (host.at(), Some(host.parked())),
    };
    std::iter::once((running, acting)).chain(parked.into_iter().flatten())
}
