//! Two tiers of compiled code: quick to make, and quick to run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the code of a module was compiled. A program does the same in each tier, except that recursion may go
/// deeper in quick code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// In a fraction of the time, into code that takes about 1.6 times as long to run.
    Quick,
    /// By an optimizing compiler.
    Optimized,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quick => "quick",
            Self::Optimized => "optimized",
        })
    }
}

/// Which tiers an engine uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TierChoice {
    /// Optimized code if it is there. Otherwise a small module is optimized at once, and any other one begins with
    /// quick code, until its optimized code is there.
    #[default]
    Auto,
    /// Only quick code.
    Quick,
    /// Only optimized code.
    Optimized,
}

impl TierChoice {
    /// Whether programs may run in the tier `tier`.
    pub fn takes(self, tier: Tier) -> bool {
        match self {
            Self::Auto => true,
            Self::Quick => tier == Tier::Quick,
            Self::Optimized => tier == Tier::Optimized,
        }
    }
}

impl fmt::Display for TierChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Quick => "quick",
            Self::Optimized => "optimized",
        })
    }
}

/// The text names no tier.
#[derive(thiserror::Error, Clone, PartialEq, Eq)]
#[error("unknown tier {0:?}: use auto, quick or optimized")]
pub struct UnknownTier(String);

crate::base::readable::readable!(UnknownTier);

impl FromStr for TierChoice {
    type Err = UnknownTier;

    fn from_str(text: &str) -> Result<Self, UnknownTier> {
        [Self::Auto, Self::Quick, Self::Optimized]
            .into_iter()
            .find(|choice| choice.to_string() == text)
            .ok_or_else(|| UnknownTier(text.to_owned()))
    }
}
