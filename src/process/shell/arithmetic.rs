//! Arithmetic expansion: C expressions over 64-bit integers, which wrap.

/// The variables of an expression.
pub trait Names {
    /// The value of a variable; empty if unset.
    fn get(&self, name: &[u8]) -> Vec<u8>;
    /// Sets a variable.
    fn set(&mut self, name: &[u8], value: i64) -> Result<(), String>;
}

/// Most nested parentheses, unary operators and assignments.
const DEPTH_MAX: u32 = 200;

/// Evaluates `text`.
///
/// # Errors
/// The problem, in a few words.
pub fn evaluate(text: &[u8], names: &mut dyn Names) -> Result<i64, String> {
    let mut reader = Reader { rest: text, whole: text, names, is_skipped: false, depth: 0 };
    reader.skip_blanks();
    if reader.rest.is_empty() {
        return Ok(0);
    }
    let value = reader.assignment()?;
    if reader.rest.is_empty() { Ok(value) } else { Err(reader.malformed()) }
}

/// Parses a number in C's notation: `0x` is base 16, `0` base 8. Like `strtoimax`, it returns the nearest
/// value for one out of range.
pub fn number(text: &[u8]) -> Option<i64> {
    Some(wide_number(text)?.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// As [`number`], up to the largest unsigned value, like `strtoumax`.
pub fn wide_number(text: &[u8]) -> Option<i128> {
    let text = text.trim_ascii();
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    let (radix, digits) = radix(digits);
    let magnitude = magnitude(digits, radix)?;
    Some(if negative { -magnitude } else { magnitude })
}

/// Returns the base of `digits`, and the digits without its prefix.
fn radix(digits: &[u8]) -> (u32, &[u8]) {
    match digits {
        [b'0', b'x' | b'X', rest @ ..] => (16, rest),
        [b'0', rest @ ..] if !rest.is_empty() => (8, rest),
        _ => (10, digits),
    }
}

/// Parses `digits`; `None` if they are not digits.
fn magnitude(digits: &[u8], radix: u32) -> Option<i128> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_i128, |value, byte| {
        let digit = (*byte as char).to_digit(radix)?;
        Some(value.saturating_mul(radix.into()).saturating_add(digit.into()))
    })
}

struct Reader<'t, 'n> {
    rest: &'t [u8],
    whole: &'t [u8],
    names: &'n mut dyn Names,
    /// Whether evaluation has no effect: in the skipped side of `&&`, `||` or `?:`.
    is_skipped: bool,
    depth: u32,
}

