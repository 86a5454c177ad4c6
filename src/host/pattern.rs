//! Patterns of commands, matched against words that may be known in part only.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::process::{OutlineWord, outline};

/// Maximum length of a pattern.
const PATTERN_BYTES_MAX: usize = 4096;

/// Whether a command matches a pattern.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Match {
    /// It does not, whatever its unknown words are.
    No,
    /// It depends on words that are known at run time only.
    Maybe,
    /// It does.
    Yes,
}

/// A pattern of commands: words, quoted as in a shell. It matches commands that begin with these
/// words.
///
/// `*` as a word matches any number of words; within a word, `*` matches any text and `?` any
/// character. The first word is compared with the last component of the command's path, without
/// `.wasm`, unless it contains a slash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandPattern {
    text: String,
    words: Vec<WordPattern>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum WordPattern {
    AnyWords,
    One(Vec<Item>),
}

/// A piece of a word of a pattern or a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Item {
    Byte(u8),
    AnyByte,
    AnyText,
}

/// A pattern is invalid.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid command pattern {pattern:?}: {problem}; expected words, as in `git push *`")]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong.
    pub problem: String,
}

crate::base::readable::readable!(PatternError);

impl CommandPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`PatternError`]: it is empty, too long, or has shell operators.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let bad =
            |problem: &str| PatternError { pattern: text.to_owned(), problem: problem.into() };
        if text.len() > PATTERN_BYTES_MAX {
            return Err(bad("it exceeds 4096 bytes"));
        }
        let words = split(text).map_err(bad)?;
        if words.is_empty() {
            return Err(bad("it is empty"));
        }
        Ok(Self { text: text.to_owned(), words })
    }

    /// Whether `command` matches.
    pub fn matches(&self, command: &[OutlineWord]) -> Match {
        let takes_path = match self.words.first() {
            Some(WordPattern::One(items)) => items.contains(&Item::Byte(b'/')),
            _ => false,
        };
        let mut first = command.first().and_then(items);
        if let (Some(first), false) = (&mut first, takes_path) {
            *first = base_name(first);
        }
        if let (Some(WordPattern::One(pattern)), Some(first)) = (self.words.first(), &first)
            && matches_word(pattern, first) == Match::No
        {
            return Match::No;
        }
        let is_one_by_one = !self.words.contains(&WordPattern::AnyWords)
            && command.iter().take(self.words.len()).all(|word| *word != OutlineWord::Many);
        // Later words cannot matter, and may be many.
        let compared = if is_one_by_one { self.words.len() } else { command.len() };
        let rest = command.iter().take(compared).skip(1).map(items);
        let command: Vec<Option<Vec<Item>>> =
            command.first().map(|_| first).into_iter().chain(rest).collect();
        // `rows[at]`: how the rest of the pattern matches the command from word `at` on.
        let mut rows = vec![Match::Yes; command.len() + 1];
        for pattern in self.words.iter().rev() {
            let below = rows.clone();
            for at in (0..=command.len()).rev() {
                rows[at] = match (pattern, command.get(at)) {
                    (WordPattern::AnyWords, None) => below[at],
                    (WordPattern::AnyWords, Some(_)) => below[at].max(rows[at + 1]),
                    (WordPattern::One(_), None) => Match::No,
                    // An unknown number of words: none, one of several, or the first of them.
                    (WordPattern::One(_), Some(None)) => {
                        Match::Maybe.min(below[at].max(below[at + 1]).max(rows[at + 1]))
                    }
                    (WordPattern::One(pattern), Some(Some(word))) => {
                        below[at + 1].min(matches_word(pattern, word))
                    }
                };
            }
        }
        rows[0]
    }
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits a pattern into words. Quotes and backslashes make `*` and `?` literal.
fn split(text: &str) -> Result<Vec<WordPattern>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<Vec<Item>> = None;
    let mut quote = None;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let items = match (quote, byte) {
            (None, b' ' | b'\t') => {
                words.extend(word.take().map(word_pattern));
                continue;
            }
            (None, b'\n' | b'\r') => return Err("it must be a single line"),
            (None, b'|' | b'&' | b';' | b'<' | b'>' | b'(' | b')' | b'$' | b'`') => {
                return Err("it contains a shell operator; quote it");
            }
            _ => word.get_or_insert_default(),
        };
        match (quote, byte) {
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            (None | Some(b'"'), b'\\') => {
                let Some(next) = bytes.next() else { return Err("it ends with a backslash") };
                items.push(Item::Byte(next));
            }
            (None, b'*') => items.push(Item::AnyText),
            (None, b'?') => items.push(Item::AnyByte),
            (_, byte) => items.push(Item::Byte(byte)),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed");
    }
    words.extend(word.map(word_pattern));
    Ok(words)
}

