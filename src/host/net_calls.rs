//! What stands between programs and the network: it keeps what they request, or answers in its place.

use serde_json::Value;

/// A call of `net.http`, `net.read` or `net.close`.
#[derive(Clone, Copy, Debug)]
pub struct NetCall<'c> {
    /// The process that makes it: a number that is the same whenever the same programs run.
    pub pid: u32,
    /// The operation.
    pub name: &'c str,
    /// The parameters, an object.
    pub params: &'c Value,
}

/// Keeps the calls of `net.http`, `net.read` and `net.close` that programs make, with their answers, or answers them from
/// what was kept: for a caller that has a tape of its own. See [`HostHandle::set_net_calls`](super::HostHandle::set_net_calls).
pub trait NetCalls: Send + Sync {
    /// The answer to `call`, in JSON as programs get it, if the network is not to be asked.
    ///
    /// # Errors
    /// There is no answer, and the network must not be asked: the reason.
    fn answer(&self, call: NetCall<'_>) -> Option<Result<String, String>>;

    /// The network has answered `call`, or refused it: with `answer`, in JSON as the program gets it.
    fn keep(&self, call: NetCall<'_>, answer: &str);
}

/// Whether the operation `name` is one of them.
pub(super) fn is_net_call(name: &str) -> bool {
    matches!(name, "net.http" | "net.read" | "net.close")
}
