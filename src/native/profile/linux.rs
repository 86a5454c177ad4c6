//! Linux: Landlock for files, TCP and signals; seccomp filters for everything else.
//!
//! All rules are made before the fork. Between fork and exec the child only makes system calls:
//! another thread of this process may have held any lock at the fork, including the allocator's.
#![allow(unsafe_code, reason = "the compiler cannot check code between fork and exec")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    PathBeneath, PathFd, RestrictSelf, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, Scope, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

use super::{DEVICES, ProfileError, SandboxProfile};

/// Readable by hardened programs besides their roots: programs, libraries, the loader's
/// configuration, and the number of processors.
const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
];

/// Calls that a hardened program does not need and a break-out does.
const DENIED: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Sockets. `socketpair` is restricted below.
    libc::SYS_socket,
    // IPC objects that processes of one user share by number or name.
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
    // Operations queued to io_uring pass by the filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // File systems and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    // Keys.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_perf_event_open,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_userfaultfd,
];

/// Flags of `clone` that create namespaces.
const CLONE_NEW: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// The version of Landlock that a profile needs: 3 restricts truncation, 6 signals.
fn abi(profile: SandboxProfile) -> ABI {
    if profile == SandboxProfile::OsHardened { ABI::V6 } else { ABI::V3 }
}

/// Says what the system lacks for `profile`.
pub(super) fn check(profile: SandboxProfile) -> Result<(), String> {
    let since = if profile == SandboxProfile::OsHardened { "6.12" } else { "6.2" };
    let needed = abi(profile);
    let wanted = format!("version {} of Landlock is required (Linux {since})", needed as i32);
    // Restricts nothing: the answer says what the kernel supports.
    let restricted = RestrictSelf::default().no_new_privs(false).apply();
    let landlock = restricted.map_err(|error| error.to_string())?.landlock;
    match landlock {
        LandlockStatus::NotImplemented => Err(format!("the kernel has no Landlock; {wanted}")),
        LandlockStatus::NotEnabled => {
            Err(format!("Landlock is off (`lsm=` on the kernel's command line); {wanted}"))
        }
        LandlockStatus::Available { effective_abi, .. } if effective_abi < needed => {
            Err(format!("{wanted}; the kernel has version {}", effective_abi as i32))
        }
        LandlockStatus::Available { .. } => filters(profile)
            .map(|_| ())
            .map_err(|error| format!("system calls cannot be filtered: {error}")),
    }
}

/// The rules of a profile.
pub(super) struct Sandbox {
    ruleset: RulesetCreated,
    filters: Arc<[BpfProgram]>,
    is_hardened: bool,
}

impl Sandbox {
    pub(super) fn new(
        profile: SandboxProfile,
        writable: &[PathBuf],
        readable: &[PathBuf],
    ) -> Result<Self, ProfileError> {
        let refused = |source| ProfileError::Rules { profile, source };
        let open = |path: &PathBuf| {
            PathFd::new(path).map_err(|error| {
                let source = io::Error::other(error);
                ProfileError::Root { path: path.clone(), source }
            })
        };
        let roots = writable.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let readable = readable.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let ruleset = ruleset(profile, roots, readable).map_err(|error| refused(error.into()))?;
        let filters = filters(profile).map_err(|error| refused(error.into()))?.into();
        Ok(Self { ruleset, filters, is_hardened: profile == SandboxProfile::OsHardened })
    }

    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "other systems need a launcher"
    )]
    pub(super) fn launch(&self, program: &OsStr) -> io::Result<(OsString, Vec<OsString>)> {
        Ok((program.to_owned(), Vec::new()))
    }

    pub(super) fn confine(&self, command: &mut Command) -> io::Result<()> {
        let mut ruleset = Some(self.ruleset.try_clone()?);
        let (filters, is_hardened) = (Arc::clone(&self.filters), self.is_hardened);
        let enter = move || {
            close_on_exec()?;
            if is_hardened {
                // An addition: the filter denies sockets, whether this succeeds or not.
                // SAFETY: the child has one thread, and no pointer refers to a network namespace.
                let _ = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) };
                let none = CapabilitySet::empty();
                let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
                rustix::thread::set_capabilities(None, sets)?;
            }
            if let Some(ruleset) = ruleset.take() {
                // The library's error is made from `errno`, which is still set.
                ruleset.restrict_self().map_err(|_| io::Error::last_os_error())?;
            }
            for filter in filters.iter() {
                seccompiler::apply_filter(filter).map_err(|_| io::Error::last_os_error())?;
            }
            Ok(())
        };
        // SAFETY: `enter` only makes system calls on data made before the fork. It takes no locks
        // and allocates nothing: errors are kept as numbers.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}

