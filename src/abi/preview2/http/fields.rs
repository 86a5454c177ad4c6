//! `fields`: headers.

use wasmtime::component::Resource;

use crate::abi::preview2::call::{Halt, interface};
use crate::abi::preview2::exchange::{Field, HeaderError, charged, grow};
use crate::abi::{Process, trace};
use crate::kernel::machine::memory::Charge;

interface! {
    /// `fields`
    fields:
    "[constructor]fields" => is(constructor),
    "[static]fields.from-list" => is(from_list),
    "[method]fields.get" => is(get),
    "[method]fields.has" => is(has),
    "[method]fields.set" => is(set),
    "[method]fields.delete" => is(delete),
    "[method]fields.append" => is(append),
    "[method]fields.entries" => is(entries),
    "[method]fields.clone" => is(clone),
}

/// Names that belong to the connection, which is the host's.
const FORBIDDEN: [&str; 9] = [
    "connection",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Bytes charged for a field beside its name and its value.
const FIELD_BYTES: u64 = 64;

/// `wasi:http/types.fields`
pub struct Fields {
    pub entries: Vec<Field>,
    is_immutable: bool,
    /// Until it is dropped; what is deleted stays charged.
    pub charge: Charge,
}

type Handle = Resource<Fields>;

impl Fields {
    /// Fields of a message, which cannot be changed.
    ///
    /// # Errors
    /// The limit of memory.
    pub fn of_message(process: &mut Process, entries: Vec<Field>) -> Result<Self, Halt> {
        Self::new(process, entries, true)
    }

    fn new(process: &mut Process, entries: Vec<Field>, is_immutable: bool) -> Result<Self, Halt> {
        let mut charge = process.guest.machine().run.memory.charge();
        grow(process, &mut charge, size(&entries))?;
        Ok(Self { entries, is_immutable, charge })
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Vec<u8>> {
        self.entries
            .iter()
            .filter(move |(it, _)| it.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    fn remove(&mut self, name: &str) {
        self.entries.retain(|(it, _)| !it.eq_ignore_ascii_case(name));
    }
}

fn size(entries: &[Field]) -> u64 {
    entries.iter().map(|(name, value)| FIELD_BYTES + (name.len() + value.len()) as u64).sum()
}

/// Checks the name of a field: a token (RFC 9110, 5.6.2) that belongs to components.
///
/// # Errors
/// `invalid-syntax`, `forbidden`.
fn check_name(name: &str) -> Result<(), HeaderError> {
    if !is_token(name) {
        return Err(HeaderError::InvalidSyntax);
    }
    if FORBIDDEN.iter().any(|it| it.eq_ignore_ascii_case(name)) {
        return Err(HeaderError::Forbidden);
    }
    Ok(())
}

/// Whether `text` is a token of RFC 9110, 5.6.2.
pub fn is_token(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_token)
}

/// Checks the value of a field (RFC 9110, 5.5).
///
/// # Errors
/// `invalid-syntax`.
fn check_value(value: &[u8]) -> Result<(), HeaderError> {
    let is_of_value = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    if value.iter().all(is_of_value) { Ok(()) } else { Err(HeaderError::InvalidSyntax) }
}

fn constructor(process: &mut Process, (): ()) -> Result<Handle, Halt> {
    trace!(process.guest, "");
    let fields = Fields::new(process, Vec::new(), false)?;
    process.add(fields)
}

fn from_list(
    process: &mut Process,
    (entries,): (Vec<Field>,),
) -> Result<Result<Handle, HeaderError>, Halt> {
    trace!(process.guest, "nentries={}", entries.len());
    let check = |(name, value): &Field| check_name(name).and_then(|()| check_value(value));
    if let Err(error) = entries.iter().try_for_each(check) {
        return Ok(Err(error));
    }
    let fields = Fields::new(process, entries, false)?;
    process.add(fields).map(Ok)
}

fn get(process: &mut Process, (fields, name): (Handle, String)) -> Result<Vec<Vec<u8>>, Halt> {
    trace!(process.guest, "name={name:?}");
    Ok(process.resource(&fields)?.named(&name).cloned().collect())
}

fn has(process: &mut Process, (fields, name): (Handle, String)) -> Result<bool, Halt> {
    trace!(process.guest, "name={name:?}");
    Ok(process.resource(&fields)?.named(&name).next().is_some())
}

fn set(
    process: &mut Process,
    (fields, name, values): (Handle, String, Vec<Vec<u8>>),
) -> Result<Result<(), HeaderError>, Halt> {
    trace!(process.guest, "name={name:?}, nvalues={}", values.len());
    change(process, &fields, &name, values, true)
}

fn append(
    process: &mut Process,
    (fields, name, value): (Handle, String, Vec<u8>),
) -> Result<Result<(), HeaderError>, Halt> {
    trace!(process.guest, "name={name:?}");
    change(process, &fields, &name, vec![value], false)
}

fn delete(
    process: &mut Process,
    (fields, name): (Handle, String),
) -> Result<Result<(), HeaderError>, Halt> {
    trace!(process.guest, "name={name:?}");
    change(process, &fields, &name, Vec::new(), true)
}

/// Adds the field `name` with each of `values`, in the place of those of this name if it `replaces` them.
fn change(
    process: &mut Process,
    fields: &Handle,
    name: &str,
    values: Vec<Vec<u8>>,
    replaces: bool,
) -> Result<Result<(), HeaderError>, Halt> {
    if process.resource(fields)?.is_immutable {
        return Ok(Err(HeaderError::Immutable));
    }
    let checked = values.iter().try_fold((), |(), value| check_value(value));
    if let Err(error) = check_name(name).and(checked) {
        return Ok(Err(error));
    }
    let added: Vec<Field> = values.into_iter().map(|value| (name.to_owned(), value)).collect();
    let grown = process.resource(fields)?.charge.grow(size(&added));
    charged(process, grown)?;
    let fields = process.resource(fields)?;
    if replaces {
        fields.remove(name);
    }
    fields.entries.extend(added);
    Ok(Ok(()))
}

fn entries(process: &mut Process, (fields,): (Handle,)) -> Result<Vec<Field>, Halt> {
    trace!(process.guest, "");
    Ok(process.resource(&fields)?.entries.clone())
}

fn clone(process: &mut Process, (fields,): (Handle,)) -> Result<Handle, Halt> {
    trace!(process.guest, "");
    let entries = process.resource(&fields)?.entries.clone();
    let fields = Fields::new(process, entries, false)?;
    process.add(fields)
}
