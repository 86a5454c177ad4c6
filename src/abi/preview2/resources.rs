//! The resources of a component that are the host's: what the indices mean that its handles stand for.

use wasmtime::component::{LinkerInstance, Resource, ResourceType};

use super::call::{Halt, call, call_waiting};
use super::child::Child;
use super::errors::IoError;
use super::filesystem::{Descriptor, DirectoryEntryStream};
use super::input::InputStream;
use super::output::OutputStream;
use super::poll::Pollable;
use super::sockets::Network;
use super::types::ErrorCode;
use super::{exchange, http};
use crate::abi::{Process, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::{Fault, Guest};
use crate::kernel::machine::limits::{Limit, Stop};

/// Bytes charged for a resource: this table's entry, and wasmtime's.
const RESOURCE_BYTES: u64 = 128;

/// What wasmtime rules out.
const NO_RESOURCE: Halt = Halt::Trap("there is no such resource");

/// The resources of a process, and the descriptors that they keep open.
#[derive(Default)]
pub(in crate::abi) struct Resources {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By descriptor, how many resources keep it open. Descriptors that no resource opened are not counted.
    users: Vec<u32>,
    /// The errno that the call which is being made answers, for the trace.
    pub(in crate::abi) failed: Option<Errno>,
    /// The answer of `insecure-seed`, once asked for.
    pub(super) insecure_seed: Option<(u64, u64)>,
}

#[derive(Default)]
struct Slot {
    value: Option<Value>,
    /// The resource that this one came from, which must not be dropped before it.
    parent: Option<u32>,
    children: u32,
}

/// A resource.
pub(in crate::abi) enum Value {
    Child(Child),
    Descriptor(Descriptor),
    DirectoryEntryStream(DirectoryEntryStream),
    Error(IoError),
    Fields(http::Fields),
    FutureResponse(exchange::FutureResponse),
    FutureTrailers(http::FutureTrailers),
    IncomingBody(exchange::IncomingBody),
    IncomingResponse(http::IncomingResponse),
    InputStream(InputStream),
    Network(Network),
    OutgoingBody(exchange::OutgoingBody),
    OutgoingRequest(http::OutgoingRequest),
    OutputStream(OutputStream),
    Pollable(Pollable),
    RequestOptions(http::RequestOptions),
}

/// A type of resource.
pub(in crate::abi) trait Kind: Sized + 'static {
    /// The resource `value`, if it is of this type.
    fn of(value: &mut Value) -> Option<&mut Self>;

    /// This resource.
    fn into_value(self) -> Value;

    /// The resource `value`, if it is of this type.
    fn from_value(value: Value) -> Option<Self>;

    /// The descriptor that it keeps open.
    fn descriptor(&self) -> Option<u32> {
        None
    }
}

macro_rules! kinds {
    ($($variant:ident($type:ty) $(keeps |$it:ident| $descriptor:expr)?,)*) => {
        $(impl Kind for $type {
            fn of(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            }

            fn into_value(self) -> Value {
                Value::$variant(self)
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            }

            $(fn descriptor(&self) -> Option<u32> {
                let $it = self;
                $descriptor
            })?
        })*
    };
}

kinds! {
    Child(Child),
    Descriptor(Descriptor) keeps |it| it.is_kept.then_some(it.fd),
    DirectoryEntryStream(DirectoryEntryStream) keeps |it| Some(it.fd),
    Error(IoError),
    Fields(http::Fields),
    FutureResponse(exchange::FutureResponse),
    FutureTrailers(http::FutureTrailers),
    IncomingBody(exchange::IncomingBody),
    IncomingResponse(http::IncomingResponse),
    InputStream(InputStream) keeps |it| it.kept(),
    Network(Network),
    OutgoingBody(exchange::OutgoingBody),
    OutgoingRequest(http::OutgoingRequest),
    OutputStream(OutputStream) keeps |it| it.kept(),
    Pollable(Pollable),
    RequestOptions(http::RequestOptions),
}

/// Defines the resource `T` as `name` in `instance`.
///
/// # Errors
/// The name is already defined.
pub(in crate::abi) fn define<T: Kind>(
    instance: &mut LinkerInstance<'_, Process>,
    name: &str,
) -> wasmtime::Result<()> {
    instance.resource(name, ResourceType::host::<T>(), |store, index| {
        call(store, "[resource-drop]", Guest::begin_call, |process| {
            process.drop_resource::<T>(index)
        })
    })
}

