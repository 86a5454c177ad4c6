//! Parsers of the values of options.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use crate::WORKTREE;

/// A duration: a number with a unit, such as `500ms`, `10s`, `2m`, `1h 30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let hint =
        || format!("{text:?} is not a duration: use a number with a unit, such as 500ms, 10s, 2m");
    let span: jiff::SignedDuration = text.parse().map_err(|_| hint())?;
    match Duration::try_from(span) {
        Ok(Duration::ZERO) => Err("a duration must be longer than 0".to_owned()),
        duration => duration.map_err(|_| format!("{text:?} is negative")),
    }
}

/// A header with its value, such as `authorization=Bearer TOKEN`.
#[cfg(feature = "remote")]
pub fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        // A variable that is set to nothing.
        None if text.is_empty() => Ok((String::new(), String::new())),
        // Its value may be secret.
        _ => Err("this is no NAME=VALUE".to_owned()),
    }
}

/// A part of a hundred, from 0 to 100, such as `1`, `1%`, `0.1%`.
pub fn percent(text: &str) -> Result<f64, String> {
    let digits = text.strip_suffix('%').unwrap_or(text).trim_end();
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = digits.parse::<f64>().ok().filter(|number| is_number && *number <= 100.0);
    number.ok_or_else(|| format!("{text:?} is not a percentage: use 0 to 100, such as 1% or 0.1%"))
}

/// A whole number, such as `1000000`, `1_000_000`, `1M`; K, M and G are powers of 1000.
pub fn number(text: &str) -> Result<u64, String> {
    let digits = text.replace('_', "");
    let last = digits.chars().last().map(|letter| letter.to_ascii_uppercase());
    let factor = match last {
        Some('K') => 1000,
        Some('M') => 1_000_000,
        Some('G') => 1_000_000_000,
        _ => 1,
    };
    let digits = if factor == 1 { digits.as_str() } else { &digits[..digits.len() - 1] };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number.ok_or_else(|| {
        format!("{text:?} is not a number: use digits, such as 1000000, 1000k or 1M")
    })
}

/// As [`number`], up to 4294967295.
pub fn small_number(text: &str) -> Result<u32, String> {
    u32::try_from(number(text)?)
        .map_err(|_| format!("{text:?} is too large: use at most {}", u32::MAX))
}

/// A seed: a whole number, decimal or after `0x` hexadecimal.
pub fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text:?} is not a seed: use a number from 0 to {}", u64::MAX))
}

/// A size: a number with a unit, such as `512MiB`, `4G`, `1000B`. K, M and G, with or without a B, are
/// powers of 1000, KiB, MiB and GiB of 1024, in either case of letters. A number without a unit is refused,
/// except 0: some read it as bytes, some as MiB.
pub fn size(text: &str) -> Result<u64, String> {
    if text == "unlimited" {
        return Ok(u64::MAX);
    }
    let has_no_unit = text.parse::<f64>().is_ok_and(|number| number > 0.0);
    if has_no_unit {
        return Err(format!("{text:?} has no unit: use one, such as {text}MiB or {text}B"));
    }
    text.parse::<bytesize::ByteSize>().map(|size| size.as_u64()).map_err(|_| {
        format!(
            "{text:?} is not a size: use a number with a unit, such as 512MiB, 2G, 100B, or unlimited"
        )
    })
}

/// Numbers that could be seconds or milliseconds since 1970: as seconds, days from 1973 on; as milliseconds,
/// days of the first three years.
const SECONDS_OR_MILLISECONDS: std::ops::Range<i64> = 100_000_000..100_000_000_000;

