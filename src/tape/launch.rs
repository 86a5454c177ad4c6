//! How a toolchain starts a program.

use serde::{Deserialize, Serialize};

/// What a toolchain adds to the arguments and variables that a program of it is started with.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Launch {
    /// Replaces `argv[0]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv0: Option<String>,
    /// Arguments after `argv[0]`, before the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables that are not set, as `NAME=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Where trees of the toolchain are mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trees: Vec<LaunchTree>,
}

/// A tree that is mounted, read-only, with the first program of a toolchain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LaunchTree {
    /// The mount point.
    pub path: String,
    /// Whether names are found only in their stored spelling.
    pub exact_names: bool,
}

impl Launch {
    /// Whether it adds nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds it to `args`, which begin with `argv[0]`, and to `environ`.
    pub fn apply(&self, args: &mut Vec<Vec<u8>>, environ: &mut Vec<Vec<u8>>) {
        if let (Some(argv0), Some(first)) = (&self.argv0, args.first_mut()) {
            *first = argv0.clone().into_bytes();
        }
        let at = args.len().min(1);
        args.splice(at..at, self.args.iter().map(|arg| arg.clone().into_bytes()));
        let name =
            |variable: &[u8]| variable.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
        for variable in &self.env {
            let is_set = environ.iter().any(|set| name(set) == name(variable.as_bytes()));
            if !is_set {
                environ.push(variable.clone().into_bytes());
            }
        }
    }
}
