//! Durations of messages.

use std::time::Duration;

use bazel_remote_apis::google::protobuf;

/// The duration that `duration` is; `None` if it is negative, or malformed.
pub fn from_proto(duration: &protobuf::Duration) -> Option<Duration> {
    let seconds = u64::try_from(duration.seconds).ok()?;
    let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

/// `duration` for a message.
pub fn to_proto(duration: Duration) -> protobuf::Duration {
    protobuf::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: duration.subsec_nanos().cast_signed(),
    }
}