/// An instant, in nanoseconds since the Unix epoch: milliseconds since then, seconds after an `@` as
/// `date -d` takes them, or RFC 3339, of which the time may be left out, and the offset, which is 0 then.
pub fn instant(text: &str) -> Result<u64, String> {
    let range = || format!("{text:?} is before 1970 or after 2554");
    let (digits, unit_ns) = match text.strip_prefix('@') {
        Some(seconds) => (seconds, 1_000_000_000),
        None => (text, 1_000_000),
    };
    if let Ok(count) = digits.parse::<i64>() {
        if unit_ns == 1_000_000 && SECONDS_OR_MILLISECONDS.contains(&count) {
            return Err(either(count));
        }
        return u64::try_from(i128::from(count) * unit_ns).map_err(|_| range());
    }
    let timestamp = text.parse::<jiff::Timestamp>().ok().or_else(|| in_utc(text));
    let timestamp = timestamp.ok_or_else(|| {
        format!(
            "{text:?} is not a time: use RFC 3339, such as 2024-05-01T12:00:00Z or 2024-05-01, @SECONDS \
             or milliseconds since 1970"
        )
    })?;
    u64::try_from(timestamp.as_nanosecond()).map_err(|_| range())
}

/// A date, or a date and a time, without an offset.
fn in_utc(text: &str) -> Option<jiff::Timestamp> {
    // A time zone in brackets is not UTC.
    let civil: jiff::civil::DateTime = text.parse().ok().filter(|_| !text.contains('['))?;
    jiff::tz::TimeZone::UTC.to_timestamp(civil).ok()
}

/// The message about a number that could be seconds or milliseconds.
fn either(count: i64) -> String {
    let milliseconds = jiff::Timestamp::from_millisecond(count).unwrap_or_default();
    let seconds = match jiff::Timestamp::from_second(count) {
        Ok(seconds) => format!(" (which is {seconds})"),
        Err(_) => String::new(),
    };
    format!(
        "{count} could be seconds or milliseconds since 1970: for seconds use @{count}{seconds}, for \
         milliseconds use {milliseconds}"
    )
}

/// `text` before and after the first `separator`. On Unix the rest can be any bytes; elsewhere only Unicode
/// can be split.
pub fn split_once(text: &OsStr, separator: &str) -> Option<(OsString, OsString)> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let bytes = text.as_bytes();
        let at =
            bytes.windows(separator.len()).position(|window| window == separator.as_bytes())?;
        let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        Some((part(&bytes[..at]), part(&bytes[at + separator.len()..])))
    }
    #[cfg(windows)]
    {
        use std::os::windows::ffi::{OsStrExt, OsStringExt};
        let units: Vec<u16> = text.encode_wide().collect();
        let wide: Vec<u16> = separator.encode_utf16().collect();
        let at = units.windows(wide.len()).position(|window| window == wide)?;
        let after = &units[at + wide.len()..];
        Some((OsString::from_wide(&units[..at]), OsString::from_wide(after)))
    }
    #[cfg(not(any(unix, windows)))]
    text.to_str()?.split_once(separator).map(|(before, after)| (before.into(), after.into()))
}

/// A path of the guest, which is always UTF-8.
pub fn guest_path(text: OsString) -> Result<String, String> {
    text.into_string()
        .map_err(|text| format!("{}: paths that a program sees must be UTF-8", text.display()))
}

/// A directory to mount: `HOST[::GUEST][::ro]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirMount {
    /// The text that was given, for messages.
    pub given: String,
    /// The directory of the host.
    pub host: PathBuf,
    /// Where the guest finds it.
    pub guest: String,
    /// Whether the guest may not write.
    pub read_only: bool,
}

/// Parses `HOST[::GUEST][::ro]`. Without GUEST, the guest finds it under the name it has here.
pub fn dir_mount(text: OsString) -> Result<DirMount, String> {
    let given = text.to_string_lossy().into_owned();
    let (host, guest, read_only) = match split_once(&text, "::") {
        None => (text.clone(), text, false),
        Some((host, rest)) if rest == "ro" => (host.clone(), host, true),
        Some((host, rest)) => match split_once(&rest, "::") {
            None => (host, rest, false),
            Some((guest, rest)) if rest == "ro" => (host, guest, true),
            Some(_) => return Err("only ::ro can follow GUEST".to_owned()),
        },
    };
    if host.is_empty() || guest.is_empty() {
        return Err("use HOST, HOST::GUEST or HOST::GUEST::ro".to_owned());
    }
    Ok(DirMount { given, host: host.into(), guest: guest_path(guest)?, read_only })
}

