//! Long work on a thread of its own, while the thread that called listens for Ctrl-C, which Python hears on that one
//! alone.

use mmulab_kernel::Stop;
use pyo3::prelude::*;
use serde::Serialize;
use std::{
    panic::resume_unwind,
    sync::{
        Mutex,
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

/// How often Ctrl-C is looked for, and progress passed on.
const BEAT: Duration = Duration::from_millis(100);
/// As much stack as the first thread of a program has.
const STACK: usize = 8 << 20;

/// What the work reports to.
#[derive(Default)]
pub struct Desk {
    /// The newest progress, as JSON, until it is passed on.
    news: Mutex<Option<String>>,
    /// Whether the user wants an end.
    pub stop: Stop,
}

impl Desk {
    /// Leaves word of the progress; false once the work is to end.
    pub fn report(&self, now: &impl Serialize) -> bool {
        if let Ok(mut news) = self.news.lock() {
            *news = serde_json::to_string(now).ok();
        }
        !self.stop.is_asked()
    }

    /// Passes the news on; false if the callback raised, or Ctrl-C was pressed.
    fn pass_on(&self, on_progress: Option<&Py<PyAny>>) -> bool {
        let news = self.news.lock().ok().and_then(|mut news| news.take());
        Python::attach(|py| {
            let sent = match (on_progress, news) {
                (Some(on_progress), Some(news)) => on_progress.call1(py, (news,)).map(drop),
                _ => Ok(()),
            };
            sent.and_then(|()| py.check_signals()).is_ok()
        })
    }
}

/// Does `work`, and calls `on_progress` with its progress meanwhile. If `on_progress` raises or Ctrl-C is pressed, the
/// work is asked to end.
pub fn attended<R: Send>(
    py: Python<'_>,
    on_progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Desk) -> R + Send,
) -> PyResult<R> {
    let desk = Desk::default();
    let done = py.detach(|| {
        thread::scope(|scope| {
            let (over, ended) = channel::<()>();
            let desk = &desk;
            let worker =
                thread::Builder::new().name("mmulab".into()).stack_size(STACK).spawn_scoped(scope, move || {
                    // Dropped at the end, however that comes.
                    let _over = over;
                    work(desk)
                })?;
            while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                if !desk.pass_on(on_progress) {
                    desk.stop.ask();
                }
            }
            Ok::<_, std::io::Error>(worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    })?;
    // It is too late to stop: the last report says what was done.
    desk.pass_on(on_progress);
    Ok(done)
}
