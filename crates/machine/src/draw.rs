use crate::Machine;
use mmulab_pagetable::draw;
use std::fmt::Write;

/// The page table of each process that lives, as text.
pub fn draw_tables(machine: &Machine) -> String {
    let mut text = String::new();
    for process in machine.kernel.usage(&machine.mem).processes {
        let Some(context) = machine.kernel.context(process.pid) else { continue };
        let _ = writeln!(text, "process {}", process.pid.0);
        text += &draw(context.format, context.root, &machine.mem);
    }
    text
}
