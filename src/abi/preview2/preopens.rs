//! `wasi:filesystem/preopens`.

use wasmtime::component::Resource;

use super::call::{Halt, interface};
use super::filesystem::Descriptor;
use crate::abi::{Process, trace};
use crate::kernel::guest::FIRST_PREOPEN;

interface! {
    /// `wasi:filesystem/preopens`
    preopens:
    "get-directories" => is(get_directories),
}

pub(in crate::abi) type Directories = Vec<(Resource<Descriptor>, String)>;

pub(in crate::abi) fn get_directories(process: &mut Process, (): ()) -> Result<Directories, Halt> {
    trace!(process.guest, "");
    let mut directories = Directories::new();
    for fd in FIRST_PREOPEN.. {
        let Ok(name) = process.guest.fd_prestat(fd) else { break };
        let name = name.to_owned();
        directories.push((process.add(Descriptor { fd, is_kept: false, mutates: true })?, name));
    }
    Ok(directories)
}
