//! `{NAME}` in texts.

/// What is wrong with a text's braces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BraceError {
    /// A brace that opens or closes nothing.
    Lone(char),
    /// A name that stands for nothing.
    Unknown(String),
}

/// The text with each `{NAME}` replaced by its value; `{{` and `}}` are braces.
///
/// # Errors
/// A brace without its partner, or a name that `value` does not know.
pub fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, BraceError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = rest.as_bytes()[at] as char;
        let after = &rest[at + 1..];
        if let Some(more) = after.strip_prefix(brace) {
            out.push(brace);
            rest = more;
        } else {
            let end = after.find('}').filter(|_| brace == '{').ok_or(BraceError::Lone(brace))?;
            let name = &after[..end];
            out.push_str(&value(name).ok_or_else(|| BraceError::Unknown(name.into()))?);
            rest = &after[end + 1..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, BraceError> {
        fill(text, |name| (name == "port").then(|| "80".into()))
    }

    #[test]
    fn names_are_replaced_and_doubled_braces_are_braces() {
        assert_eq!(filled("a{port}b{port}"), Ok("a80b80".into()));
        assert_eq!(filled("{{port}} {{{port}}}"), Ok("{port} {80}".into()));
        assert_eq!(filled(""), Ok(String::new()));
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        assert_eq!(filled("{prot}"), Err(BraceError::Unknown("prot".into())));
        assert_eq!(filled("{port"), Err(BraceError::Lone('{')));
        assert_eq!(filled("port}"), Err(BraceError::Lone('}')));
    }
}
