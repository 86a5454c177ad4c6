//! `wasi:random`: everything comes from the seeded stream of the machine.

use super::call::{Halt, interface};
use crate::abi::{Process, trace};
use crate::kernel::machine::limits::{Limit, Stop};

/// Bytes that are in the memory of the host before they are charged to the component, which has room for them.
const FREE_BYTES: u64 = 1 << 20;

interface! {
    /// `wasi:random/random`
    random:
    "get-random-bytes" => is(bytes),
    "get-random-u64" => is(number),
}

interface! {
    /// `wasi:random/insecure`
    insecure:
    "get-insecure-random-bytes" => is(bytes),
    "get-insecure-random-u64" => is(number),
}

interface! {
    /// `wasi:random/insecure-seed`
    insecure_seed:
    "insecure-seed" => is(seed),
}

pub(in crate::abi) fn bytes(process: &mut Process, (len,): (u64,)) -> Result<Vec<u8>, Halt> {
    trace!(process.guest, "len={len}");
    let limit = process.guest.machine().limits().memory_bytes_max;
    let len = usize::try_from(len).ok().filter(|len| *len as u64 <= limit.max(FREE_BYTES));
    let Some(len) = len else {
        // More than its memory can have.
        process.guest.machine_mut().note_limit(Limit::Memory);
        return Err(Stop::Limit(Limit::Memory).into());
    };
    let mut bytes = vec![0; len];
    process.guest.random_get(&mut bytes)?;
    Ok(bytes)
}

pub(in crate::abi) fn number(process: &mut Process, (): ()) -> Result<u64, Halt> {
    trace!(process.guest, "len=8");
    let mut bytes = [0; 8];
    process.guest.random_get(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The same seed each time.
pub(in crate::abi) fn seed(process: &mut Process, (): ()) -> Result<(u64, u64), Halt> {
    trace!(process.guest, "len=16");
    if let Some(seed) = process.resources.insecure_seed {
        return Ok(seed);
    }
    let [mut lower, mut upper] = [[0; 8]; 2];
    process.guest.random_get(&mut lower)?;
    process.guest.random_get(&mut upper)?;
    let seed = (u64::from_le_bytes(lower), u64::from_le_bytes(upper));
    process.resources.insecure_seed = Some(seed);
    Ok(seed)
}
