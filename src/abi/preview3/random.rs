//! `wasi:random`: everything comes from the seeded stream of the machine.

use crate::abi::preview2::call::interface;
use crate::abi::preview2::random::seed;
pub(super) use crate::abi::preview2::random::{insecure, random};

interface! {
    /// `wasi:random/insecure-seed`
    insecure_seed:
    "get-insecure-seed" => is(seed),
}