/// Closes, at exec, descriptors that this process inherited.
fn close_on_exec() -> io::Result<()> {
    let (first, last, flags) = (3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: it sets a flag of descriptors and accesses no memory.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn ruleset(
    profile: SandboxProfile,
    roots: Vec<PathFd>,
    readable: Vec<PathFd>,
) -> Result<RulesetCreated, RulesetError> {
    let abi = abi(profile);
    let is_hardened = profile == SandboxProfile::OsHardened;
    let handled = if is_hardened { AccessFs::from_all(abi) } else { AccessFs::from_write(abi) };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)?;
    if is_hardened {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?.scope(Scope::from_all(abi))?;
    }
    // A program that may create device nodes could create the disk's and write to it.
    let in_roots = handled & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let of_devices = handled & (AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate);
    let in_system: BitFlags<AccessFs> = handled & AccessFs::from_read(abi);
    let mut ruleset = ruleset
        .create()?
        .add_rules(
            roots.into_iter().map(|root| Ok::<_, RulesetError>(PathBeneath::new(root, in_roots))),
        )?
        .add_rules(path_beneath_rules(DEVICES, of_devices))?;
    if is_hardened {
        let rule = |folder| Ok::<_, RulesetError>(PathBeneath::new(folder, in_system));
        ruleset = ruleset
            .add_rules(path_beneath_rules(SYSTEM, in_system))?
            .add_rules(readable.into_iter().map(rule))?;
    }
    Ok(ruleset)
}

/// `fchmodat2`, on all architectures that have filters.
const FCHMODAT2: i64 = 452;

/// Calls that set a file's mode, and the index of that argument.
const SET_MODE: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, 1),
    (libc::SYS_mkdirat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// Calls that take a mode if they create a file: indices of the flags and of the mode.
const OPEN: &[(i64, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

/// The set-user-ID and set-group-ID bits. New files inherit the second from their directory.
const SET_ID: [libc::mode_t; 2] = [libc::S_ISUID, libc::S_ISGID];

/// Flags with which `open` creates a file. `O_TMPFILE` without the bit of `O_DIRECTORY`.
const MAKES: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filters of a profile. If two apply to a call, the stricter answer holds.
fn filters(profile: SandboxProfile) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let mut unknown = Rules::new();
    // Their modes and flags are in memory, which a filter cannot read; C libraries and programs
    // fall back to other calls on `ENOSYS`.
    unknown.insert(libc::SYS_openat2, Vec::new());
    if profile == SandboxProfile::Worktree {
        unknown.insert(libc::SYS_io_uring_setup, Vec::new());
    }
    let mut filters = vec![compile(set_id_rules()?, libc::EPERM)?];
    if profile == SandboxProfile::OsHardened {
        unknown.insert(libc::SYS_clone3, Vec::new());
        filters.push(compile(hardened_rules()?, libc::EPERM)?);
    }
    let mut unknown = compile(unknown, libc::ENOSYS)?;
    if cfg!(target_arch = "x86_64") {
        unknown.splice(0..0, deny_x32());
    }
    filters.push(unknown);
    Ok(filters)
}

/// Answers `errno` to calls that match `rules` and allows all others.
fn compile(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, seccompiler::BackendError> {
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let machine = std::env::consts::ARCH.try_into()?;
    BpfProgram::try_from(SeccompFilter::new(rules, SeccompAction::Allow, answer, machine)?)
}

fn condition(
    index: u8,
    operator: SeccompCmpOp,
    value: u32,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value.into())
}

/// The argument has these bits set.
fn has(index: u8, bits: u32) -> Result<SeccompCondition, seccompiler::BackendError> {
    condition(index, SeccompCmpOp::MaskedEq(bits.into()), bits)
}

/// Calls that set a set-user-ID or set-group-ID bit.
fn set_id_rules() -> Result<Rules, seccompiler::BackendError> {
    let mut rules = Rules::new();
    for (call, mode) in SET_MODE {
        let with_bit = SET_ID.map(|bit| SeccompRule::new(vec![has(*mode, bit)?]));
        rules.insert(*call, with_bit.into_iter().collect::<Result<_, _>>()?);
    }
    for (call, flags, mode) in OPEN {
        let all = MAKES.into_iter().flat_map(|flag| SET_ID.map(|bit| (flag, bit)));
        let making = all.map(|(flag, bit)| {
            SeccompRule::new(vec![has(*flags, flag.cast_unsigned())?, has(*mode, bit)?])
        });
        rules.insert(*call, making.collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// What a hardened program may not do in addition.
fn hardened_rules() -> Result<Rules, seccompiler::BackendError> {
    let argument = |index, operator, value: libc::c_int| {
        SeccompRule::new(vec![condition(index, operator, value.cast_unsigned())?])
    };
    let has_flag = |flag: libc::c_int| SeccompRule::new(vec![has(0, flag.cast_unsigned())?]);
    let is_type = |kind| argument(1, SeccompCmpOp::MaskedEq(0xf), kind);
    let mut denied: Rules = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    // A socket pair is a pipe, unless one end can send to an address.
    denied.insert(
        libc::SYS_socketpair,
        vec![
            argument(0, SeccompCmpOp::Ne, libc::AF_UNIX)?,
            is_type(libc::SOCK_DGRAM)?,
            is_type(libc::SOCK_RAW)?,
        ],
    );
    denied.insert(libc::SYS_clone, CLONE_NEW.into_iter().map(has_flag).collect::<Result<_, _>>()?);
    // Setting the processor-time limit of another process to zero kills it.
    denied.insert(libc::SYS_prlimit64, vec![argument(0, SeccompCmpOp::Ne, 0)?]);
    // These type into the terminal that this process was started from.
    denied.insert(
        libc::SYS_ioctl,
        vec![
            argument(1, SeccompCmpOp::Eq, libc::TIOCSTI as libc::c_int)?,
            argument(1, SeccompCmpOp::Eq, libc::TIOCLINUX as libc::c_int)?,
        ],
    );
    Ok(denied)
}

/// Answers `ENOSYS` to x32, a second set of numbers for the same calls, which no rule lists.
fn deny_x32() -> [sock_filter; 3] {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const FIRST_X32: u32 = 0x4000_0000;
    let answer = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    [
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_GREATER_OR_EQUAL, jt: 0, jf: 1, k: FIRST_X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: answer },
    ]
}
