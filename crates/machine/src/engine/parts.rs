//! The engine: the state that all kinds of machines have, and the two parts in which they differ.

use super::state::State;

/// A machine that runs, of one kind.
pub(crate) struct Engine<B, X> {
    pub state: State,
    /// What lies below the kernel that the programs run on ([`super::Below`]).
    pub below: B,
    /// How CPUs spend time on references ([`super::Execution`]).
    pub execution: X,
}