fn word_pattern(items: Vec<Item>) -> WordPattern {
    if items == [Item::AnyText] { WordPattern::AnyWords } else { WordPattern::One(items) }
}

/// The known pieces of a word; `None` if it may be any number of words.
fn items(word: &OutlineWord) -> Option<Vec<Item>> {
    let OutlineWord::One(pieces) = word else { return None };
    let mut items = Vec::new();
    for piece in pieces {
        match piece {
            Some(text) => items.extend(text.iter().copied().map(Item::Byte)),
            None => items.push(Item::AnyText),
        }
    }
    Some(items)
}

/// The last component of a path, without `.wasm`.
fn base_name(path: &[Item]) -> Vec<Item> {
    let start = path.iter().rposition(|item| *item == Item::Byte(b'/')).map_or(0, |at| at + 1);
    let suffix = b".wasm".map(Item::Byte);
    let name = &path[start..];
    name.strip_suffix(&suffix).filter(|stem| !stem.is_empty()).unwrap_or(name).to_vec()
}

fn matches_word(pattern: &[Item], word: &[Item]) -> Match {
    let is_known = !word.contains(&Item::AnyText);
    match (overlaps(pattern, word), is_known || pattern == [Item::AnyText]) {
        (false, _) => Match::No,
        (true, true) => Match::Yes,
        (true, false) => Match::Maybe,
    }
}

/// Whether some text matches both `pattern` and `word`.
fn overlaps(pattern: &[Item], word: &[Item]) -> bool {
    // Positions in the pattern that can be reached after each item of the word.
    let mut places = vec![false; pattern.len() + 1];
    places[0] = true;
    skip_any(pattern, &mut places);
    for item in word {
        let mut next = vec![false; pattern.len() + 1];
        for (at, _) in places.iter().enumerate().filter(|(_, is_here)| **is_here) {
            if *item == Item::AnyText {
                // Unknown text may match any number of the following items.
                next[at..].fill(true);
                break;
            }
            match pattern.get(at) {
                Some(Item::AnyText) => next[at] = true,
                Some(Item::AnyByte) => next[at + 1] = true,
                Some(Item::Byte(byte)) if *item == Item::Byte(*byte) => next[at + 1] = true,
                Some(Item::Byte(_)) | None => {}
            }
        }
        skip_any(pattern, &mut next);
        if !next.contains(&true) {
            return false;
        }
        places = next;
    }
    places[pattern.len()]
}

fn skip_any(pattern: &[Item], places: &mut [bool]) {
    for (at, item) in pattern.iter().enumerate() {
        if places[at] && *item == Item::AnyText {
            places[at + 1] = true;
        }
    }
}

/// Programs that run a command given by their arguments.
const WRAPPERS: [&[u8]; 24] = [
    b"box",
    b"builtin",
    b"busybox",
    b"chroot",
    b"command",
    b"doas",
    b"env",
    b"exec",
    b"find",
    b"flock",
    b"ionice",
    b"nice",
    b"nohup",
    b"parallel",
    b"setsid",
    b"stdbuf",
    b"strace",
    b"sudo",
    b"taskset",
    b"time",
    b"timeout",
    b"unshare",
    b"watch",
    b"xargs",
];

/// Shells, which run the script after `-c`.
const SHELLS: [&[u8]; 8] = [b"ash", b"bash", b"dash", b"ksh", b"mksh", b"sh", b"yash", b"zsh"];

