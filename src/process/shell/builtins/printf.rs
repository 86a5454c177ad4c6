//! `printf`.

use super::printing::unescape;
use crate::process::shell::context::{Run, Shell};

/// Largest width or precision, in bytes.
const WIDTH_MAX: usize = 1 << 20;

/// A conversion, such as `%-5.2f`.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of a conversion")]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    zero: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// The output of a format so far.
struct Printer<'a> {
    args: &'a [Vec<u8>],
    out: Vec<u8>,
    /// Errors of arguments.
    errors: Vec<String>,
    /// Whether `\c` has ended it.
    is_cut: bool,
}

impl Shell {
    pub(super) async fn printf(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let args = args.strip_prefix(&[b"--".to_vec()]).unwrap_or(args);
        let Some((format, args)) = args.split_first() else {
            return self.fail("usage: printf format [arg ...]").await;
        };
        let mut printer = Printer { args, out: Vec::new(), errors: Vec::new(), is_cut: false };
        let mut status = 0;
        loop {
            let left = printer.args.len();
            let mut rest = format.as_slice();
            while !rest.is_empty() && !printer.is_cut {
                match printer.piece(rest) {
                    Ok(after) => rest = after,
                    Err(message) => {
                        self.print(&printer.out).await?;
                        return self.fail(&format!("printf: {message}")).await;
                    }
                }
                self.guest.spend(1)?;
                // A few bytes of a format may ask for megabytes, any number of times.
                if printer.out.len() > WIDTH_MAX {
                    status = self.print(&printer.out).await?.max(status);
                    printer.out.clear();
                }
            }
            if printer.is_cut || printer.args.is_empty() || printer.args.len() == left {
                break;
            }
            self.tick().await?;
        }
        status = self.print(&printer.out).await?.max(status);
        for error in &printer.errors {
            self.say(&format!("printf: {error}")).await?;
        }
        Ok(if printer.errors.is_empty() { status } else { 1 })
    }
}

impl Printer<'_> {
    fn next(&mut self) -> Option<Vec<u8>> {
        let (first, rest) = self.args.split_first()?;
        self.args = rest;
        Some(first.clone())
    }

    /// Prints the text at the beginning of `format` and the conversion after it; returns the rest.
    fn piece<'t>(&mut self, format: &'t [u8]) -> Result<&'t [u8], String> {
        let len = format.iter().position(|byte| *byte == b'%').unwrap_or(format.len());
        let (text, rest) = format.split_at(len);
        unescape(text, false, &mut self.out);
        if let Some(rest) = rest.strip_prefix(b"%%") {
            self.out.push(b'%');
            return Ok(rest);
        }
        if rest.is_empty() { Ok(rest) } else { self.conversion(&rest[1..]) }
    }

    /// Prints the conversion at the beginning of `text`; returns the rest.
    fn conversion<'t>(&mut self, text: &'t [u8]) -> Result<&'t [u8], String> {
        let mut conversion = Conversion::default();
        let mut rest = text;
        while let Some(flag) = rest.first() {
            match flag {
                b'-' => conversion.left = true,
                b'+' => conversion.plus = true,
                b' ' => conversion.space = true,
                b'0' => conversion.zero = true,
                b'#' => conversion.alternate = true,
                _ => break,
            }
            rest = &rest[1..];
        }
        let width = self.width(&mut rest);
        conversion.left |= width.is_some_and(|width| width < 0);
        conversion.width = width.map_or(0, |width| bounded(width.unsigned_abs()));
        if let Some(after) = rest.strip_prefix(b".") {
            rest = after;
            let precision = self.width(&mut rest).unwrap_or(0);
            conversion.precision = u64::try_from(precision).ok().map(bounded);
        }
        let Some((kind, after)) = rest.split_first() else {
            return Err("missing format character".to_owned());
        };
        match kind {
            b's' => {
                let text = self.next().unwrap_or_default();
                conversion.text(&text, &mut self.out);
            }
            b'b' => {
                let mut text = Vec::new();
                self.is_cut = !unescape(&self.next().unwrap_or_default(), true, &mut text);
                conversion.text(&text, &mut self.out);
            }
            b'c' => {
                let text = self.next().unwrap_or_default();
                // An empty argument is a C string, whose first byte is NUL.
                conversion.text(text.get(..1).unwrap_or(&[0]), &mut self.out);
            }
            b'd' | b'i' => {
                let value = self.integer_within(i64::MIN.into(), i64::MAX.into());
                let digits = value.unsigned_abs().to_string();
                conversion.number(&digits, value < 0, true, "", &mut self.out);
            }
            b'u' | b'o' | b'x' | b'X' => {
                let max = i128::from(u64::MAX);
                // Negative values wrap; values out of range are the largest.
                let value = match self.integer_within(-max, max) {
                    value if value == -max => u64::MAX,
                    value => (value as i64).cast_unsigned(),
                };
                let (digits, prefix) = match kind {
                    b'o' => (format!("{value:o}"), "0"),
                    b'x' => (format!("{value:x}"), "0x"),
                    b'X' => (format!("{value:X}"), "0X"),
                    _ => (value.to_string(), ""),
                };
                let prefix = if conversion.alternate && value != 0 { prefix } else { "" };
                conversion.number(&digits, false, false, prefix, &mut self.out);
            }
            b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => {
                let value = self.float();
                conversion.float(value, *kind, &mut self.out);
            }
            other => return Err(format!("%{}: invalid directive", *other as char)),
        }
        Ok(after)
    }

    /// Takes a width or precision: a number, or an argument (`*`).
    fn width(&mut self, rest: &mut &[u8]) -> Option<i64> {
        if let Some(after) = rest.strip_prefix(b"*") {
            *rest = after;
            return Some(self.integer_within(i64::MIN.into(), i64::MAX.into()) as i64);
        }
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, after) = rest.split_at(len);
        *rest = after;
        if digits.is_empty() {
            return None;
        }
        let digit =
            |value: i64, byte: &u8| value.saturating_mul(10).saturating_add(i64::from(byte - b'0'));
        Some(digits.iter().fold(0, digit))
    }

    /// Takes the next argument as a number; out of range, notes an error and returns the nearer limit.
    fn integer_within(&mut self, min: i128, max: i128) -> i128 {
        let Some(text) = self.next() else { return 0 };
        let value = self.integer(&text);
        let nearest = value.clamp(min, max);
        if nearest != value {
            let shown = String::from_utf8_lossy(&text);
            self.errors.push(format!("{shown}: numerical result out of range"));
        }
        nearest
    }

    /// Parses a number, or a byte after a quote.
    fn integer(&mut self, text: &[u8]) -> i128 {
        if let [b'\'' | b'"', byte, ..] = text {
            return i128::from(*byte);
        }
        let (value, len) = leading_integer(text);
        self.check_converted(text, len);
        value
    }

    fn float(&mut self) -> f64 {
        let Some(text) = self.next() else { return 0.0 };
        if let [b'\'' | b'"', byte, ..] = text.as_slice() {
            return f64::from(*byte);
        }
        let (value, len) = leading_float(&text);
        self.check_converted(&text, len);
        value
    }

    /// Notes an error unless all `len` bytes of `text` were converted. Empty text is 0.
    fn check_converted(&mut self, text: &[u8], len: usize) {
        let shown = String::from_utf8_lossy(text);
        match len {
            _ if len == text.len() => {}
            0 => self.errors.push(format!("{shown}: expected numeric value")),
            _ => self.errors.push(format!("{shown}: not completely converted")),
        }
    }
}

