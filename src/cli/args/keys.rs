//! `belljar keys`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar keys generate my.key
      makes a key that signs, my.key, and one that verifies, my.key.pub
  belljar toolchain pack --sign my.key tools
      writes a signed bundle of the toolchain in the folder tools
  belljar install --trust RWQ... tools-1.0.belljar
      installs it if this key signed it, and trusts the key from then on

Keys and signatures are those of minisign: `minisign -Vm toolchain.json -P RWQ...` verifies one, too.")]
pub struct KeysArgs {
    #[command(subcommand)]
    pub action: KeysAction,
}

#[derive(Subcommand, Debug)]
pub enum KeysAction {
    /// Make a key: FILE signs, FILE.pub verifies
    #[command(
        after_help = "The password is asked for on the terminal, or is that of the variable BELLJAR_SIGN_PASSWORD."
    )]
    Generate {
        /// The file of the secret key; neither it nor FILE.pub may exist
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// Do not encrypt the secret key: who can read the file can sign
        #[arg(long)]
        no_password: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the keys whose signatures are trusted
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Trust the signatures of a key
    Trust {
        /// The key: as Base64, or the file with it
        #[arg(value_name = "KEY")]
        key: String,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Trust the signatures of a key no longer; what is installed stays
    Remove {
        /// Its ID, as `belljar keys list` shows it
        #[arg(value_name = "ID")]
        id: String,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
