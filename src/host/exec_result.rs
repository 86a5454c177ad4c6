//! Results of `process.exec`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::io::{Ran, Written};
use super::policy::Blocked;
use crate::kernel::process::WaitStatus;

/// When a command ran, on its machine's clock.
#[expect(clippy::struct_field_names, reason = "the fields carry their unit")]
pub(super) struct Span {
    /// Since the Unix epoch.
    pub started_ns: u64,
    pub ended_ns: u64,
    /// On the monotonic clock.
    pub duration_ns: u64,
}

/// The result of command `number`, with at most `kept_bytes_max` bytes of each stream.
pub(super) fn of_run(
    number: u64,
    span: &Span,
    ran: &Ran,
    blocked: Option<&Blocked>,
    kept_bytes_max: usize,
) -> Value {
    let (exit_code, signal) = match ran.status {
        WaitStatus::Exited(code) => (Some(code), None),
        WaitStatus::Signalled(signal) => (None, Some(signal.to_string())),
    };
    let status = match blocked {
        Some(_) => "blocked",
        None if ran.timed_out => "timed_out",
        None => "completed",
    };
    let Written { stdout, stderr, combined, truncated } = &ran.written;
    let kept = |bytes: &[u8]| until_char(&bytes[..bytes.len().min(kept_bytes_max)]).to_vec();
    let is_cut = *truncated || combined.len() > kept_bytes_max;
    let [stdout, stderr, combined] =
        [stdout, stderr, combined].map(|bytes| if is_cut { kept(bytes) } else { bytes.clone() });
    let mut result = json!({
        "command_id": format!("command-{number}"),
        "status": status,
        "pid": ran.pid,
        "process_group_id": ran.pid,
        "handle_id": format!("handle-{number}"),
        "started_at": rfc3339(span.started_ns),
        "ended_at": rfc3339(span.ended_ns),
        "duration_ms": span.duration_ns / 1_000_000,
        "exit_code": exit_code,
        "signal": signal,
        "timed_out": ran.timed_out,
        "stdout": String::from_utf8_lossy(&stdout),
        "stderr": String::from_utf8_lossy(&stderr),
        "combined": String::from_utf8_lossy(&combined),
        "exit_status": ran.status.code(),
        "legacy_status": exit_code.map_or(-1, i64::from),
        "success": status == "completed" && exit_code == Some(0),
        "truncated": is_cut,
    });
    for (name, bytes) in [("stdout_base64", &stdout), ("stderr_base64", &stderr)] {
        if std::str::from_utf8(bytes).is_err() {
            result[name] = STANDARD.encode(bytes).into();
        }
    }
    if let Some(blocked) = blocked {
        result["blocked_by"] = json!(blocked);
    }
    result
}

/// The result of command `number`, which was blocked.
pub(super) fn of_block(number: u64, now_ns: u64, blocked: &Blocked) -> Value {
    json!({
        "command_id": format!("command-{number}"),
        "status": "blocked",
        "pid": null,
        "process_group_id": null,
        "handle_id": null,
        "started_at": rfc3339(now_ns),
        "ended_at": rfc3339(now_ns),
        "duration_ms": 0,
        "exit_code": null,
        "signal": null,
        "timed_out": false,
        "stdout": "",
        "stderr": "",
        "combined": "",
        "exit_status": 126,
        "legacy_status": -1,
        "success": false,
        "truncated": false,
        "blocked_by": blocked,
    })
}

/// `bytes` without an incomplete character at the end.
fn until_char(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

fn rfc3339(ns: u64) -> String {
    // The range of `u64` ends in 2554, within that of a timestamp.
    jiff::Timestamp::from_nanosecond(ns.into()).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::process::Pid;
    use crate::kernel::process::Signal;

    fn result(status: WaitStatus, stdout: &[u8], kept: usize) -> Value {
        let span = Span {
            started_ns: 946_684_800_500_000_000,
            ended_ns: 946_684_801_000_000_000,
            duration_ns: 500_000_000,
        };
        let (stdout, combined) = (stdout.to_vec(), stdout.to_vec());
        let written = Written { stdout, combined, ..Written::default() };
        of_run(7, &span, &Ran { pid: Pid(3), status, timed_out: false, written }, None, kept)
    }

    #[test]
    fn exec_result_has_every_field() {
        let result = result(WaitStatus::Exited(3), b"out\n", 100);
        let expected = json!({
            "command_id": "command-7", "status": "completed", "pid": 3, "process_group_id": 3,
            "handle_id": "handle-7", "started_at": "2000-01-01T00:00:00.5Z",
            "ended_at": "2000-01-01T00:00:01Z", "duration_ms": 500, "exit_code": 3, "signal": null,
            "timed_out": false, "stdout": "out\n", "stderr": "", "combined": "out\n",
            "exit_status": 3, "legacy_status": 3, "success": false, "truncated": false,
        });
        assert_eq!(result, expected);
    }

    #[test]
    fn signalled_command_has_a_signal_name_and_no_exit_code() {
        let result = result(WaitStatus::Signalled(Signal::KILL), b"", 100);
        assert_eq!(result["signal"], "SIGKILL");
        assert_eq!((&result["exit_code"], &result["exit_status"]), (&json!(null), &json!(137)));
        assert_eq!(result["legacy_status"], -1);
    }

    #[test]
    fn output_that_is_not_utf8_is_kept_as_base64() {
        let result = result(WaitStatus::Exited(0), b"a\xff", 100);
        assert_eq!(
            (&result["stdout"], &result["stdout_base64"]),
            (&json!("a\u{fffd}"), &json!("Yf8="))
        );
        assert!(result.get("stderr_base64").is_none());
    }

    #[test]
    fn truncated_output_ends_at_a_character_boundary() {
        let result = result(WaitStatus::Exited(0), "aé".as_bytes(), 2);
        assert_eq!((&result["stdout"], &result["truncated"]), (&json!("a"), &json!(true)));
        assert!(result.get("stdout_base64").is_none());
    }
}
