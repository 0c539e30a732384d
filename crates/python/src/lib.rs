//! The Python binding: JSON in, JSON out. Nothing is computed here.

mod adviser;
mod area;
mod attend;
mod elf;
mod errors;
mod host;
mod leshy;
mod microbench;
mod record;
mod reorder;
mod simulate;
mod trace;
mod workload;

use pyo3::prelude::*;

/// mmulab's engine. Every function takes and returns JSON text; see the package's `_core.pyi`.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::area::machine_fit;
    #[pymodule_export]
    use crate::elf::{elf_check, elf_functions, elf_layout, elf_pad, elf_sections, elf_source_lines};
    #[pymodule_export]
    use crate::errors::{Failure, UserError};
    #[pymodule_export]
    use crate::host::{probe_curve, probe_figures, probe_frames, probe_jumps, probe_pin, probe_processor};
    #[pymodule_export]
    use crate::leshy::{hints, hints_schema, leshy_head, leshy_heat, leshy_problem, leshy_profile, leshy_select};
    #[pymodule_export]
    use crate::microbench::microbench;
    #[pymodule_export]
    use crate::record::record;
    #[pymodule_export]
    use crate::reorder::reorder;
    #[pymodule_export]
    use crate::simulate::{
        draw_tables, explain, explain_schema, generators, is_checked, list_machines, list_policies, machine_schema,
        misses, options_schema, policy_schema, policy_table, reshape_schema, resolve, result_schema, run, version,
        whole_machine, whole_policy,
    };
    #[pymodule_export]
    use crate::trace::{
        before_gate, gate, recorded_pages, trace_copy, trace_format, trace_head, trace_info, trace_length,
        trace_verify, twins,
    };
    #[pymodule_export]
    use crate::workload::{fill_braces, list_workloads, mix, workload, workload_schema};
}
