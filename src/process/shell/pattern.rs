//! Patterns with `*`, `?` and `[…]` (POSIX 2.13). Bytes are characters.

use std::ops::Range;

use crate::kernel::machine::limits::Stop;

/// Memory for a byte of a pattern, with spare capacity of lists.
pub const PART_BYTES: usize = 2 * size_of::<Part>();

/// Steps charged at a time.
const STEPS: u64 = 1 << 16;

/// Charges the steps of matching, whose number may grow quadratically with what a script chooses, so that
/// it can be interrupted.
pub struct Steps<'s> {
    taken: u64,
    spend: &'s mut dyn FnMut(u64) -> Result<(), Stop>,
}

impl<'s> Steps<'s> {
    /// Creates a counter that charges its steps with `spend`.
    pub fn new(spend: &'s mut dyn FnMut(u64) -> Result<(), Stop>) -> Self {
        Self { taken: 0, spend }
    }

    /// Counts `count` steps.
    ///
    /// # Errors
    /// Errors of `spend`.
    fn take(&mut self, count: usize) -> Result<(), Stop> {
        self.taken += count as u64;
        if self.taken < STEPS { Ok(()) } else { (self.spend)(std::mem::take(&mut self.taken)) }
    }
}

/// A pattern.
#[derive(Clone, Debug)]
pub struct Pattern(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Byte(u8),
    Any,
    Many,
    /// A set, and whether it is negated.
    Set(bool, Vec<Element>),
}

#[derive(Clone, Debug)]
enum Element {
    Range(u8, u8),
    Class(fn(&u8) -> bool),
}

impl Pattern {
    /// Parses `text`, in which the bytes at the positions `quoted`, in order, and those after a backslash
    /// match only themselves.
    ///
    /// # Errors
    /// Errors of `steps`.
    pub fn new(text: &[u8], quoted: &[usize], steps: &mut Steps<'_>) -> Result<Self, Stop> {
        let mut parts = Vec::new();
        let mut at = 0;
        let is_quoted = |at: usize| quoted.binary_search(&at).is_ok();
        while let Some(byte) = text.get(at) {
            let (part, len) = match byte {
                _ if is_quoted(at) => (Part::Byte(*byte), 1),
                b'*' => (Part::Many, 1),
                b'?' => (Part::Any, 1),
                b'\\' if at + 1 < text.len() => (Part::Byte(text[at + 1]), 2),
                b'[' => {
                    let set = set(text, at, &is_quoted);
                    // Without an end, the whole text was searched for it.
                    steps.take(set.as_ref().map_or(text.len(), |(_, end)| *end) - at)?;
                    set.map_or((Part::Byte(b'['), 1), |(part, end)| (part, end - at))
                }
                byte => (Part::Byte(*byte), 1),
            };
            parts.push(part);
            at += len;
        }
        Ok(Self(parts))
    }

    /// Returns whether it matches all of `text`.
    ///
    /// # Errors
    /// Errors of `steps`.
    pub fn matches(&self, text: &[u8], steps: &mut Steps<'_>) -> Result<bool, Stop> {
        let (mut part, mut at) = (0, 0);
        let mut retry = None;
        loop {
            steps.take(1)?;
            match self.0.get(part) {
                Some(Part::Many) => {
                    retry = Some((part, at));
                    part += 1;
                    continue;
                }
                Some(one) if at < text.len() && one.takes(text[at]) => {
                    part += 1;
                    at += 1;
                    continue;
                }
                None if at == text.len() => return Ok(true),
                _ => {}
            }
            // The last `*` takes one more byte; earlier ones need not.
            let Some((star, from)) = retry.filter(|(_, from)| *from < text.len()) else {
                return Ok(false);
            };
            retry = Some((star, from + 1));
            (part, at) = (star + 1, from + 1);
        }
    }

    /// Removes the shortest, or longest, matching prefix, or suffix, of `text`.
    ///
    /// # Errors
    /// Errors of `steps`.
    pub fn trim(
        &self,
        text: &[u8],
        suffix: bool,
        longest: bool,
        steps: &mut Steps<'_>,
    ) -> Result<Range<usize>, Stop> {
        let lens: &mut dyn Iterator<Item = usize> =
            if longest { &mut (0..=text.len()).rev() } else { &mut (0..=text.len()) };
        for len in lens {
            if suffix && self.matches(&text[text.len() - len..], steps)? {
                return Ok(0..text.len() - len);
            }
            if !suffix && self.matches(&text[..len], steps)? {
                return Ok(len..text.len());
            }
        }
        Ok(0..text.len())
    }

    /// Returns whether it can match only texts that begin with a dot.
    pub fn begins_with_dot(&self) -> bool {
        matches!(self.0.first(), Some(Part::Byte(b'.')))
    }

    /// Returns the only text that it matches, if there is just one.
    pub fn literal(&self) -> Option<Vec<u8>> {
        let byte = |part: &Part| match part {
            Part::Byte(byte) => Some(*byte),
            _ => None,
        };
        self.0.iter().map(byte).collect()
    }
}

