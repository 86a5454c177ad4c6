//! Which answer makes a program run again, in words.

use crate::base::errno::Errno;
use crate::results::{Call, Known, Trace};

/// The last of the answers `made`, which is not that of `trace`, in words.
pub(super) fn difference(trace: &Trace, made: &[Known]) -> String {
    let index = made.len().saturating_sub(1);
    let called = trace.calls.get(index).and_then(|call| Some((trace.function(call)?, call)));
    let (Some((function, call)), Some(now)) = (called, made.get(index)) else {
        return "it made another number of calls".to_owned();
    };
    let before = call.answer.as_ref().map_or(0, |answer| answer.code);
    let noent = u32::from(Errno::Noent.code());
    let subject = subject(trace, made, &function.name, call);
    let what = match (&*function.name, before, now.code) {
        (_, _, now) if now == noent && before != now && subject.is_some() => {
            "it is not there any more"
        }
        (_, _, now) if before == noent && now != before && subject.is_some() => "it is there now",
        ("fd_read" | "fd_pread", ..) => "it has other content",
        ("fd_readdir", ..) => "it has other entries",
        ("fd_filestat_get" | "path_filestat_get", ..) => "it has another size, time or number",
        ("path_readlink", ..) => "it leads elsewhere",
        ("environ_get" | "environ_sizes_get", ..) => "its environment variables differ",
        ("clock_time_get", ..) => "the clock shows another time",
        ("random_get", ..) => "its random bytes differ",
        ("proc_wait", ..) => "a program that it started ended otherwise",
        ("host_call", ..) => "the host gave another answer",
        (name, ..) => return said(subject, &format!("{name} has another answer")),
    };
    said(subject, what)
}

fn said(subject: Option<String>, what: &str) -> String {
    match subject {
        Some(subject) => format!("{subject}: {what}"),
        None => what.to_owned(),
    }
}

/// The file that `call` of the function `name` is about, as the program spells it.
fn subject(trace: &Trace, made: &[Known], name: &str, call: &Call) -> Option<String> {
    if name.starts_with("path_") {
        return path_of(call);
    }
    if !name.starts_with("fd_") {
        return None;
    }
    let fd = *call.args.first()?;
    let opened = trace.calls.iter().zip(made).rev().skip(1).find(|(call, known)| {
        let is_open = trace.function(call).is_some_and(|it| &*it.name == "path_open");
        let given = known.outputs.first().map(|span| &*span.bytes.0);
        is_open && known.code == 0 && given == Some(&(fd as u32).to_le_bytes())
    });
    match opened {
        Some((call, _)) => path_of(call),
        None if fd == 0 => Some("standard input".to_owned()),
        None => None,
    }
}

fn path_of(call: &Call) -> Option<String> {
    let path = call.inputs.first()?;
    Some(String::from_utf8_lossy(&path.bytes.0).into_owned())
}

/// Most bytes of a text that are shown.
const SHOWN_BYTES_MAX: usize = 60;

/// How `made`, the trace of a process that ran, contradicts `known`, which it agrees with before the call `index`.
pub fn contradiction(known: &Trace, made: &Trace, index: usize) -> String {
    let name = |trace: &Trace, call: &Call| {
        trace.function(call).map_or_else(|| "?".to_owned(), |function| function.name.to_string())
    };
    match (known.calls.get(index), made.calls.get(index)) {
        (None, None) => "it ends in another way".to_owned(),
        (None, Some(call)) => format!("it goes on with {}, where it ended", name(made, call)),
        (Some(call), None) => format!("it ends, where it called {}", name(known, call)),
        (Some(was), Some(is)) => {
            let (was_name, name) = (name(known, was), name(made, is));
            if was_name != name {
                format!("it calls {name}, where it called {was_name}")
            } else if was.args != is.args {
                format!("{name} has the arguments {:?}, where it had {:?}", is.args, was.args)
            } else if was.inputs != is.inputs {
                handed_over(&name, was, is)
            } else if was.memory_bytes != is.memory_bytes {
                let (was, is) = (was.memory_bytes, is.memory_bytes);
                format!("at {name} its memory has {is} bytes, where it had {was}")
            } else {
                format!("{name} ends it in one of the two only")
            }
        }
    }
}

/// What two calls of the function `name` hand over, where that differs first.
fn handed_over(name: &str, was: &Call, is: &Call) -> String {
    let mut pairs = was.inputs.iter().zip(&is.inputs);
    match pairs.find(|(was, is)| was.bytes != is.bytes) {
        Some((was, is)) => {
            let (was, is) = shown_apart(&was.bytes.0, &is.bytes.0);
            format!("{name} hands over {is}, where it handed over {was}")
        }
        None => format!("{name} hands over more or less, or from other places in its memory"),
    }
}

/// Both texts in quotes, from shortly before the first byte in which they differ.
fn shown_apart(one: &[u8], other: &[u8]) -> (String, String) {
    let common = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let from = common.saturating_sub(SHOWN_BYTES_MAX / 2);
    let shown = |text: &[u8]| {
        let part = &text[from.min(text.len())..];
        let end = if part.len() > SHOWN_BYTES_MAX { "…" } else { "" };
        let begin = if from > 0 { "…" } else { "" };
        format!("\"{begin}{}{end}\"", part[..part.len().min(SHOWN_BYTES_MAX)].escape_ascii())
    };
    (shown(one), shown(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shown_around_their_first_difference() {
        assert_eq!(shown_apart(b"one\n", b"two\n"), ("\"one\\n\"".into(), "\"two\\n\"".into()));
        let (long, other) = ([b'a'; 200], [&[b'a'; 100][..], b"b"].concat());
        let (one, two) = shown_apart(&long, &other);
        assert_eq!(one, format!("\"…{}…\"", "a".repeat(60)));
        assert_eq!(two, format!("\"…{}b\"", "a".repeat(30)));
    }
}