/// Parses the number at the beginning of `text` like C's `strtoimax` with base 0; returns its length, too, 0
/// for none. Out of range, it is the nearest value.
fn leading_integer(text: &[u8]) -> (i128, usize) {
    let blanks = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let (is_negative, signs) = match text.get(blanks) {
        Some(b'-') => (true, 1),
        Some(b'+') => (false, 1),
        _ => (false, 0),
    };
    let begin = blanks + signs;
    let digit = |at: usize, base| char::from(*text.get(at)?).to_digit(base);
    let is_hex = text[begin..].starts_with(b"0x") || text[begin..].starts_with(b"0X");
    let (mut at, base) = match text.get(begin) {
        Some(b'0') if is_hex && digit(begin + 2, 16).is_some() => (begin + 2, 16),
        Some(b'0') => (begin, 8),
        _ => (begin, 10),
    };
    let (first, mut value) = (at, 0i128);
    while let Some(digit) = digit(at, base) {
        value = value.saturating_mul(base.into()).saturating_add(digit.into());
        at += 1;
    }
    let value = if is_negative { -value } else { value };
    if at == first { (0, 0) } else { (value, at) }
}

/// Parses the number at the beginning of `text` like C's `strtod`, except hexadecimal ones; returns its
/// length, too, 0 for none.
fn leading_float(text: &[u8]) -> (f64, usize) {
    let blanks = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let number: String =
        text[blanks..].iter().copied().take_while(u8::is_ascii).map(char::from).collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let longest = number.find(|c| !is_part(c)).unwrap_or(number.len()).min(FLOAT_BYTES_MAX);
    let parsed =
        (1..=longest).rev().find_map(|len| Some((number[..len].parse().ok()?, blanks + len)));
    parsed.unwrap_or((0.0, 0))
}

/// Bytes of a decimal number that are read. More digits would not change it.
const FLOAT_BYTES_MAX: usize = 400;

fn bounded(width: u64) -> usize {
    usize::try_from(width).unwrap_or(usize::MAX).min(WIDTH_MAX)
}

impl Conversion {
    fn text(&self, text: &[u8], out: &mut Vec<u8>) {
        let text = &text[..text.len().min(self.precision.unwrap_or(usize::MAX))];
        self.padded(text, out);
    }