impl Part {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Byte(known) => *known == byte,
            Self::Any => true,
            Self::Many => false,
            Self::Set(negated, elements) => {
                let takes = |element: &Element| match element {
                    Element::Range(first, last) => (*first..=*last).contains(&byte),
                    Element::Class(is_in) => is_in(&byte),
                };
                elements.iter().any(takes) != *negated
            }
        }
    }
}

/// Parses the set at `start`; returns its end, too. `None` if it has none.
fn set(text: &[u8], start: usize, is_quoted: &impl Fn(usize) -> bool) -> Option<(Part, usize)> {
    let mut at = start + 1;
    let negated = matches!(text.get(at), Some(b'!' | b'^')) && !is_quoted(at);
    at += usize::from(negated);
    let first = at;
    let mut elements = Vec::new();
    loop {
        let mut byte = *text.get(at)?;
        if byte == b']' && at > first && !is_quoted(at) {
            return Some((Part::Set(negated, elements), at + 1));
        }
        if byte == b'[' && text.get(at + 1) == Some(&b':') && !is_quoted(at) {
            let len = text[at + 2..].windows(2).position(|two| two == b":]")?;
            elements.push(Element::Class(class(&text[at + 2..at + 2 + len])?));
            at += len + 4;
            continue;
        }
        if byte == b'\\' && !is_quoted(at) {
            at += 1;
            byte = *text.get(at)?;
        }
        at += 1;
        let is_range = text.get(at) == Some(&b'-')
            && !is_quoted(at)
            && text.get(at + 1).is_some_and(|last| *last != b']' || is_quoted(at + 1));
        if is_range {
            at += 1;
            if text[at] == b'\\' && !is_quoted(at) {
                at += 1;
            }
            elements.push(Element::Range(byte, *text.get(at)?));
            at += 1;
        } else {
            elements.push(Element::Range(byte, byte));
        }
    }
}

fn class(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alpha" => u8::is_ascii_alphabetic,
        b"digit" => u8::is_ascii_digit,
        b"alnum" => u8::is_ascii_alphanumeric,
        b"upper" => u8::is_ascii_uppercase,
        b"lower" => u8::is_ascii_lowercase,
        b"space" => |byte| byte.is_ascii_whitespace() || *byte == 0x0b,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"punct" => u8::is_ascii_punctuation,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"graph" => u8::is_ascii_graphic,
        b"cntrl" => u8::is_ascii_control,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted_matches(pattern: &str, quoted: &[usize], text: &str) -> bool {
        let mut spend = |_| Ok(());
        let steps = &mut Steps::new(&mut spend);
        let pattern = Pattern::new(pattern.as_bytes(), quoted, steps).unwrap();
        pattern.matches(text.as_bytes(), steps).unwrap()
    }

    fn matches(pattern: &str, text: &str) -> bool {
        quoted_matches(pattern, &[], text)
    }

    #[test]
    fn patterns_match_as_posix_says() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("a*b*c", "a-b-b-c"),
            ("?[!a]", "xb"),
            ("[]a]", "]"),
            ("[a-c]", "b"),
            ("[[:digit:]x]", "7"),
            ("\\*", "*"),
            ("[", "["),
            ("[a", "[a"),
            ("[a\\]]", "]"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "b"), ("a*b", "ac"), ("[!a]", "a"), ("?", ""), ("\\*", "a")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
        assert!(!quoted_matches("*", &[0], "a"), "it is quoted");
    }

    /// Trying every place for every `*` would not end.
    #[test]
    fn many_stars_do_not_take_exponential_time() {
        assert!(!matches(&"*a".repeat(50), &"ab".repeat(200)));
    }

    /// Each of these would take hours.
    #[test]
    fn quadratic_matching_can_be_interrupted() {
        let mut spend = |_| Err(Stop::Exit(9));
        let steps = &mut Steps::new(&mut spend);
        let open = vec![b'['; 1 << 20];
        assert_eq!(Pattern::new(&open, &[], steps).err(), Some(Stop::Exit(9)));
        let text = vec![b'a'; 1 << 20];
        let pattern = Pattern::new(b"*a*b", &[], steps).unwrap();
        assert_eq!(pattern.trim(&text, true, true, steps), Err(Stop::Exit(9)));
        assert_eq!(pattern.matches(&text, steps), Err(Stop::Exit(9)));
    }

    #[test]
    fn trimming_cuts_the_shortest_or_the_longest_piece() {
        let trimmed = |pattern: &str, suffix, longest| {
            let text = b"a.b.c";
            let mut spend = |_| Ok(());
            let steps = &mut Steps::new(&mut spend);
            let pattern = Pattern::new(pattern.as_bytes(), &[], steps).unwrap();
            let left = pattern.trim(text, suffix, longest, steps).unwrap();
            String::from_utf8_lossy(&text[left]).into_owned()
        };
        assert_eq!(trimmed("*.", false, false), "b.c");
        assert_eq!(trimmed("*.", false, true), "c");
        assert_eq!(trimmed(".*", true, false), "a.b");
        assert_eq!(trimmed(".*", true, true), "a");
        assert_eq!(trimmed("x", true, true), "a.b.c");
    }
}