/// Nesting of commands in commands; deeper ones are unknown.
const DEPTH_MAX: usize = 8;

/// Commands that one may contain; more are unknown.
const COMMANDS_MAX: usize = 4096;

/// Limit of arguments of a wrapper that are examined.
const WRAPPED_MAX: usize = 64;

/// A command and all commands that its words contain: scripts after `sh -c`, commands of `env`,
/// `xargs` and the like, words of `eval`.
#[derive(Clone, Default)]
pub struct Commands(Vec<Words>);

/// The words of a command from a position on.
#[derive(Clone)]
struct Words {
    all: Arc<[OutlineWord]>,
    from: usize,
}

impl Deref for Words {
    type Target = [OutlineWord];

    fn deref(&self) -> &[OutlineWord] {
        &self.all[self.from..]
    }
}

impl From<Vec<OutlineWord>> for Words {
    fn from(words: Vec<OutlineWord>) -> Self {
        Self { all: words.into(), from: 0 }
    }
}

impl Commands {
    /// The commands of a program with its arguments.
    pub fn of_words<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut all = Self::default();
        all.add(words.into_iter().map(OutlineWord::known).collect::<Vec<_>>().into(), 0);
        all
    }

    /// Adds the commands of `others`.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The best match of `pattern` among the commands.
    pub fn best(&self, pattern: &CommandPattern) -> Match {
        self.0.iter().map(|command| pattern.matches(command)).max().unwrap_or(Match::No)
    }

    fn add_script(&mut self, script: &[u8], depth: usize) {
        match outline(script) {
            Ok(commands) => {
                for command in commands {
                    self.add(command.into(), depth);
                }
            }
            Err(_) => self.add_unknown(),
        }
    }

    /// Adds a command of unknown words.
    fn add_unknown(&mut self) {
        self.0.push(vec![OutlineWord::Many].into());
    }

    fn add(&mut self, words: Words, depth: usize) {
        if depth > DEPTH_MAX || self.0.len() >= COMMANDS_MAX {
            return self.add_unknown();
        }
        let name = words.first().and_then(OutlineWord::text).map(name_of);
        let args = words.get(1..).unwrap_or_default();
        let is_end = |word: &OutlineWord| word.text() == Some(b"--");
        let after_end = if args.first().is_some_and(is_end) { &args[1..] } else { args };
        let within = depth + 1;
        match name.as_deref() {
            Some(name) if SHELLS.contains(&name) => match script_of_shell(args) {
                Script::None => {}
                Script::Unknown => self.add_unknown(),
                Script::Text(text) => self.add_script(text, within),
            },
            Some(b"eval") => {
                match after_end.iter().map(OutlineWord::text).collect::<Option<Vec<_>>>() {
                    Some(texts) => self.add_script(&texts.join(&b' '), within),
                    None => self.add_unknown(),
                }
            }
            Some(b"trap") => match after_end.first().map(OutlineWord::text) {
                Some(Some(text)) => self.add_script(text, within),
                Some(None) => self.add_unknown(),
                None => {}
            },
            // These run or rename commands in ways that are not examined.
            Some(
                b"." | b"alias" | b"bind" | b"compgen" | b"complete" | b"enable" | b"fc" | b"hash"
                | b"mapfile" | b"readarray" | b"source",
            ) => self.add_unknown(),
            Some(name) if WRAPPERS.contains(&name) => {
                if args.len() > WRAPPED_MAX {
                    self.add_unknown();
                }
                for at in 1..words.len().min(1 + WRAPPED_MAX) {
                    let from = words.from + at;
                    self.add_wrapped(Words { all: words.all.clone(), from }, within);
                }
            }
            _ => {}
        }
        self.0.push(words);
    }

    /// Adds `words`, which a wrapper may run, unless the first is an option or an assignment.
    fn add_wrapped(&mut self, words: Words, depth: usize) {
        let is_other = |text: &[u8]| text.starts_with(b"-") || text.contains(&b'=');
        match words[0].text() {
            // `env '-Srm x'`, `env --split-string='rm x'`.
            Some(text) if let Some(script) = script_in_option(text) => {
                self.add_script(script, depth);
            }
            // `env -S 'rm x'`, `watch 'rm x'`.
            Some(text) if text.iter().any(u8::is_ascii_whitespace) => self.add_script(text, depth),
            Some(text) if is_other(text) => {}
            // Its arguments are examined by the loop that called this.
            Some(text) if WRAPPERS.contains(&&*name_of(text)) => self.0.push(words),
            _ => self.add(words, depth),
        }
    }
}

