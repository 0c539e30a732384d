//! Declarations of each part: its name, its text in the schema, and its constructor.

/// Fault in a description: its key, within the section that the part is declared in, and the remedy. No key: the
/// section as a whole, or several keys.
pub(crate) type Wrong = (&'static str, String);

/// A part of a memory manager, made from settings of its kind (`settings.rs`); most need none.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lies in a folder of parts, but does not say what it is called and how it is made",
    label = "write `impl Part<{S}> for {Self}`",
    note = "each file of a folder of `parts` is a part; docs/contributing/policy.md says what such a file holds"
)]
pub(crate) trait Part<S = ()>: Sized {
    /// Its name in policy files.
    const NAME: &'static str;
    /// Its description, for the schema and the reference.
    const ABOUT: &'static str;

    /// The part of a run.
    ///
    /// # Errors
    /// Settings that it cannot have.
    fn new(settings: &S) -> Result<Self, Wrong>;
}
