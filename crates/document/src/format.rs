//! What a kind of configuration says of itself.

/// What documents of one format have in common, beyond being TOML.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Keys whose table names a `kind` and may be written as that kind alone.
    pub kind_keys: &'static [&'static str],
    /// Sections whose elements may come from a repeat, so that a name may not be in the file. An override of such an element
    /// waits for the repeats.
    pub repeated: &'static [&'static str],
    /// An override as somebody would write it, for help.
    pub override_example: &'static str,
}