fn name_of(path: &[u8]) -> Vec<u8> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.strip_suffix(b".wasm").filter(|stem| !stem.is_empty()).unwrap_or(name).to_vec()
}

/// The command within an option such as `-S`.
fn script_in_option(text: &[u8]) -> Option<&[u8]> {
    let long = text.strip_prefix(b"--split-string=");
    let short = || {
        let at = text.iter().position(|byte| *byte == b'S')?;
        let is_short = text[0] == b'-' && text[1..at].iter().all(u8::is_ascii_lowercase);
        Some(&text[at + 1..]).filter(|script| is_short && !script.is_empty())
    };
    long.or_else(short)
}

enum Script<'a> {
    None,
    Unknown,
    Text(&'a [u8]),
}

/// What a shell with these arguments runs, if the arguments say so.
fn script_of_shell(args: &[OutlineWord]) -> Script<'_> {
    let (mut takes_text, mut is_long) = (false, false);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(text) = arg.text() else { return Script::Unknown };
        let is_option = text.len() > 1 && matches!(text[0], b'-' | b'+');
        if text == b"--" || text == b"-" {
            continue;
        }
        if !is_option {
            return match (takes_text, is_long) {
                (true, _) => Script::Text(text),
                // It may be the value of a long option.
                (false, true) => Script::Unknown,
                (false, false) => Script::None,
            };
        }
        is_long |= text.starts_with(b"--");
        takes_text |= !text.starts_with(b"--") && text.contains(&b'c');
        match text.iter().position(|byte| b"oO".contains(byte)) {
            _ if text.starts_with(b"--") => {}
            None => {}
            Some(at) if at + 1 == text.len() => drop(rest.next()),
            // Shells differ: the rest is the name of an option, or more options.
            Some(_) => return Script::Unknown,
        }
    }
    Script::None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str, script: &str) -> Match {
        let pattern = CommandPattern::new(pattern).unwrap();
        Commands::of_words([b"sh".as_slice(), b"-c", script.as_bytes()]).best(&pattern)
    }

    #[test]
    fn pattern_matches_a_prefix_of_the_words() {
        assert_eq!(of("rm", "rm -rf /"), Match::Yes);
        assert_eq!(of("rm *", "rm"), Match::Yes);
        assert_eq!(of("git push", "git push origin"), Match::Yes);
        assert_eq!(of("git push", "git pull"), Match::No);
        assert_eq!(of("git push", "git"), Match::No);
        assert_eq!(of("git push * --force", "git push origin main --force"), Match::Yes);
        assert_eq!(of("git push * --force", "git push --force-with-lease"), Match::No);
        assert_eq!(of("* --force", "anything at all --force"), Match::Yes);
        assert_eq!(of("rm*", "rmdir x"), Match::Yes);
        assert_eq!(of("rm -r?", "rm -rf x"), Match::Yes);
        assert_eq!(of("echo '*'", "echo x"), Match::No);
        assert_eq!(of("echo '*'", "echo '*'"), Match::Yes);
        assert_eq!(of("rm", "echo rm"), Match::No);
    }

    #[test]
    fn program_path_matters_only_if_the_pattern_has_a_slash() {
        assert_eq!(of("rm", "/bin/rm x; ./rm.wasm"), Match::Yes);
        assert_eq!(of("/bin/rm", "rm x"), Match::No);
        assert_eq!(of("/bin/*", "/bin/rm x"), Match::Yes);
    }

    #[test]
    fn unknown_words_may_match() {
        assert_eq!(of("rm", "$x -rf /"), Match::Maybe);
        assert_eq!(of("rm", "r$x /"), Match::Maybe);
        assert_eq!(of("rm", "\"r$x\" /"), Match::Maybe);
        assert_eq!(of("rm", "\"s$x\" /"), Match::No);
        assert_eq!(of("rm", "/bin/?m x"), Match::Maybe);
        assert_eq!(of("git push", "git $args"), Match::Maybe);
        assert_eq!(of("git push", "echo $args"), Match::No);
        assert_eq!(of("rm", "eval \"$x\""), Match::Maybe);
        assert_eq!(of("rm", "sh -c \"$x\""), Match::Maybe);
        assert_eq!(of("rm", ". ./script"), Match::Maybe);
        assert_eq!(of("rm", "bash --rcfile x -c 'rm x'"), Match::Maybe);
        assert_eq!(of("rm", "if"), Match::Maybe, "no script at all");
        assert_eq!(of("rm", "bash -oc errexit 'rm x'"), Match::Maybe);
        assert_eq!(of("rm", "zsh -oerrexit -c 'rm x'"), Match::Maybe);
        assert_eq!(of("rm", "bash -c 'alias x=rm'"), Match::Maybe);
        assert_eq!(of("rm", "bash -c 'hash -p /bin/rm x; x y'"), Match::Maybe);
        assert_eq!(of("rm *", "\"$@\""), Match::Maybe);
    }

    #[test]
    fn nested_commands_are_found() {
        for script in [
            "r\\m x",
            "'rm' x",
            "r'm' x",
            "\"r\"m x",
            "echo $(rm x)",
            "echo `rm x`",
            "echo \"$(echo $(rm x))\"",
            "x=$(rm x)",
            "echo > $(rm x)",
            "cat <<E\n$(rm x)\nE",
            "true\nrm x",
            "true &\nrm x",
            "r\\\nm x",
            "sh -c 'rm x'",
            "sh -ec 'rm x'",
            "sh -e -u -o pipefail -c 'rm x' name",
            "/bin/sh -c \"sh -c 'rm x'\"",
            "bash -c 'true && rm x'",
            "eval rm x",
            "eval 'r''m' x",
            "eval 'eval \"rm x\"'",
            "command rm x",
            "command -p rm x",
            "exec rm x",
            "env rm x",
            "env -i A=1 B=2 rm x",
            "env -S 'rm x'",
            "env -S 'rm\tx'",
            "env '-Srm x'",
            "env -iSrm",
            "env --split-string='rm x'",
            "eval -- rm x",
            "trap -- 'rm x' EXIT",
            "env sh -c 'rm x'",
            "nice -n 5 timeout 3 rm x",
            "nohup env command rm x",
            "box rm x",
            "echo x | xargs -n 1 rm",
            "find . -exec rm {} \\;",
            "trap 'rm x' EXIT",
            "f() { rm x; }",
            "(rm x)",
            "! rm x",
            "A=1 rm x",
            "<in rm x",
            "if true; then rm x; fi",
        ] {
            assert_eq!(of("rm", script), Match::Yes, "{script}");
        }
    }

    #[test]
    fn matching_a_long_command_is_fast() {
        let words = vec![b"xargs".as_slice(); 50_000];
        let pattern = CommandPattern::new("* rm * -rf * /").unwrap();
        assert_eq!(Commands::of_words(words).best(&pattern), Match::Maybe);
        let long = "a".repeat(1 << 20);
        let pattern = CommandPattern::new("echo a*a*a*b").unwrap();
        assert_eq!(Commands::of_words([b"echo", long.as_bytes()]).best(&pattern), Match::No);
        let long = vec![long.as_bytes(); 8];
        let wrapped = std::iter::once(b"env".as_slice()).chain(long);
        let pattern = CommandPattern::new("rm").unwrap();
        assert_eq!(Commands::of_words(wrapped).best(&pattern), Match::No);
    }

    #[test]
    fn invalid_pattern_is_refused() {
        for (pattern, why) in [
            ("", "empty"),
            ("  ", "empty"),
            ("a | b", "operator"),
            ("rm; x", "operator"),
            ("$x", "operator"),
            ("'a", "quote"),
            ("a\\", "backslash"),
            ("a\nb", "line"),
        ] {
            let error = CommandPattern::new(pattern).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