/// The directory of the host in the text of a mount, whatever follows it.
pub fn host_of_mount(text: &OsString) -> PathBuf {
    split_once(text, "::").map_or_else(|| text.clone(), |(host, _)| host).into()
}

/// The directory to work on: `DIR[::ro]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Worktree {
    /// The directory of the host.
    pub host: PathBuf,
    /// Whether the guest may not write.
    pub read_only: bool,
}

impl Default for Worktree {
    fn default() -> Self {
        Self { host: ".".into(), read_only: false }
    }
}

impl From<OsString> for Worktree {
    fn from(text: OsString) -> Self {
        match split_once(&text, "::") {
            Some((host, rest)) if rest == "ro" => Self { host: host.into(), read_only: true },
            _ => Self { host: text.into(), read_only: false },
        }
    }
}

/// Where standard input comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StdinFrom {
    /// This process's standard input.
    Inherit,
    /// Empty.
    Null,
    /// A file.
    File(PathBuf),
    /// These bytes, which were read from where it was said to come from.
    #[cfg_attr(
        not(feature = "remote"),
        expect(dead_code, reason = "only a server asks for it before the run")
    )]
    Read(Vec<u8>),
}

impl From<OsString> for StdinFrom {
    fn from(text: OsString) -> Self {
        match text.to_str() {
            Some("inherit" | "-") => Self::Inherit,
            Some("null") => Self::Null,
            _ => Self::File(text.into()),
        }
    }
}

/// Where a report is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sink {
    /// The standard stream that is usual for it.
    Stream,
    /// This file.
    File(PathBuf),
}

impl From<OsString> for Sink {
    fn from(text: OsString) -> Self {
        match text.to_str() {
            Some("" | "-") => Self::Stream,
            _ => Self::File(text.into()),
        }
    }
}

/// The name of the shell.
pub const SHELL: &str = "sh";

