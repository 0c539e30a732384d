//! The checking mode of a machine (`--check`).

mod checker;
mod compare;
mod log;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use checker::Checker;
