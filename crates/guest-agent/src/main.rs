//! The first program of a system that `mmulab record --system` records. It prepares the system and runs the programs to
//! be recorded. It reports to the recorder, outside, which process is which, and the mappings of each when it begins.
//!
//! What it does itself is left out of the recording: it tells the recorder by a message at once that it is who it is.

mod bell;
mod memhog;
mod plan;
mod prepare;
mod processes;
mod run;
mod tunables;

use mmulab_visible::visible;
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("this is the first program of a system that mmulab records; `mmulab record --system` starts it");
        return ExitCode::FAILURE;
    }
    bell::ring("hello\n");
    let done = prepare::mounts()
        .and_then(|()| plan::read("/mmulab.plan"))
        .and_then(|plan| prepare::system(&plan).map(|()| plan))
        .and_then(|plan| run::run(&plan));
    let status = done.unwrap_or_else(|error| {
        eprintln!("mmulab: {}", visible(&error));
        bell::ring(&format!("trouble {error}\n"));
        1
    });
    bell::ring(&format!("over {status}\n"));
    prepare::power_off()
}
