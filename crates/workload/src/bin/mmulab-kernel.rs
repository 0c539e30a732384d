//! Runs the algorithm of a generator in real memory: `mmulab-kernel NAME [key=value]...`, with the generator's keys.
//!
//! Its arrays lie where the generator's do. When their contents are ready, one page is unmapped; what it does to the
//! arrays from there on is what the generator tells of. It prints the time on a CPU that this part took.

use mmulab_visible::visible;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let Some(name) = arguments.next().filter(|name| !name.starts_with('-')) else {
        eprintln!("usage: mmulab-kernel NAME [key=value]...\nNAME: {}", mmulab_workload::NAMES.join(", "));
        return ExitCode::from(2);
    };
    let keys: Vec<String> = arguments.collect();
    match mmulab_workload::run_native(&format!("gen:{name}?{}", keys.join("&"))) {
        Ok(done) => {
            println!("{} rounds in {:.9} s", done.rounds, done.cpu.as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error @ mmulab_workload::NativeError::Generate(_)) => {
            eprintln!("error: {}", visible(error));
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("error: {}", visible(error));
            ExitCode::FAILURE
        }
    }
}
