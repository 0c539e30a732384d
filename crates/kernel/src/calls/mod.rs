//! Events of the trace and the system calls behind them: mappings, advice, heaps, forks.

mod advice;
mod events;
mod fork;
mod heap;
pub(crate) mod hints;
mod layout;
mod populate;
mod switch;
