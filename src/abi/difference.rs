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
