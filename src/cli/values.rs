//! Values of options, parsed.

use std::path::PathBuf;
use std::time::Duration;

/// A duration: a number with a unit, such as `500ms`, `10s`, `2m`, `1h 30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let hint =
        || format!("{text:?} is no duration: use a number with a unit, such as 500ms, 10s, 2m");
    let span: jiff::SignedDuration = text.parse().map_err(|_| hint())?;
    Duration::try_from(span).map_err(|_| format!("{text:?} is negative"))
}

/// A size in bytes: a number, with a unit or without, such as `512MiB`, `4GiB`, `1000`.
pub fn size(text: &str) -> Result<u64, String> {
    if text == "unlimited" {
        return Ok(u64::MAX);
    }
    text.parse::<bytesize::ByteSize>().map(|size| size.as_u64()).map_err(|_| {
        format!("{text:?} is no size: use bytes or a unit, such as 512MiB, 4GiB, unlimited")
    })
}

/// An instant, in nanoseconds since the Unix epoch: milliseconds since then, or RFC 3339.
pub fn instant(text: &str) -> Result<u64, String> {
    let range = |_| format!("{text:?} lies before 1970 or after 2554");
    if let Ok(ms) = text.parse::<i64>() {
        return u64::try_from(i128::from(ms) * 1_000_000).map_err(range);
    }
    let hint = |_| {
        format!(
            "{text:?} is no instant: use milliseconds since 1970 or RFC 3339, such as 2024-05-01T12:00:00Z"
        )
    };
    let timestamp: jiff::Timestamp = text.parse().map_err(hint)?;
    u64::try_from(timestamp.as_nanosecond()).map_err(range)
}

/// A directory to mount: `HOST[::GUEST][::ro]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirMount {
    /// The folder of the host.
    pub host: PathBuf,
    /// Where the guest finds it.
    pub guest: String,
    /// Whether the guest may not write.
    pub read_only: bool,
}

/// Parses `HOST[::GUEST][::ro]`. Without GUEST, the guest finds it under the name it has here.
pub fn dir_mount(text: &str) -> Result<DirMount, String> {
    let (rest, read_only) = match text.strip_suffix("::ro") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (host, guest) = match rest.split_once("::") {
        Some((host, guest)) => (host, guest),
        None => (rest, rest),
    };
    if host.is_empty() || guest.is_empty() {
        return Err(format!("{text:?}: use HOST, HOST::GUEST or HOST::GUEST::ro"));
    }
    if guest.contains("::") {
        return Err(format!("{text:?}: after GUEST only ::ro may follow"));
    }
    Ok(DirMount { host: host.into(), guest: guest.into(), read_only })
}

/// Where standard input comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StdinFrom {
    /// From this process's.
    Inherit,
    /// It is empty.
    Null,
    /// From a file.
    File(PathBuf),
}

impl From<&str> for StdinFrom {
    fn from(text: &str) -> Self {
        match text {
            "inherit" => Self::Inherit,
            "null" => Self::Null,
            path => Self::File(path.into()),
        }
    }
}

/// A report to write: on standard output, or into a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sink {
    /// To the stream that is usual for it.
    Stream,
    /// Into this file.
    File(PathBuf),
}

impl From<&str> for Sink {
    fn from(text: &str) -> Self {
        match text {
            "" | "-" => Self::Stream,
            path => Self::File(path.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(duration("10").is_err());
        assert!(duration("-1s").is_err());
    }

    #[test]
    fn sizes_know_both_kinds_of_unit() {
        assert_eq!(size("4GiB"), Ok(4 << 30));
        assert_eq!(size("1kB"), Ok(1000));
        assert_eq!(size("17"), Ok(17));
        assert_eq!(size("unlimited"), Ok(u64::MAX));
        assert!(size("lots").is_err());
    }

    #[test]
    fn instants_are_milliseconds_or_rfc_3339() {
        assert_eq!(instant("946684800000"), Ok(946_684_800_000_000_000));
        assert_eq!(instant("2000-01-01T00:00:00Z"), Ok(946_684_800_000_000_000));
        assert!(instant("-5").is_err());
        assert!(instant("1969-12-31T23:59:59Z").is_err());
        assert!(instant("yesterday").is_err());
    }

    #[test]
    fn directories_have_up_to_three_parts() {
        let mount = |host: &str, guest: &str, read_only| {
            Ok(DirMount { host: host.into(), guest: guest.into(), read_only })
        };
        assert_eq!(dir_mount("a"), mount("a", "a", false));
        assert_eq!(dir_mount("a::/b"), mount("a", "/b", false));
        assert_eq!(dir_mount("a::/b::ro"), mount("a", "/b", true));
        assert_eq!(dir_mount("a::ro"), mount("a", "a", true));
        assert!(dir_mount("::b").is_err());
        assert!(dir_mount("a::b::c").is_err());
    }
}