    fn padded(&self, text: &[u8], out: &mut Vec<u8>) {
        let padding = self.width.saturating_sub(text.len());
        if !self.left {
            out.extend(std::iter::repeat_n(b' ', padding));
        }
        out.extend_from_slice(text);
        if self.left {
            out.extend(std::iter::repeat_n(b' ', padding));
        }
    }

    fn sign(&self, is_negative: bool, is_signed: bool) -> &'static str {
        match (is_negative, self.plus && is_signed, self.space && is_signed) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn number(
        &self,
        digits: &str,
        is_negative: bool,
        is_signed: bool,
        prefix: &str,
        out: &mut Vec<u8>,
    ) {
        let sign = self.sign(is_negative, is_signed);
        let zeros = match self.precision {
            Some(precision) => precision.saturating_sub(digits.len()),
            None if self.zero && !self.left => {
                self.width.saturating_sub(sign.len() + prefix.len() + digits.len())
            }
            None => 0,
        };
        let digits = if self.precision == Some(0) && digits == "0" { "" } else { digits };
        self.padded(format!("{sign}{prefix}{}{digits}", "0".repeat(zeros)).as_bytes(), out);
    }

    fn float(&self, value: f64, kind: u8, out: &mut Vec<u8>) {
        let sign = self.sign(value.is_sign_negative(), true);
        let magnitude = value.abs();
        let precision = self.precision.unwrap_or(6).min(1000);
        let mut digits = match kind.to_ascii_lowercase() {
            _ if magnitude.is_infinite() => "inf".to_owned(),
            _ if magnitude.is_nan() => "nan".to_owned(),
            b'f' => format!("{magnitude:.precision$}"),
            b'e' => exponential(magnitude, precision),
            _ => general(magnitude, precision.max(1), self.alternate),
        };
        if kind.is_ascii_uppercase() {
            digits.make_ascii_uppercase();
        }
        let pads = self.zero && !self.left && magnitude.is_finite();
        let zeros = if pads { self.width.saturating_sub(sign.len() + digits.len()) } else { 0 };
        self.padded(format!("{sign}{}{digits}", "0".repeat(zeros)).as_bytes(), out);
    }
}

/// Formats `value` like `%e`: an exponent of at least two digits.
fn exponential(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Formats `value` like `%g`: the shorter of `%e` and `%f`, without trailing zeros.
fn general(value: f64, precision: usize, keeps_zeros: bool) -> String {
    let scientific = format!("{value:.*e}", precision - 1);
    let exponent =
        scientific.split_once('e').and_then(|(_, exponent)| exponent.parse::<i64>().ok());
    let exponent = exponent.unwrap_or(0);
    let precision_signed = i64::try_from(precision).unwrap_or(i64::MAX);
    let is_plain = (-4..precision_signed).contains(&exponent);
    let text = if is_plain {
        let places = usize::try_from(precision_signed - 1 - exponent).unwrap_or(0);
        format!("{value:.places$}")
    } else {
        exponential(value, precision - 1)
    };
    if keeps_zeros {
        return text;
    }
    let (digits, exponent) = match text.split_once('e') {
        Some((digits, exponent)) => (digits, Some(exponent)),
        None => (text.as_str(), None),
    };
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    };
    exponent.map_or_else(|| digits.to_owned(), |exponent| format!("{digits}e{exponent}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: &str, args: &[&str]) -> String {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let (out, errors) = (Vec::new(), Vec::new());
        let mut printer = Printer { args: &args, out, errors, is_cut: false };
        let mut rest = format.as_bytes();
        while !rest.is_empty() {
            rest = printer.piece(rest).unwrap();
        }
        String::from_utf8(printer.out).unwrap()
    }

    #[test]
    fn conversions_are_those_of_c() {
        for (format, arg, expected) in [
            ("%5d|", "42", "   42|"),
            ("%-5d|", "42", "42   |"),
            ("%05d", "-42", "-0042"),
            ("%+d", "7", "+7"),
            ("%.3d", "7", "007"),
            ("%#x", "255", "0xff"),
            ("%o", "8", "10"),
            ("%u", "-1", "18446744073709551615"),
            ("%d", "'A", "65"),
            ("%.2s|", "abc", "ab|"),
            ("%f", "1.5", "1.500000"),
            ("%.1e", "12345", "1.2e+04"),
            ("%g", "100000", "100000"),
            ("%g", "1000000", "1e+06"),
            ("%g", "0.0001", "0.0001"),
            ("%g", "0.1", "0.1"),
            ("%G", "1e-10", "1E-10"),
            ("%08.2f", "-1.5", "-0001.50"),
            ("%b", "a\\tb", "a\tb"),
        ] {
            assert_eq!(printed(format, &[arg]), expected, "{format} {arg}");
        }
        assert_eq!(printed("%*d", &["5", "1"]), "    1");
    }
}
