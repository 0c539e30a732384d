//! Events of the trace and the system calls behind them: mappings, advice, heaps, forks.

mod advice;
mod events;
mod fork;
mod heap;
mod layout;
mod populate;
