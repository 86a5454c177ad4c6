//! Who may write to a file or directory of Windows: its owner, and the accounts in its access control list.
#![allow(unsafe_code, reason = "the system has no safe call for it")]

use std::ffi::{OsStr, OsString, c_void};
use std::fs::File;
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Component, Path, Prefix};
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::{ERROR_SUCCESS, GENERIC_ALL, GENERIC_WRITE, LocalFree};
use windows_sys::Win32::Security::Authorization as authorization;
use windows_sys::Win32::Security::{self as security, ACCESS_ALLOWED_ACE, ACE_HEADER, ACL, PSID};
use windows_sys::Win32::Storage::FileSystem as file_system;
use windows_sys::Win32::System::SystemServices as services;
use windows_sys::Win32::System::Threading as threading;

/// The rights with which a file, a directory, or what is in it becomes another one.
const WRITES: u32 = file_system::FILE_WRITE_DATA
    | file_system::FILE_APPEND_DATA
    | file_system::FILE_DELETE_CHILD
    | file_system::DELETE
    | file_system::WRITE_DAC
    | file_system::WRITE_OWNER
    | GENERIC_WRITE
    | GENERIC_ALL;

/// Room for the largest security identifier, of 68 bytes, and the two words before it.
type TokenUser = [u64; 16];

/// Returns the account that owns `path`, unless it is this user, the system or the administrators. A symbolic link
/// is examined itself unless `follows`.
///
/// # Errors
/// The system's error: `path` cannot be examined.
pub fn strange_owner(path: &Path, follows: bool) -> io::Result<Option<String>> {
    let (attributes, user) = (Attributes::of(path, follows)?, CurrentUser::new()?);
    Ok((!user.trusts(attributes.owner)).then(|| account(attributes.owner)))
}

/// Returns an account that may write to `path`, or to what is made in there, and is neither this user nor the system nor
/// an administrator. Links are followed.
///
/// # Errors
/// The system's error: `path` cannot be examined.
pub fn strange_writer(path: &Path) -> io::Result<Option<String>> {
    Attributes::of(path, true)?.strange_writer(&CurrentUser::new()?)
}

/// Creates the directory `path`, to which only this user, the administrators and the system have access. Its parent exists.
///
/// # Errors
/// The system's error, as of `std::fs::create_dir`.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let user = CurrentUser::new()?;
    let list = format!("D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;{})", sid_text(user.sid()));
    let (path, descriptor) = (long_path(path)?, descriptor_with(&list)?);
    let attributes = security::SECURITY_ATTRIBUTES {
        nLength: u32::try_from(size_of::<security::SECURITY_ATTRIBUTES>())
            .expect("the size of a small struct fits"),
        lpSecurityDescriptor: descriptor.0,
        bInheritHandle: 0,
    };
    // SAFETY: the path ends with a 0, and the attributes are valid during the call.
    check(unsafe { file_system::CreateDirectoryW(path.as_ptr(), &raw const attributes) })
}

/// The security descriptor with the access control list `list`, in the security descriptor definition language.
fn descriptor_with(list: &str) -> io::Result<Local> {
    let list = wide(OsStr::new(list));
    let mut descriptor = null_mut();
    // SAFETY: the text ends with a 0, and the system sets the descriptor.
    let done = unsafe {
        authorization::ConvertStringSecurityDescriptorToSecurityDescriptorW(
            list.as_ptr(),
            authorization::SDDL_REVISION_1,
            &raw mut descriptor,
            null_mut(),
        )
    };
    check(done)?;
    Ok(Local(descriptor))
}

/// The owner and the access control list of a file or directory.
struct Attributes {
    /// Both lie in here.
    _descriptor: Local,
    owner: PSID,
    list: *const ACL,
}

impl Attributes {
    fn of(path: &Path, follows: bool) -> io::Result<Self> {
        let mut flags = file_system::FILE_FLAG_BACKUP_SEMANTICS;
        if !follows {
            flags |= file_system::FILE_FLAG_OPEN_REPARSE_POINT;
        }
        let mut options = File::options();
        let file = options.access_mode(file_system::READ_CONTROL).custom_flags(flags).open(path)?;
        let (mut owner, mut list, mut descriptor) = (null_mut(), null_mut(), null_mut());
        // SAFETY: the handle is valid during the call, and the system sets the pointers.
        let error = unsafe {
            authorization::GetSecurityInfo(
                file.as_raw_handle(),
                authorization::SE_FILE_OBJECT,
                security::OWNER_SECURITY_INFORMATION | security::DACL_SECURITY_INFORMATION,
                &raw mut owner,
                null_mut(),
                &raw mut list,
                null_mut(),
                &raw mut descriptor,
            )
        };
        if error != ERROR_SUCCESS {
            return Err(io::Error::from_raw_os_error(error.cast_signed()));
        }
        Ok(Self { _descriptor: Local(descriptor), owner, list })
    }