/// The path in the namespace of a directory that the guest calls `guest`. Relative names begin at the
/// worktree; without one, names of preopened directories can lead up any number of steps.
pub fn mount_point(guest: &str, no_worktree: bool) -> Result<String, String> {
    let is_relative = !guest.starts_with('/');
    let mut names = Vec::new();
    if is_relative && !no_worktree {
        names.push(&WORKTREE[1..]);
    }
    for name in guest.split('/') {
        match name {
            "" | "." => {}
            ".." if names.pop().is_some() || is_relative && no_worktree => {}
            ".." => {
                return Err(format!(
                    "{guest} leads above the root; choose another path: HOST::GUEST"
                ));
            }
            name => names.push(name),
        }
    }
    Ok(format!("/{}", names.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(duration("10").is_err());
        assert!(duration("0s").is_err());
        assert!(duration("-1s").is_err());
    }

    #[test]
    fn sizes_know_both_kinds_of_unit() {
        assert_eq!(size("4GiB"), Ok(4 << 30));
        assert_eq!(size("1kB"), Ok(1000));
        assert_eq!((size("17B"), size("0")), (Ok(17), Ok(0)));
        assert!(size("256").unwrap_err().contains("256MiB or 256B"));
        assert_eq!(
            (size("1K"), size("1.5M"), size("2 g")),
            (Ok(1000), Ok(1_500_000), Ok(2_000_000_000))
        );
        assert_eq!(
            (size("1MB"), size("1mib"), size("1Gi")),
            (Ok(1_000_000), Ok(1 << 20), Ok(1 << 30))
        );
        assert_eq!(size("unlimited"), Ok(u64::MAX));
        assert!(size("lots").is_err());
    }

    #[test]
    fn numbers_may_be_grouped_and_have_a_unit() {
        assert_eq!(
            (number("17"), number("1_000"), number("2m")),
            (Ok(17), Ok(1000), Ok(2_000_000))
        );
        for text in ["", "M", "-1", "1.5M", "1MiB", "99999999999999999999", "ü"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert_eq!((small_number("1k"), small_number("4294967295")), (Ok(1000), Ok(u32::MAX)));
        assert!(small_number("lots").unwrap_err().contains("1000k or 1M"));
        assert!(small_number("5G").unwrap_err().contains("4294967295"));
        assert_eq!((seed("7"), seed("0xff")), (Ok(7), Ok(255)));
        assert!(seed("-1").is_err() && seed("0x").is_err());
    }

    #[test]
    fn instants_are_milliseconds_or_rfc_3339() {
        assert_eq!(instant("946684800000"), Ok(946_684_800_000_000_000));
        assert_eq!(instant("2000-01-01T00:00:00Z"), Ok(946_684_800_000_000_000));
        assert_eq!(instant("@946684800"), Ok(946_684_800_000_000_000));
        assert!(instant("@").is_err());
        assert!(instant("-5").is_err());
        assert!(instant("1969-12-31T23:59:59Z").is_err());
        assert!(instant("yesterday").is_err());
        let at_noon = Ok(1_714_564_800_000_000_000);
        assert_eq!(
            (instant("2024-05-01T12:00:00"), instant("2024-05-01 12:00")),
            (at_noon.clone(), at_noon)
        );
        assert_eq!(instant("2024-05-01"), Ok(1_714_521_600_000_000_000));
        assert!(instant("2024-05-01T12:00[Asia/Tokyo]").is_err());
    }

    /// Seconds were read as milliseconds, so that a program saw a day of January 1970.
    #[test]
    fn a_number_that_may_be_seconds_or_milliseconds_is_refused() {
        let message = instant("1600000000").unwrap_err();
        for words in ["@1600000000 (which is 2020-09-13T12:26:40Z)", "1970-01-19T12:26:40Z"] {
            assert!(message.contains(words), "{message}");
        }
        assert_eq!(instant("1970-01-19T12:26:40Z"), Ok(1_600_000_000_000_000));
        assert_eq!(instant("99999999"), Ok(99_999_999_000_000));
        assert_eq!(instant("100000000000"), Ok(100_000_000_000_000_000));
    }

    #[test]
    fn directories_have_up_to_three_parts() {
        let parse = |text: &str| dir_mount(text.into());
        let parts = |text: &str| {
            let mount = parse(text).unwrap();
            assert_eq!(mount.given, text);
            (mount.host.display().to_string(), mount.guest, mount.read_only)
        };
        assert_eq!(parts("a"), ("a".into(), "a".into(), false));
        assert_eq!(parts("a::/b"), ("a".into(), "/b".into(), false));
        assert_eq!(parts("a::/b::ro"), ("a".into(), "/b".into(), true));
        assert_eq!(parts("a::ro"), ("a".into(), "a".into(), true));
        assert!(parse("::b").is_err());
        assert!(parse("a::b::c").is_err());
    }

    #[test]
    fn a_mount_point_is_where_its_name_leads() {
        let at = |guest: &str| mount_point(guest, false);
        assert_eq!(at("/a//b/."), Ok("/a/b".to_owned()));
        assert_eq!(at("a/"), Ok("/worktree/a".to_owned()));
        assert_eq!(at("."), Ok("/worktree".to_owned()));
        assert_eq!(at("a/../b"), Ok("/worktree/b".to_owned()));
        assert_eq!(at("../lib"), Ok("/lib".to_owned()));
        for guest in ["/../a", "../../a", "a/../../../b"] {
            assert!(at(guest).is_err(), "{guest}");
        }
        assert_eq!(mount_point("../../a", true), Ok("/a".to_owned()));
        assert_eq!(mount_point(".", true), Ok("/".to_owned()));
    }
}
