//! Work that gives way to other work.
#![cfg_attr(
    any(windows, target_vendor = "apple"),
    allow(unsafe_code, reason = "these systems have no safe call for it")
)]

/// As [`give_way`], for this process, which has a session of its own: where Linux schedules sessions as groups, a priority
/// counts within its group alone.
#[cfg(feature = "cli")]
pub fn give_way_as_session() {
    #[cfg(target_os = "linux")]
    if let Ok(mut group) = super::disk::append(std::path::Path::new("/proc/self/autogroup")) {
        let _ = std::io::Write::write_all(&mut group, b"19");
    }
    give_way();
}

/// Gives the calling thread, and threads that it starts, the lowest priority, as far as the system allows.
pub fn give_way() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
    #[cfg(target_vendor = "apple")]
    // SAFETY: a system call without pointers, about the calling thread.
    unsafe {
        libc::setpriority(libc::PRIO_DARWIN_THREAD, 0, libc::PRIO_DARWIN_BG);
    }
    #[cfg(windows)]
    // SAFETY: as above.
    unsafe {
        use windows_sys::Win32::System::Threading as threading;
        threading::SetThreadPriority(
            threading::GetCurrentThread(),
            threading::THREAD_PRIORITY_LOWEST,
        );
    }
}