    fn strange_writer(&self, user: &CurrentUser) -> io::Result<Option<String>> {
        if self.list.is_null() {
            return Ok(Some("everyone".to_owned()));
        }
        // SAFETY: the list lies in the descriptor, which is not freed yet.
        let count = unsafe { (*self.list).AceCount };
        for index in 0..u32::from(count) {
            let mut entry: *mut c_void = null_mut();
            // SAFETY: the list is valid, and has an entry with this number.
            check(unsafe { security::GetAce(self.list, index, &raw mut entry) })?;
            // SAFETY: each entry begins with a header.
            let kind = u32::from(unsafe { (*entry.cast::<ACE_HEADER>()).AceType });
            match kind {
                services::ACCESS_ALLOWED_ACE_TYPE | services::ACCESS_ALLOWED_CALLBACK_ACE_TYPE => {
                    let entry = entry.cast::<ACCESS_ALLOWED_ACE>();
                    // SAFETY: an entry of this kind has the rights and the account here.
                    let (rights, sid) =
                        unsafe { ((*entry).Mask, (&raw mut (*entry).SidStart).cast::<c_void>()) };
                    if rights & WRITES != 0 && !user.trusts(sid) {
                        return Ok(Some(account(sid)));
                    }
                }
                services::ACCESS_ALLOWED_COMPOUND_ACE_TYPE
                | services::ACCESS_ALLOWED_OBJECT_ACE_TYPE
                | services::ACCESS_ALLOWED_CALLBACK_OBJECT_ACE_TYPE => {
                    return Ok(Some(format!("the account of entry {index}")));
                }
                // Others deny access, or watch it.
                _ => {}
            }
        }
        Ok(None)
    }
}

/// The account of this process; what the system wrote has a pointer into itself.
struct CurrentUser(Box<TokenUser>);

impl CurrentUser {
    fn new() -> io::Result<Self> {
        let mut token = null_mut();
        // SAFETY: the handle of the process needs no closing, and the system sets the token's.
        check(unsafe {
            let process = threading::GetCurrentProcess();
            threading::OpenProcessToken(process, security::TOKEN_QUERY, &raw mut token)
        })?;
        // SAFETY: the handle is valid, and nobody else closes it.
        let token = unsafe { OwnedHandle::from_raw_handle(token) };
        let mut user = Box::new(TokenUser::default());
        let (bytes, mut needed) = (size_of::<TokenUser>(), 0);
        // SAFETY: the system writes at most this number of bytes.
        let done = unsafe {
            security::GetTokenInformation(
                token.as_raw_handle(),
                security::TokenUser,
                user.as_mut_ptr().cast(),
                u32::try_from(bytes).expect("the size of a small array fits"),
                &raw mut needed,
            )
        };
        check(done)?;
        Ok(Self(user))
    }

    fn sid(&self) -> PSID {
        // SAFETY: the system has written this struct, whose alignment is that of the array.
        unsafe { (*self.0.as_ptr().cast::<security::TOKEN_USER>()).User.Sid }
    }

    /// Whether `sid` is this user, the system, or an administrator, who can write everywhere anyway; or stands for the
    /// owner, who is examined himself.
    fn trusts(&self, sid: PSID) -> bool {
        let known = [
            security::WinLocalSystemSid,
            security::WinBuiltinAdministratorsSid,
            security::WinCreatorOwnerSid,
            security::WinCreatorOwnerRightsSid,
        ];
        // SAFETY: both identifiers are valid: the system made them.
        let is = |kind| unsafe { security::IsWellKnownSid(sid, kind) } != 0;
        // SAFETY: as above.
        let is_user = unsafe { security::EqualSid(sid, self.sid()) } != 0;
        is_user || known.into_iter().any(is)
    }
}

/// Memory that the system gave.
struct Local(*mut c_void);

impl Drop for Local {
    fn drop(&mut self) {
        // SAFETY: it is freed once, here.
        unsafe { LocalFree(self.0) };
    }
}

