//! Text drawings of page tables: the tables of all live processes of a machine and, under virtualization, of the
//! host. A reader can check the entries, merged levels and large pages that a run produced.

use crate::{machine::Machine, system::System};
use mmulab_pagetable::draw;
use std::fmt::Write;

/// The page table of each process that lives, as text; of virtual machines, of the one that runs, then of the host.
pub fn draw_tables(machine: &Machine) -> String {
    let mut text = of_system(&machine.state().system);
    if let Some(host) = machine.host() {
        let _ = writeln!(text, "host");
        text += &of_system(&host.system);
    }
    text
}

fn of_system(system: &System) -> String {
    let mut text = String::new();
    for process in system.kernel.usage(&system.mem).processes {
        let Some(context) = system.kernel.context(process.pid) else { continue };
        let _ = writeln!(text, "process {}", process.pid.0);
        text += &draw(context.format, context.root, &system.mem);
    }
    text
}
