//! `test` and `[`.

use crate::kernel::guest::FileStat;
use crate::kernel::vfs::{FileType, Follow};
use crate::process::shell::context::{Run, Shell};

/// Most nested parentheses and negations.
const DEPTH_MAX: usize = 200;

const BINARY: [&str; 14] =
    ["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];

impl Shell {
    pub(super) async fn test(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let mut reader = Reader { args, shell: self, depth: 0 };
        let held = match args.len() {
            0 => Ok(false),
            _ => reader.all(),
        };
        match held {
            Ok(holds) => Ok(u8::from(!holds)),
            Err(message) => {
                self.say(&format!("test: {message}")).await?;
                Ok(2)
            }
        }
    }
}

struct Reader<'a, 's> {
    args: &'a [Vec<u8>],
    shell: &'s mut Shell,
    depth: usize,
}

type Tested = Result<bool, String>;

impl<'a> Reader<'a, '_> {
    /// Decides by the number of arguments, as in POSIX: text may look like an operator.
    fn all(&mut self) -> Tested {
        let is = |arg: &[u8], text: &str| arg == text.as_bytes();
        match self.args {
            [one] => return Ok(!one.is_empty()),
            [not, one] if is(not, "!") => return Ok(one.is_empty()),
            [a, operator, b] if is_binary(operator) => {
                let (a, operator, b) = (a.clone(), operator.clone(), b.clone());
                return self.binary(&a, &operator, &b);
            }
            [a, operator, b] if is(operator, "-a") => return Ok(!a.is_empty() && !b.is_empty()),
            [a, operator, b] if is(operator, "-o") => return Ok(!a.is_empty() || !b.is_empty()),
            [not, a, operator, b] if is(not, "!") && is_binary(operator) => {
                let (a, operator, b) = (a.clone(), operator.clone(), b.clone());
                return self.binary(&a, &operator, &b).map(|holds| !holds);
            }
            [open, one, close] if is(open, "(") && is(close, ")") => return Ok(!one.is_empty()),
            _ => {}
        }
        let holds = self.or()?;
        match self.args.first() {
            None => Ok(holds),
            Some(arg) => Err(format!("{}: unexpected operator", String::from_utf8_lossy(arg))),
        }
    }

    fn take(&mut self, text: &str) -> bool {
        match self.args.split_first() {
            Some((first, rest)) if first == text.as_bytes() => {
                self.args = rest;
                true
            }
            _ => false,
        }
    }

    fn next(&mut self) -> Result<&'a [u8], String> {
        let Some((first, rest)) = self.args.split_first() else {
            return Err("argument expected".to_owned());
        };
        self.args = rest;
        Ok(first)
    }

    fn or(&mut self) -> Tested {
        let mut holds = self.and()?;
        while self.take("-o") {
            holds |= !self.args.is_empty() && self.and()?;
        }
        Ok(holds)
    }

    fn and(&mut self) -> Tested {
        let mut holds = self.not()?;
        while self.take("-a") {
            holds &= !self.args.is_empty() && self.not()?;
        }
        Ok(holds)
    }

    fn not(&mut self) -> Tested {
        let is_operand =
            self.args.get(1).is_some_and(|next| is_binary(next)) && self.args.len() > 2;
        if is_operand || !self.take("!") {
            return self.primary();
        }
        self.deeper(Self::not).map(|holds| !holds)
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Tested) -> Tested {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("operators nested more than {DEPTH_MAX} deep"));
        }
        let holds = read(self);
        self.depth -= 1;
        holds
    }

    fn primary(&mut self) -> Tested {
        if let [a, operator, b, ..] = self.args
            && is_binary(operator)
        {
            self.args = &self.args[3..];
            return self.binary(a, operator, b);
        }
        if self.args.len() > 1 && self.take("(") {
            let holds = self.deeper(Self::or)?;
            return if self.take(")") { Ok(holds) } else { Err("closing paren expected".into()) };
        }
        let first = self.next()?;
        if let [b'-', letter] = first
            && b"bcdefghknprsStuwxzLOG".contains(letter)
            && !self.args.is_empty()
        {
            let operand = self.next()?;
            return self.unary(*letter, operand);
        }
        Ok(!first.is_empty())
    }

    fn stat(&mut self, path: &[u8], follow: Follow) -> Option<FileStat> {
        if path.is_empty() {
            return None;
        }
        self.shell.path_filestat_get(path, follow).ok()
    }

    fn unary(&mut self, letter: u8, operand: &[u8]) -> Tested {
        let is_type = |stat: Option<FileStat>, file_type: FileType| {
            stat.is_some_and(|stat| stat.metadata.file_type == file_type)
        };
        Ok(match letter {
            b'n' => !operand.is_empty(),
            b'z' => operand.is_empty(),
            b't' => {
                integer(operand)?;
                false
            }
            b'L' | b'h' => is_type(self.stat(operand, Follow::No), FileType::SymbolicLink),
            b'd' => is_type(self.stat(operand, Follow::Yes), FileType::Directory),
            b'f' => is_type(self.stat(operand, Follow::Yes), FileType::RegularFile),
            b'b' => is_type(self.stat(operand, Follow::Yes), FileType::BlockDevice),
            b'c' => is_type(self.stat(operand, Follow::Yes), FileType::CharacterDevice),
            b's' => self.stat(operand, Follow::Yes).is_some_and(|stat| stat.metadata.size > 0),
            b'x' if self.shell.guest.machine().kernel_version() > 7 => {
                !operand.is_empty() && self.shell.path_executable_get(operand).unwrap_or(false)
            }
            // Without other permissions, all that exists can be read and written.
            b'e' | b'r' | b'w' | b'x' | b'O' | b'G' => self.stat(operand, Follow::Yes).is_some(),
            _ => false,
        })
    }

    fn binary(&mut self, a: &[u8], operator: &[u8], b: &[u8]) -> Tested {
        let compared = |holds: fn(&i64, &i64) -> bool| Ok(holds(&integer(a)?, &integer(b)?));
        match operator {
            b"=" | b"==" => Ok(a == b),
            b"!=" => Ok(a != b),
            b"<" => Ok(a < b),
            b">" => Ok(a > b),
            b"-eq" => compared(i64::eq),
            b"-ne" => compared(i64::ne),
            b"-lt" => compared(i64::lt),
            b"-le" => compared(i64::le),
            b"-gt" => compared(i64::gt),
            b"-ge" => compared(i64::ge),
            _ => {
                let (a, b) = (self.stat(a, Follow::Yes), self.stat(b, Follow::Yes));
                let time = |stat: &FileStat| stat.metadata.times.mtim;
                let file = |stat: &FileStat| (stat.dev, stat.metadata.ino);
                Ok(match (operator, a, b) {
                    (b"-nt", Some(a), Some(b)) => time(&a) > time(&b),
                    (b"-ot", Some(a), Some(b)) => time(&a) < time(&b),
                    (b"-ef", Some(a), Some(b)) => file(&a) == file(&b),
                    (b"-nt", Some(_), None) | (b"-ot", None, Some(_)) => true,
                    _ => false,
                })
            }
        }
    }
}

fn is_binary(text: &[u8]) -> bool {
    BINARY.iter().any(|known| known.as_bytes() == text)
}

fn integer(text: &[u8]) -> Result<i64, String> {
    let illegal = || format!("Illegal number: {}", String::from_utf8_lossy(text));
    std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).ok_or_else(illegal)
}