/// The name of an account, such as `BUILTIN\Users`, or its identifier if it has none.
fn account(sid: PSID) -> String {
    const LEN_MAX: u32 = 256;
    let (mut name, mut domain) = ([0_u16; LEN_MAX as usize], [0_u16; LEN_MAX as usize]);
    let (mut name_len, mut domain_len, mut kind) = (LEN_MAX, LEN_MAX, 0);
    // SAFETY: the identifier is valid, and the system writes at most that many units.
    let done = unsafe {
        security::LookupAccountSidW(
            null(),
            sid,
            name.as_mut_ptr(),
            &raw mut name_len,
            domain.as_mut_ptr(),
            &raw mut domain_len,
            &raw mut kind,
        )
    };
    let text = |units: &[u16], len: u32| String::from_utf16_lossy(&units[..len as usize]);
    match (done, domain_len) {
        (0, _) => sid_text(sid),
        (_, 0) => text(&name, name_len),
        _ => format!("{}\\{}", text(&domain, domain_len), text(&name, name_len)),
    }
}

/// A security identifier, as `S-1-5-32-545`.
fn sid_text(sid: PSID) -> String {
    let mut text = null_mut();
    // SAFETY: the identifier is valid, and the system sets the pointer.
    let done = unsafe { authorization::ConvertSidToStringSidW(sid, &raw mut text) };
    if done == 0 {
        return "an unknown account".to_owned();
    }
    let text = Local(text.cast());
    let units = text.0.cast::<u16>();
    // SAFETY: the text ends with a 0.
    let units = unsafe {
        let mut len = 0;
        while *units.add(len) != 0 {
            len += 1;
        }
        std::slice::from_raw_parts(units, len)
    };
    OsString::from_wide(units).to_string_lossy().into_owned()
}

/// `path` for a call of the system, without the limit of 260 units.
fn long_path(path: &Path) -> io::Result<Vec<u16>> {
    let path = std::path::absolute(path)?;
    let Some(Component::Prefix(prefix)) = path.components().next() else {
        return Ok(wide(path.as_os_str()));
    };
    let text = path.as_os_str();
    let mut long = OsString::new();
    match prefix.kind() {
        Prefix::Disk(_) => {
            long.push(r"\\?\");
            long.push(text);
        }
        Prefix::UNC(..) => {
            long.push(r"\\?\UNC");
            long.push(OsString::from_wide(&text.encode_wide().skip(1).collect::<Vec<_>>()));
        }
        _ => long.push(text),
    }
    Ok(wide(&long))
}

fn wide(text: &OsStr) -> Vec<u16> {
    text.encode_wide().chain([0]).collect()
}

fn check(done: i32) -> io::Result<()> {
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests use the disk")]
mod tests {
    use super::*;

    /// Lets everyone write to `path`.
    fn share(path: &Path) {
        let (mut path, descriptor) =
            (long_path(path).unwrap(), descriptor_with("D:P(A;OICI;FA;;;WD)").unwrap());
        let (mut dacl, mut is_there, mut is_default) = (null_mut(), 0, 0);
        // SAFETY: the path ends with a 0, the descriptor is valid, and the system sets the pointers.
        let error = unsafe {
            let (is_there, is_default) = (&raw mut is_there, &raw mut is_default);
            check(security::GetSecurityDescriptorDacl(
                descriptor.0,
                is_there,
                &raw mut dacl,
                is_default,
            ))
            .unwrap();
            authorization::SetNamedSecurityInfoW(
                path.as_mut_ptr(),
                authorization::SE_FILE_OBJECT,
                security::DACL_SECURITY_INFORMATION,
                null_mut(),
                null_mut(),
                dacl,
                null_mut(),
            )
        };
        assert_eq!(error, ERROR_SUCCESS);
    }

    #[test]
    fn private_directory_has_no_stranger_and_others_are_named() {
        let temp = tempfile::tempdir().unwrap();
        let private = temp.path().join("private");
        create_private_dir(&private).unwrap();
        std::fs::write(private.join("file"), "content").unwrap();
        for path in [private.clone(), private.join("file")] {
            assert_eq!(strange_owner(&path, true).unwrap(), None);
            assert_eq!(strange_owner(&path, false).unwrap(), None);
            assert_eq!(strange_writer(&path).unwrap(), None);
        }
        share(&private);
        assert!(strange_writer(&private).unwrap().is_some_and(|name| !name.is_empty()));
        let kind = create_private_dir(&private).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn private_directory_has_a_long_path() {
        let temp = tempfile::tempdir().unwrap();
        let long = ["deep"; 60].iter().fold(temp.path().to_owned(), |path, name| path.join(name));
        std::fs::create_dir_all(&long).unwrap();
        create_private_dir(&long.join("private")).unwrap();
        assert_eq!(strange_writer(&long.join("private")).unwrap(), None);
    }
}
