//! One CPU: its TLBs, its walker and its clock.

mod clock;
mod record;

pub(crate) use {clock::Clock, record::Cpu};
