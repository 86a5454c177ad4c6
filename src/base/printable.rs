//! Text of programs in messages.

/// `text` with control characters escaped: a guest that names files must not write on the terminal,
/// nor make a name look like another one.
pub fn printable(text: &str) -> String {
    let escape = |c: char| {
        if c.is_control() || is_invisible(c) { c.escape_default().to_string() } else { c.into() }
    };
    text.chars().map(escape).collect()
}

/// Whether a terminal shows nothing for `c`, or shows what stands around it in another order: the
/// characters of Unicode for formatting, and those that end lines and paragraphs.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name could once be shown in another order than it has, or look like another one.
    #[test]
    fn what_misleads_on_a_terminal_is_escaped() {
        assert_eq!(printable("a\u{202e}txt.exe"), r"a\u{202e}txt.exe");
        assert_eq!(printable("no\u{200b}te\u{feff}\u{2066}"), r"no\u{200b}te\u{feff}\u{2066}");
        assert_eq!(printable("\u{1b}[31m\n\u{9b}"), r"\u{1b}[31m\n\u{9b}");
        assert_eq!(printable("\u{e0041}\u{2029}\u{61c}"), r"\u{e0041}\u{2029}\u{61c}");
        let plain = "naïve e\u{301} 日本語 עברית 🦀 \\ \" '";
        assert_eq!(printable(plain), plain);
    }
}
