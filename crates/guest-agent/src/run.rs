//! Runs the program, and what drives it if it serves. Programs are followed by ptrace(2), stopped only when they
//! execute another program. So the recorder gets the mappings before the first instruction runs.

use crate::{bell, plan::Plan, processes};
use mmulab_visible::visible;
use std::{
    ffi::CString,
    io, ptr,
    time::{Duration, Instant},
};

/// How often a server is asked whether it serves.
const ASK: Duration = Duration::from_millis(200);
/// How often it is looked who ended, while something else is waited for too.
const LOOK: Duration = Duration::from_millis(10);
/// A shell's status of a command that cannot be executed.
const CANNOT_EXECUTE: i32 = 127;

type Pid = libc::pid_t;

struct Runner<'a> {
    plan: &'a Plan,
    program: Pid,
    /// The exit status of the program, once it ended.
    ended: Option<i32>,
    /// What runs besides the program and is waited for, and its exit status.
    other: Option<(Pid, Option<i32>)>,
    begun: bool,
}

/// Carries the plan out; the program's exit status.
pub fn run(plan: &Plan) -> Result<i32, String> {
    let mut runner = Runner { plan, program: 0, ended: None, other: None, begun: false };
    let serves = !plan.clients.is_empty();
    runner.program = start(&plan.program, plan, true)?;
    if !serves {
        while runner.ended.is_none() {
            runner.wait(true, true)?;
        }
        return Ok(runner.ended.unwrap_or_default());
    }
    runner.await_service()?;
    runner.begin();
    for client in &plan.clients {
        let status = runner.run_beside(client, true)?;
        if status != 0 {
            return Err(format!("{}: ended with status {status}", client.join(" ")));
        }
    }
    Ok(runner.ended.unwrap_or_default())
}

impl Runner<'_> {
    fn begin(&mut self) {
        self.begun = true;
        let all: String = processes::others().into_iter().map(processes::describe).collect();
        bell::ring(&format!("begin\n{all}"));
    }

    fn await_service(&mut self) -> Result<(), String> {
        let since = Instant::now();
        let patience = Duration::from_secs(self.plan.ready_seconds);
        while self.plan.ready.is_empty() || self.run_beside(&self.plan.ready, false)? != 0 {
            if let Some(status) = self.ended {
                return Err(format!("the server ended with status {status} before it served"));
            }
            if self.plan.ready.is_empty() || since.elapsed() > patience {
                return Err(format!("the server did not serve within {} s", patience.as_secs()));
            }
            std::thread::sleep(ASK);
        }
        Ok(())
    }

    /// Runs a command while the program runs; its exit status.
    fn run_beside(&mut self, command: &[String], followed: bool) -> Result<i32, String> {
        self.other = Some((start(command, self.plan, followed)?, None));
        loop {
            if let Some((_, Some(status))) = self.other {
                return Ok(status);
            }
            if !self.wait(false, false)? {
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Takes what happened to a process. Whether something had.
    fn wait(&mut self, block: bool, begins: bool) -> Result<bool, String> {
        let mut status = 0;
        let flags = libc::__WALL | if block { 0 } else { libc::WNOHANG };
        // SAFETY: the status outlives the call.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, flags) };
        if pid < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::EINTR) {
                Ok(false)
            } else {
                Err(format!("waiting: {error}"))
            };
        }
        if pid == 0 {
            return Ok(false);
        }
        if libc::WIFSTOPPED(status) {
            self.stopped(pid, status, begins);
            return Ok(true);
        }
        let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
        bell::ring(&format!("exit {pid} {code}\n"));
        if pid == self.program {
            self.ended = Some(code);
        } else if let Some((other, ended)) = &mut self.other
            && *other == pid
        {
            *ended = Some(code);
        }
        Ok(true)
    }

    fn stopped(&mut self, pid: Pid, status: i32, begins: bool) {
        let (event, signal) = (status >> 16, libc::WSTOPSIG(status));
        let mut request = libc::PTRACE_CONT;
        let mut pass_on = 0;
        match event {
            libc::PTRACE_EVENT_EXEC => {
                if begins && !self.begun {
                    self.begin();
                } else {
                    bell::ring(&format!("exec\n{}", processes::describe(pid as u32)));
                }
            }
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => request = libc::PTRACE_LISTEN,
            0 => pass_on = signal,
            _ => {}
        }
        // SAFETY: no memory of ours is involved. A process that is gone by now is no harm.
        unsafe { libc::ptrace(request, pid, ptr::null_mut::<u8>(), pass_on as libc::c_long) };
    }
}

/// Starts a command; `followed`: its executions, and those of its children, are told.
fn start(command: &[String], plan: &Plan, followed: bool) -> Result<Pid, String> {
    let c = |text: &str| CString::new(text).map_err(|_| format!("{text:?} has a zero byte in it"));
    let args = command.iter().map(|a| c(a)).collect::<Result<Vec<_>, _>>()?;
    let env = plan.env.iter().map(|(k, v)| c(&format!("{k}={v}"))).collect::<Result<Vec<_>, _>>()?;
    let directory = c(&plan.directory)?;
    let list = |all: &[CString]| all.iter().map(|a| a.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>();
    let (argv, envp) = (list(&args), list(&env));
    let mut gate = [0; 2];
    // SAFETY: between fork and exec the child makes system calls only, on memory made before; this program has one
    // thread.
    unsafe {
        if libc::pipe2(gate.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(format!("a pipe: {}", io::Error::last_os_error()));
        }
        let pid = libc::fork();
        if pid < 0 {
            return Err(format!("a new process: {}", io::Error::last_os_error()));
        }
        if pid == 0 {
            libc::setsid();
            libc::close(gate[1]);
            // Opens when the parent follows.
            libc::read(gate[0], [0u8; 1].as_mut_ptr().cast(), 1);
            libc::chdir(directory.as_ptr());
            libc::execvpe(argv[0], argv.as_ptr(), envp.as_ptr());
            let said = format!("mmulab: {}: {}\n", visible(&command[0]), io::Error::last_os_error());
            libc::write(2, said.as_ptr().cast(), said.len());
            libc::_exit(CANNOT_EXECUTE);
        }
        if followed {
            let options = libc::PTRACE_O_TRACEEXEC
                | libc::PTRACE_O_TRACEFORK
                | libc::PTRACE_O_TRACEVFORK
                | libc::PTRACE_O_TRACECLONE
                | libc::PTRACE_O_EXITKILL;
            if libc::ptrace(libc::PTRACE_SEIZE, pid, ptr::null_mut::<u8>(), libc::c_long::from(options)) != 0 {
                return Err(format!("following {}: {}", command[0], io::Error::last_os_error()));
            }
        }
        libc::close(gate[0]);
        libc::close(gate[1]);
        Ok(pid)
    }
}
