//! Names that not every system can have in its directories.

use std::fmt;

use unicode_normalization::UnicodeNormalization;

/// What Windows gives a meaning in paths.
const RESERVED_CHARACTERS: [char; 9] = ['\\', '/', ':', '*', '?', '"', '<', '>', '|'];

/// Devices, which have their names in every directory, also with an extension or spaces after them. `COM` and `LPT` are
/// followed by a digit.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];

/// Why Windows has no file of a name. See "Naming Files, Paths, and Namespaces" in the documentation of Windows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameProblem {
    /// It has this character.
    Character(char),
    /// It ends with this character, which Windows drops.
    Ending(char),
    /// It is a device, as upper-case name.
    Device(String),
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(character) => {
                write!(f, "Windows allows no {character:?} in the name of a file")
            }
            Self::Ending(' ') => write!(f, "Windows drops a space at the end of a name"),
            Self::Ending(_) => write!(f, "Windows drops a dot at the end of a name"),
            Self::Device(device) => write!(f, "on Windows, {device} is the name of a device"),
        }
    }
}

/// Returns why Windows cannot have a file or directory called `name`; `None` if it can.
pub fn windows_problem(name: &str) -> Option<NameProblem> {
    let is_reserved = |c: &char| RESERVED_CHARACTERS.contains(c) || c.is_ascii_control();
    if let Some(character) = name.chars().find(is_reserved) {
        return Some(NameProblem::Character(character));
    }
    if let Some(ending) = name.chars().next_back().filter(|last| matches!(last, '.' | ' ')) {
        return Some(NameProblem::Ending(ending));
    }
    let stem = name.split('.').next().unwrap_or(name).trim_end_matches(' ').to_uppercase();
    is_device(&stem).then_some(NameProblem::Device(stem))
}

fn is_device(stem: &str) -> bool {
    let number = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    let is_digit = |number: &str| {
        let mut characters = number.chars();
        let digit = characters.next().is_some_and(|c| c.is_ascii_digit() || "¹²³".contains(c));
        digit && characters.next().is_none()
    };
    DEVICES.contains(&stem) || number.is_some_and(is_digit)
}

/// A key that is equal for names that Windows may take for one: case folds there. Systems differ in the details, so equal
/// keys are a warning, not proof.
pub fn folded(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).collect()
}

/// As [`folded`], for macOS, where Unicode normalisation folds too.
pub fn folded_and_normalised(name: &str) -> String {
    folded(&name.nfd().collect::<String>()).nfd().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_one_file_may_have_fold_to_one_key() {
        let (composed, decomposed) = ("\u{c9}t\u{e9}", "e\u{301}TE\u{301}");
        assert_eq!(folded("Makefile"), folded("makeFILE"));
        assert_ne!(folded(composed), folded(decomposed));
        assert_eq!(folded_and_normalised(composed), folded_and_normalised(decomposed));
        assert_ne!(folded_and_normalised("a"), folded_and_normalised("\u{e1}"));
    }

    #[test]
    fn names_that_windows_reserves_are_recognised() {
        let device = |name: &str| Some(NameProblem::Device(name.to_owned()));
        for (name, problem) in [
            ("a", None),
            ("console", None),
            ("com", None),
            ("com10", None),
            ("COM٣", None),
            (".nul", None),
            ("nulls.txt", None),
            ("a b.c", None),
            ("nul", device("NUL")),
            ("Con.txt.gz", device("CON")),
            ("aux .c", device("AUX")),
            ("lpt¹", device("LPT¹")),
            ("COM0", device("COM0")),
            ("conout$", device("CONOUT$")),
            ("a:b", Some(NameProblem::Character(':'))),
            ("a\u{1}", Some(NameProblem::Character('\u{1}'))),
            ("a\\b", Some(NameProblem::Character('\\'))),
            ("a.", Some(NameProblem::Ending('.'))),
            ("a ", Some(NameProblem::Ending(' '))),
            ("nul.", Some(NameProblem::Ending('.'))),
        ] {
            assert_eq!(windows_problem(name), problem, "{name}");
        }
    }
}