/// As [`define`], for a resource whose end the host is told.
///
/// # Errors
/// The name is already defined.
pub(super) fn define_ended<T: Kind + exchange::Ended>(
    instance: &mut LinkerInstance<'_, Process>,
    name: &str,
) -> wasmtime::Result<()> {
    instance.resource_async(name, ResourceType::host::<T>(), |store, index| {
        let prepare = |process: &mut Process, index: u32| {
            trace!(process.guest, "{index}");
            process.take(&Resource::<T>::new_own(index)).map(exchange::Ended::open)
        };
        let close = |process: &mut Process, open: &Option<u64>| exchange::close(process, *open);
        let (name, begin) = ("[resource-drop]", Guest::begin_call);
        Box::new(call_waiting(store, name, begin, index, prepare, close))
    })
}

impl Process {
    /// Adds `resource`.
    ///
    /// # Errors
    /// The limit of memory.
    pub(in crate::abi) fn add<T: Kind>(&mut self, resource: T) -> Result<Resource<T>, Halt> {
        self.add_below(resource, None)
    }

    /// `answer`, whose resource is added, as the interface says it.
    pub(super) fn add_answer<T: Kind>(
        &mut self,
        answer: Result<T, Fault>,
    ) -> Result<Result<Resource<T>, ErrorCode>, Halt> {
        match self.answer(answer)? {
            Ok(resource) => self.add(resource).map(Ok),
            Err(code) => Ok(Err(code)),
        }
    }

    /// Adds `resource`, a child of `parent`.
    ///
    /// # Errors
    /// The limit of memory.
    pub(super) fn add_child<T: Kind, P: Kind>(
        &mut self,
        resource: T,
        parent: &Resource<P>,
    ) -> Result<Resource<T>, Halt> {
        self.resource(parent)?;
        self.add_below(resource, Some(parent.rep()))
    }

    fn add_below<T: Kind>(
        &mut self,
        resource: T,
        parent: Option<u32>,
    ) -> Result<Resource<T>, Halt> {
        let index = match self.resources.free.pop() {
            Some(index) => index,
            None if self.take_memory(RESOURCE_BYTES) => {
                self.resources.slots.push(Slot::default());
                // The limit of memory keeps it within a u32.
                (self.resources.slots.len() - 1) as u32
            }
            None => return Err(Stop::Limit(Limit::Memory).into()),
        };
        if let Some(fd) = resource.descriptor() {
            // Children have what they are given.
            let closed = self.guest.fd_set_close_on_exec(fd, true);
            closed.map_err(Halt::Unsaid)?;
            let users = &mut self.resources.users;
            users.resize(users.len().max(fd as usize + 1), 0);
            users[fd as usize] += 1;
        }
        if let Some(parent) = parent {
            self.resources.slots[parent as usize].children += 1;
        }
        let value = Some(resource.into_value());
        self.resources.slots[index as usize] = Slot { value, parent, children: 0 };
        Ok(Resource::new_own(index))
    }

    /// The resource behind `handle`.
    ///
    /// # Errors
    /// A trap if there is none, which wasmtime rules out.
    pub(in crate::abi) fn resource<T: Kind>(
        &mut self,
        handle: &Resource<T>,
    ) -> Result<&mut T, Halt> {
        self.resources.at(handle.rep())
    }

    fn drop_resource<T: Kind>(&mut self, index: u32) -> Result<(), Halt> {
        trace!(self.guest, "{index}");
        self.take(&Resource::<T>::new_own(index)).map(|_| ())
    }

    /// Takes away the resource behind `handle`.
    ///
    /// # Errors
    /// A trap if it has children; errors of closing its descriptor.
    pub(in crate::abi) fn take<T: Kind>(&mut self, handle: &Resource<T>) -> Result<T, Halt> {
        let index = handle.rep();
        let descriptor = self.resources.at::<T>(index)?.descriptor();
        let slot = &mut self.resources.slots[index as usize];
        if slot.children > 0 {
            return Err(Halt::Trap("a resource was dropped before its children"));
        }
        let Slot { value, parent, .. } = std::mem::take(slot);
        self.resources.free.push(index);
        if let Some(parent) = parent {
            self.resources.slots[parent as usize].children -= 1;
        }
        if let Some(fd) = descriptor {
            let users = &mut self.resources.users[fd as usize];
            *users -= 1;
            if *users == 0 {
                // A native program cannot have closed it: it is this process's.
                self.guest.fd_close(fd).map_err(Halt::Unsaid)?;
            }
        }
        value.and_then(T::from_value).ok_or(NO_RESOURCE)
    }
}

impl Resources {
    fn at<T: Kind>(&mut self, index: u32) -> Result<&mut T, Halt> {
        let value = self.slots.get_mut(index as usize).and_then(|slot| slot.value.as_mut());
        value.and_then(T::of).ok_or(NO_RESOURCE)
    }
}
