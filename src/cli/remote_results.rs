//! `--remote-cache`: results that are shared over a server.

use anyhow::Result;

use super::args::groups::ResultArgs;
use super::report::RemoteReport;
use crate::results::Results;

#[cfg(feature = "remote")]
pub use self::with_server::{Remote, digest_of};
#[cfg(not(feature = "remote"))]
pub use self::without_server::Remote;

#[cfg(feature = "remote")]
mod with_server {
    use std::ffi::OsString;
    use std::hash::Hasher as _;
    use std::path::Path;
    use std::sync::Arc;

    use super::{RemoteReport, Result, ResultArgs, Results};
    use crate::base::ambient;
    use crate::base::digest::{Digest, DigestHasher};
    use crate::cli::args::groups::RemoteArgs;
    use crate::cli::exit::Usage;
    use crate::cli::text::{count, printable};
    use crate::results::{
        PublicKey, RemoteCache, RemoteConfig, RemoteError, RemoteStatistics, SecretKey,
    };

    /// The server of a run, if it has one.
    pub struct Remote(Option<Arc<RemoteCache>>);

    /// Keys whose results are taken, and the one that signs what is uploaded.
    type Trust = (Vec<PublicKey>, Option<Arc<SecretKey>>);

    #[cfg(feature = "import")]
    fn keys(args: &RemoteArgs) -> Result<Trust> {
        use crate::cli::signatures::{secret, trusted};
        let named = args.remote_trust.iter().filter(|text| !text.is_empty());
        let keys = named.map(|text| trusted::key_of(text));
        let mut keys = keys
            .collect::<Result<Vec<_>, _>>()
            .map_err(|Usage(error)| Usage(format!("--remote-trust: {error}")))?;
        let path = args.remote_sign.as_ref().filter(|path| !path.as_os_str().is_empty());
        // A key with a password is opened only where it is of use.
        let path = path.filter(|_| args.remote_upload || keys.is_empty());
        let secret = path.map(|path| secret::open("--remote-sign", path)).transpose()?;
        if let Some(secret) = secret.as_ref().filter(|_| keys.is_empty()) {
            keys.push(secret.public().clone());
        }
        Ok((keys, secret.map(Arc::new)))
    }

    #[cfg(not(feature = "import"))]
    fn keys(args: &RemoteArgs) -> Result<Trust> {
        let signs = args.remote_sign.as_ref().is_some_and(|path| !path.as_os_str().is_empty());
        if !signs && args.remote_trust.iter().all(String::is_empty) {
            return Ok((Vec::new(), None));
        }
        let message = "this belljar was built without the feature `import`, which --remote-trust and --remote-sign need";
        Err(Usage(message.to_owned()).into())
    }

    /// What tells `command` from others, wherever its program is on this machine.
    pub fn digest_of(command: &[OsString]) -> Digest {
        let mut hasher = DigestHasher::default();
        for (at, word) in command.iter().enumerate() {
            let name = Path::new(word).file_name().filter(|_| at == 0);
            let word = name.unwrap_or(word).as_encoded_bytes();
            hasher.write(&(word.len() as u64).to_le_bytes());
            hasher.write(word);
        }
        hasher.digest()
    }

    impl Remote {
        /// The server that `args` name, for a run of `command`.
        ///
        /// # Errors
        /// Its address is none; the certificates cannot be read; a key is none; there are options for a server, and no
        /// server.
        pub fn of_args(args: &ResultArgs, command: &[OsString]) -> Result<Self> {
            let args = &args.remote;
            // A variable that is set to nothing, as CI does with one that it does not know, is none.
            let Some(address) = args.remote_cache.as_ref().filter(|it| !it.is_empty()) else {
                if args.remote_upload && ambient::setting("BELLJAR_REMOTE_UPLOAD").is_none() {
                    return Err(Usage("--remote-upload needs --remote-cache".to_owned()).into());
                }
                return Ok(Self(None));
            };
            let (trusted, signs_with) = keys(args)?;
            let config = RemoteConfig {
                uploads: args.remote_upload,
                command: Some(digest_of(command)),
                trusted,
                signs_with,
                headers: args.headers(),
                certificates: args.certificates(),
                timeout: args.remote_timeout,
                ..RemoteConfig::new(address)
            };
            match RemoteCache::new(&config) {
                Ok(cache) => Ok(Self(Some(Arc::new(cache)))),
                Err(error @ RemoteError::Address { .. }) => {
                    Err(Usage(format!("--remote-cache {error}")).into())
                }
                Err(error) => Err(error.into()),
            }
        }

        /// Whether there is one.
        pub fn is_used(&self) -> bool {
            self.0.is_some()
        }

        /// `results`, shared over it.
        pub fn share(&self, results: Results) -> Results {
            match &self.0 {
                Some(cache) => results.shared_with(cache.clone()),
                None => results,
            }
        }

        /// Waits for uploads; what the server was used for, besides the `fetched` traces. Says what failed, unless `quiet`, and
        /// everything if it `explains`.
        pub fn tell(&self, fetched: u64, quiet: bool, explains: bool) -> Option<RemoteReport> {
            let statistics = self.0.as_ref()?.finish();
            if let Some(error) = statistics.error.as_ref().filter(|_| !quiet) {
                note!(
                    "belljar: warning: the remote cache failed, and the run went on without it: {}",
                    printable(error)
                );
            }
            if statistics.lost > 0 && !quiet {
                note!("belljar: note: {} not uploaded", count(statistics.lost as usize, "trace"));
            }
            if statistics.untrusted > 0 && !quiet {
                note!(
                    "belljar: note: {} of the remote cache not taken: no trusted key signed it",
                    count(statistics.untrusted as usize, "trace")
                );
            }
            if explains {
                let (fetched, uploaded) = (
                    count(fetched as usize, "trace"),
                    count(statistics.uploaded as usize, "trace"),
                );
                note!(
                    "belljar: {fetched} fetched from the remote cache, {uploaded} uploaded, {} lost",
                    statistics.lost
                );
            }
            let RemoteStatistics { uploaded, lost, untrusted, error } = statistics;
            Some(RemoteReport { fetched, uploaded, lost, untrusted, error })
        }
    }
}

#[cfg(not(feature = "remote"))]
#[expect(clippy::unused_self, reason = "there is nothing to look at")]
mod without_server {
    use std::ffi::OsString;

    use super::{RemoteReport, Result, ResultArgs, Results};

    /// There is none.
    pub struct Remote;

    impl Remote {
        #[expect(clippy::unnecessary_wraps, reason = "with a client, an address can be wrong")]
        pub fn of_args(_args: &ResultArgs, _command: &[OsString]) -> Result<Self> {
            Ok(Self)
        }

        pub fn is_used(&self) -> bool {
            false
        }

        pub fn share(&self, results: Results) -> Results {
            results
        }

        pub fn tell(&self, _fetched: u64, _quiet: bool, _explains: bool) -> Option<RemoteReport> {
            None
        }
    }
}
