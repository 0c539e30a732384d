//! Several traces interleaved in turns, as programs that run beside each other on one machine. Each is a process (or
//! several) of it, or has a virtual machine of its own. The turns follow from the description alone, so a mix is as
//! deterministic as its members. Its contents do not depend on the batches that they come in.

mod desc;
mod lane;
mod numbers;
mod queues;
mod source;

pub use desc::{Apart, Counted, End, MemberDesc, MixDesc, Schedule};
pub use numbers::{MACHINES_MAX, MEMBERS_MAX, NUMBERS, PID_BITS};
pub use source::{Part, mix};
