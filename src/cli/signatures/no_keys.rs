//! In place of keys, for a belljar that cannot verify signatures.

use anyhow::{Result, bail};

use super::Signer;
use crate::cli::exit::Usage;

const NONE: &str = "this belljar was built without the feature `import`, which signatures need";

/// No keys.
#[derive(Clone, Debug, Default)]
pub struct Keys(());

impl Keys {
    /// Those that the user trusts.
    #[expect(clippy::unnecessary_wraps, reason = "as with signatures")]
    pub fn trusted() -> Result<Self> {
        Ok(Self(()))
    }

    /// The keys `texts`.
    ///
    /// # Errors
    /// [`Usage`].
    pub fn parse(_: &[String]) -> Result<Self, Usage> {
        Err(Usage(NONE.to_owned()))
    }

    /// Who made `signature`.
    ///
    /// # Errors
    /// [`Usage`] if there is one.
    #[expect(clippy::unused_self, reason = "as with signatures")]
    pub fn signer(&self, _: &[u8], signature: Option<&str>) -> Result<Signer> {
        if signature.is_some() {
            bail!(Usage(NONE.to_owned()));
        }
        Ok(Signer::Nobody)
    }

    /// Their IDs.
    #[expect(clippy::unused_self, reason = "as with signatures")]
    pub fn ids(&self) -> Vec<String> {
        Vec::new()
    }
}
