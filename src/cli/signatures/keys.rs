//! Keys that verify signatures.

use anyhow::Result;

use super::Signer;
use super::trusted::TrustedKeys;
use crate::base::signature::{PublicKey, Signature};
use crate::cli::exit::Usage;

/// Keys that verify signatures.
#[derive(Clone, Debug, Default)]
pub struct Keys(Vec<PublicKey>);

impl Keys {
    /// Those that the user trusts.
    ///
    /// # Errors
    /// `BELLJAR_HOME` cannot be read, or others can write to it; the file of a key is damaged.
    pub fn trusted() -> Result<Self> {
        Ok(Self(TrustedKeys::open()?.all()?))
    }

    /// The keys `texts`, which are Base64.
    ///
    /// # Errors
    /// [`Usage`] if one is none.
    pub fn parse(texts: &[String]) -> Result<Self, Usage> {
        let parse = |text: &String| {
            PublicKey::parse(text).map_err(|error| Usage(format!("{text:?}: {error}")))
        };
        Ok(Self(texts.iter().map(parse).collect::<Result<_, _>>()?))
    }

    /// One key.
    pub fn of(key: PublicKey) -> Self {
        Self(vec![key])
    }

    /// These and `key`.
    #[must_use]
    pub fn and(mut self, key: &PublicKey) -> Self {
        self.0.push(key.clone());
        self
    }

    /// Their IDs.
    pub fn ids(&self) -> Vec<String> {
        self.0.iter().map(|key| key.id().to_string()).collect()
    }

    /// Who made `signature`, a signature of `text`.
    ///
    /// # Errors
    /// It is none; or it says that one of these keys made it, and that is not so.
    pub fn signer(&self, text: &[u8], signature: Option<&str>) -> Result<Signer> {
        let Some(signature) = signature else { return Ok(Signer::Nobody) };
        let signature = Signature::parse(signature)?;
        let (id, mut wrong) = (signature.key_id(), None);
        // Two keys can have the same ID.
        for key in self.0.iter().filter(|key| key.id() == id) {
            match key.verify(text, &signature) {
                Ok(()) => return Ok(Signer::Known(id.to_string())),
                Err(error) => wrong = Some(error),
            }
        }
        match wrong {
            Some(error) => Err(error.into()),
            None => Ok(Signer::Stranger(id.to_string())),
        }
    }
}
