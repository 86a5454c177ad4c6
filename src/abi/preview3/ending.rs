//! How a stream ends: each comes with a future, which is an error or nothing.

use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{FutureReader, Lift, Lower};

use crate::abi::Process;
use crate::base::errno::Errno;

/// How a stream ended, with the codes `C` of its interface.
pub(super) type Ended<C> = Result<(), C>;

/// The end of a stream, which is still to come. Whoever drops it says that there was no error.
pub(super) struct Ending(Option<oneshot::Sender<Errno>>);

impl Ending {
    /// An end, and the future that shows it.
    ///
    /// # Errors
    /// The table of the store is full.
    pub fn new<C: From<Errno> + Lift + Lower + Send + Sync + 'static>(
        store: StoreContextMut<'_, Process>,
    ) -> wasmtime::Result<(Self, FutureReader<Ended<C>>)> {
        let (sender, receiver) = oneshot::channel();
        let ended = async move {
            Ok::<_, wasmtime::Error>(match receiver.await {
                Ok(errno) => Err(C::from(errno)),
                Err(_) => Ok(()),
            })
        };
        Ok((Self(Some(sender)), FutureReader::new(store, ended)?))
    }

    /// Ends the stream with `errno`, unless it has ended.
    fn fail(&mut self, errno: Errno) {
        if let Some(sender) = self.0.take() {
            // A component that dropped the future does not want to know.
            let _ = sender.send(errno);
        }
    }

    /// Ends the stream without an error, unless it has ended.
    pub fn succeed(&mut self) {
        self.0 = None;
    }

    /// The value of `result`; an error ends the stream.
    pub fn or_fail<T>(&mut self, result: Result<T, Errno>) -> Option<T> {
        result.map_err(|errno| self.fail(errno)).ok()
    }
}
