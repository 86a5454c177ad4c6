//! Which signatures an installation demands, and what it does without.

use anyhow::{Result, bail};

use crate::cli::args::toolchain::InstallArgs;
use crate::cli::exit::Usage;
#[cfg(feature = "import")]
use crate::cli::signatures::Verdict;
#[cfg(feature = "import")]
use crate::cli::signatures::trusted::TrustedKeys;
use crate::cli::signatures::{Keys, Signer};
use crate::cli::text::printable;
use crate::{InstalledToolchains, Manifest, ToolchainFolder};

/// The keys that count for an installation.
pub struct Signing {
    /// Those that the user trusts, and that of `--trust`.
    pub trusted: Keys,
    /// The key of `--trust`, which must have signed all that is installed.
    #[cfg(feature = "import")]
    demanded: Option<crate::base::signature::PublicKey>,
}

impl Signing {
    /// For an installation as `args` says.
    ///
    /// # Errors
    /// The key of `--trust` is none; the trusted keys cannot be read.
    pub fn of(args: &InstallArgs) -> Result<Self> {
        let trusted = Keys::trusted()?;
        #[cfg(feature = "import")]
        {
            let demanded = match &args.trust {
                Some(key) => Some(crate::cli::signatures::trusted::key_of(key)?),
                None => None,
            };
            // Before anything is taken on the word of a key that cannot be trusted in the end.
            if let Some(key) = &demanded {
                TrustedKeys::open()?.expect_can_add(key)?;
            }
            let trusted = demanded.iter().fold(trusted, Keys::and);
            Ok(Self { trusted, demanded })
        }
        #[cfg(not(feature = "import"))]
        {
            let _ = args;
            Ok(Self { trusted })
        }
    }

    /// Who signed `toolchain`, which is to be installed under its name in `store`.
    ///
    /// # Errors
    /// A signature is wrong; `--trust` demands another one; what it replaces was signed by a trusted key, and it is not.
    pub fn examine(
        &self,
        toolchain: &mut ToolchainFolder,
        store: &InstalledToolchains,
    ) -> Result<Signer> {
        let text = toolchain.manifest().to_text();
        self.expect_demanded(&text, toolchain.signature())?;
        let signer = self.signer(text.as_bytes(), toolchain.signature())?;
        if matches!(signer, Signer::Known(_)) {
            return Ok(signer);
        }
        let Manifest { name, .. } = toolchain.manifest();
        if !store.has(name)? {
            return Ok(signer);
        }
        // What is damaged is replaced: who could damage it could also install.
        let Ok(old) = store.signed_manifest(name, None) else { return Ok(signer) };
        let old_signer = self.trusted.signer(&old.text, old.signature.as_deref());
        let Ok(known @ Signer::Known(_)) = old_signer else { return Ok(signer) };
        if old.text == text.as_bytes() {
            // The very same, from where it is not signed.
            *toolchain = toolchain.clone().with_signature(old.signature);
            return Ok(known);
        }
        let (old, new) = (known.described(), signer.described());
        bail!(Usage(format!(
            "{name} is installed, {old}, which is trusted, and what would replace it is {new}: install it with \
             `--trust KEY` if you trust who signed it, or run `belljar uninstall {name}` first"
        )))
    }

    /// Who made `signature`, a signature of `text`.
    ///
    /// # Errors
    /// It is wrong.
    pub fn signer(&self, text: &[u8], signature: Option<&str>) -> Result<Signer> {
        self.trusted.signer(text, signature).map_err(|error| {
            let next = "nothing was installed: get it again from who signed it";
            Usage(format!("{error:#}; {next}")).into()
        })
    }

    #[cfg(feature = "import")]
    fn expect_demanded(&self, text: &str, signature: Option<&str>) -> Result<()> {
        let Some(key) = &self.demanded else { return Ok(()) };
        let id = key.id();
        let signer = Keys::of(key.clone()).signer(text.as_bytes(), signature);
        let message = match signer {
            Ok(Signer::Known(_)) => return Ok(()),
            Ok(Signer::Nobody) => format!(
                "--trust: it is not signed, and not by key {id}: ask who made it for a signed bundle, or install it \
                 without --trust"
            ),
            Ok(Signer::Stranger(other)) => format!(
                "--trust: its signature names key {other}, not key {id}: ask who made it which key is theirs"
            ),
            Err(error) => {
                format!(
                    "--trust: {error:#}; nothing was installed: get it again from who signed it"
                )
            }
        };
        bail!(Usage(message))
    }

    #[cfg(not(feature = "import"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with signatures")]
    fn expect_demanded(&self, _: &str, _: Option<&str>) -> Result<()> {
        Ok(())
    }

    /// Adds the key of `--trust` to those that the user trusts, and says so if it is new.
    ///
    /// # Errors
    /// It cannot be written; another key has its ID.
    #[cfg_attr(
        not(feature = "import"),
        expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with signatures")
    )]
    pub fn keep(&self) -> Result<()> {
        #[cfg(feature = "import")]
        if let Some(key) = &self.demanded
            && TrustedKeys::open()?.add(key)?
        {
            let id = key.id();
            note!("belljar: key {id} is trusted from now on; `belljar keys remove {id}` ends that");
        }
        Ok(())
    }
}

/// Notes a signature of a key that is not trusted.
pub fn tell(manifest: &Manifest, signer: &Signer) {
    if let Signer::Stranger(id) = signer {
        let name = printable(&manifest.name);
        note!(
            "belljar: note: the signature of {name} names key {id}, which is not trusted, so it was not checked; if you \
             know whose key it is: `belljar keys trust KEY`"
        );
    }
}

/// What can be said of the signature of `toolchain`, which is to be passed on.
///
/// # Errors
/// It is wrong.
#[cfg(feature = "import")]
pub fn expect_not_wrong(toolchain: &ToolchainFolder) -> Result<()> {
    let text = toolchain.manifest().to_text();
    let verdict = Verdict::of(&Keys::trusted()?, text.as_bytes(), toolchain.signature());
    match verdict.described() {
        Some(why) if verdict.is_wrong() => bail!(Usage(format!(
            "{} is {why}; sign it anew with `belljar toolchain pack --sign`, or remove {}",
            toolchain.manifest().name,
            crate::toolchain::SIGNATURE
        ))),
        _ => Ok(()),
    }
}