/// Binary operators by precedence, lowest first; one that begins with another comes before it.
const LEVELS: [&[&str]; 8] = [
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

const ASSIGNMENTS: [&str; 11] = ["=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="];

impl Reader<'_, '_> {
    fn malformed(&self) -> String {
        let shown = String::from_utf8_lossy(self.whole);
        format!("arithmetic expression: syntax error: \"{shown}\"")
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn take(&mut self, text: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(text.as_bytes()) else { return false };
        self.rest = rest;
        self.skip_blanks();
        true
    }

    fn name(&self) -> &[u8] {
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        match self.rest.first() {
            Some(byte) if byte.is_ascii_alphabetic() || *byte == b'_' => {
                &self.rest[..self.rest.iter().take_while(is_part).count()]
            }
            _ => &[],
        }
    }

    fn deeper(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<i64, String>,
    ) -> Result<i64, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!(
                "arithmetic expression: operators nested more than {DEPTH_MAX} deep"
            ));
        }
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn skipping(
        &mut self,
        skip: bool,
        read: impl FnOnce(&mut Self) -> Result<i64, String>,
    ) -> Result<i64, String> {
        let before = self.is_skipped;
        self.is_skipped |= skip;
        let value = read(self);
        self.is_skipped = before;
        value
    }

    fn assignment(&mut self) -> Result<i64, String> {
        let name = self.name().to_vec();
        if !name.is_empty() {
            let after = self.rest[name.len()..].trim_ascii_start();
            let is_it = |op: &&&str| after.starts_with(op.as_bytes()) && !after.starts_with(b"==");
            if let Some(operator) = ASSIGNMENTS.iter().rev().find(is_it) {
                self.rest = after[operator.len()..].trim_ascii_start();
                let value = self.deeper(Self::assignment)?;
                let value = match operator.strip_suffix('=') {
                    Some("") | None => value,
                    Some(operator) => {
                        let before = self.variable(&name)?;
                        self.apply(operator, before, value)?
                    }
                };
                if !self.is_skipped {
                    self.names.set(&name, value)?;
                }
                return Ok(value);
            }
        }
        self.conditional()
    }

    fn conditional(&mut self) -> Result<i64, String> {
        let condition = self.or()?;
        if !self.take("?") {
            return Ok(condition);
        }
        let holds = condition != 0;
        let one = self.skipping(!holds, |reader| reader.deeper(Self::assignment))?;
        if !self.take(":") {
            return Err(self.malformed());
        }
        let other = self.skipping(holds, |reader| reader.deeper(Self::conditional))?;
        Ok(if holds { one } else { other })
    }

    fn or(&mut self) -> Result<i64, String> {
        let mut value = self.and()?;
        while self.take("||") {
            let right = self.skipping(value != 0, Self::and)?;
            value = i64::from(value != 0 || right != 0);
        }
        Ok(value)
    }

    fn and(&mut self) -> Result<i64, String> {
        let mut value = self.binary(0)?;
        while self.take("&&") {
            let right = self.skipping(value == 0, |reader| reader.binary(0))?;
            value = i64::from(value != 0 && right != 0);
        }
        Ok(value)
    }

    fn binary(&mut self, level: usize) -> Result<i64, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut value = self.binary(level + 1)?;
        loop {
            let rest = self.rest;
            let is_next = |op: &&&str| {
                let after = rest.strip_prefix(op.as_bytes());
                // `|` is not the beginning of `||`, nor `<` that of `<<`, nor `+` that of `+=`.
                after.is_some_and(|after| match op.as_bytes() {
                    [one @ (b'|' | b'&' | b'<' | b'>')] => after.first() != Some(one),
                    _ => true,
                })
            };
            let Some(operator) = operators.iter().find(is_next) else { return Ok(value) };
            self.take(operator);
            let right = self.binary(level + 1)?;
            value = self.apply(operator, value, right)?;
        }
    }

    fn apply(&self, operator: &str, a: i64, b: i64) -> Result<i64, String> {
        Ok(match operator {
            "|" => a | b,
            "^" => a ^ b,
            "&" => a & b,
            "==" => i64::from(a == b),
            "!=" => i64::from(a != b),
            "<=" => i64::from(a <= b),
            ">=" => i64::from(a >= b),
            "<" => i64::from(a < b),
            ">" => i64::from(a > b),
            "<<" => a.wrapping_shl(u32::try_from(b & 63).unwrap_or(0)),
            ">>" => a.wrapping_shr(u32::try_from(b & 63).unwrap_or(0)),
            "+" => a.wrapping_add(b),
            "-" => a.wrapping_sub(b),
            "*" => a.wrapping_mul(b),
            _ if b == 0 && self.is_skipped => 0,
            _ if b == 0 => return Err("arithmetic expression: division by zero".to_owned()),
            "/" => a.wrapping_div(b),
            _ => a.wrapping_rem(b),
        })
    }

    fn unary(&mut self) -> Result<i64, String> {
        let Some(byte) = self.rest.first() else { return Err(self.malformed()) };
        let operator = match byte {
            b'-' => i64::wrapping_neg,
            b'+' => |value| value,
            b'~' => |value: i64| !value,
            b'!' if !self.rest.starts_with(b"!=") => |value| i64::from(value == 0),
            b'(' => {
                self.take("(");
                let value = self.deeper(Self::assignment)?;
                return if self.take(")") { Ok(value) } else { Err(self.malformed()) };
            }
            _ => return self.operand(),
        };
        self.rest = &self.rest[1..];
        self.skip_blanks();
        self.deeper(Self::unary).map(operator)
    }

    fn operand(&mut self) -> Result<i64, String> {
        let name = self.name().to_vec();
        if !name.is_empty() {
            self.rest = &self.rest[name.len()..];
            self.skip_blanks();
            return self.variable(&name);
        }
        let len = self.rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let value = number(&self.rest[..len]).ok_or_else(|| self.malformed())?;
        self.rest = &self.rest[len..];
        self.skip_blanks();
        Ok(value)
    }

    fn variable(&self, name: &[u8]) -> Result<i64, String> {
        if self.is_skipped {
            return Ok(0);
        }
        let text = self.names.get(name);
        if text.trim_ascii().is_empty() {
            return Ok(0);
        }
        let shown = || format!("Illegal number: {}", String::from_utf8_lossy(&text));
        number(&text).ok_or_else(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct X(i64);

    impl Names for X {
        fn get(&self, _: &[u8]) -> Vec<u8> {
            self.0.to_string().into_bytes()
        }

        fn set(&mut self, _: &[u8], value: i64) -> Result<(), String> {
            self.0 = value;
            Ok(())
        }
    }

    fn value(text: &str) -> Result<i64, String> {
        evaluate(text.as_bytes(), &mut X(5))
    }

    #[test]
    fn operators_bind_as_in_c() {
        for (text, expected) in [
            ("", 0),
            ("1+2*3", 7),
            ("(1+2)*3", 9),
            ("7-2-1", 4),
            ("-7/2", -3),
            ("-7%3", -1),
            ("1<<4>>1", 8),
            ("6&3|8^1", 11),
            ("1<2==1", 1),
            ("!5+1", 1),
            ("~0", -1),
            ("0x1F+010", 39),
            ("x=3, x", 0),
            ("x == 5 ? 1 : 2", 1),
            ("x+=2", 7),
            ("x<<=2", 20),
            ("0 && x/0", 0),
            ("1 || x/0", 1),
            ("1 ? 2 : x/0", 2),
            ("- -3", 3),
            ("9223372036854775807+1", i64::MIN),
            ("-9223372036854775807-1", i64::MIN),
            ("(-9223372036854775807-1)/-1", i64::MIN),
        ] {
            if text.contains(',') {
                assert!(value(text).is_err(), "{text}");
            } else {
                assert_eq!(value(text), Ok(expected), "{text}");
            }
        }
    }

    #[test]
    fn invalid_expressions_are_errors() {
        for text in ["1+", "1 2", "(1", "08", "1/0", "1%0", "a b", "=1", "1?2", "*"] {
            assert!(value(text).is_err(), "{text}");
        }
        for deep in ["(", "-", "x=", "1?"] {
            assert!(value(&deep.repeat(100_000)).is_err());
        }
    }
}
