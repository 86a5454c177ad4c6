//! Rank 4: the imports of modules, translated to calls of the kernel.
//!
//! Each function decodes its arguments, makes one call on [`Guest`], and encodes the answer. Pointers,
//! also those for answers, are checked before the call, so that a call has an answer or no effect.

pub mod belljar;
mod binding;
mod calls;
mod difference;
mod error_code;
mod follower;
pub mod interface;
mod large_stack;
mod memory;
pub mod preview1;
pub mod preview2;
pub mod preview3;

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::{AsContextMut, Caller, Linker, Memory, ResourceLimiter, StoreContextMut};

use crate::base::errno::Errno;
use crate::base::exhausted::is_exhausted;
use crate::kernel::guest::{Buffers, Fault, Guest, Range};
use crate::kernel::machine::limits::{Limit, Stop};
use crate::kernel::machine::memory::Charge;
use crate::kernel::process::programs::uncounted_time;
use crate::results::{Function, Span};
use binding::Binding;
pub use binding::Signature;
pub use calls::Calls;
use calls::NotOfTrace;
pub use difference::contradiction;
pub use follower::{ARGS_MAX, Follower, MODULE as PLAYER_MODULE, NEXT};
use large_stack::LargeStack;
use memory::GuestMemory;

/// Bytes of a stack that are not charged: what optimized code may use.
const FREE_STACK_BYTES: u64 = 8 << 20;

/// Bytes charged for an entry of a table.
const TABLE_ELEMENT_BYTES: u64 = 8;

/// The data of a wasmtime store: one process.
pub struct Process {
    /// The kernel's side.
    pub guest: Guest,
    /// What ends it at the deadline of its run, if that interrupts its code.
    pub interruption: Option<Box<dyn Interruption>>,
    /// Uncounted time of this thread when `interruption` was set.
    uncounted: Duration,
    /// Its export `memory`, once looked up.
    memory: Option<Memory>,
    charge: Charge,
    /// Bytes of memory that are not charged: those of memories that are not the module's own.
    free_bytes: u64,
    /// Its stack, if that is larger than the stack of optimized code.
    large_stack: Option<LargeStack>,
    /// Bytes of its stack that are charged.
    stack_bytes: u64,
    /// Its calls, if they are taken down or made again.
    calls: Option<Box<Calls>>,
    /// What the handles of a component stand for.
    resources: preview2::resources::Resources,
    /// What the tasks of a component wait for.
    waits: preview3::Waits,
}

/// Interrupts the code of a process at the deadline of its run.
pub trait Interruption: Send {
    /// The deadline moved to `deadline`.
    fn follow(&mut self, deadline: Instant);

    /// Whether the code is interrupted.
    fn is_interrupted(&self) -> bool;
}

impl Process {
    /// Creates a process that has not started, in its turn. Its calls are taken down, or made again, as `calls` says.
    pub fn new(guest: Guest, calls: Option<Calls>) -> Self {
        let charge = guest.machine().run.memory.charge();
        Self {
            guest,
            interruption: None,
            uncounted: uncounted_time(),
            memory: None,
            charge,
            free_bytes: 0,
            large_stack: None,
            stack_bytes: 0,
            calls: calls.map(Box::new),
            resources: preview2::resources::Resources::default(),
            waits: preview3::Waits::default(),
        }
    }

    /// The kernel's side, and the calls.
    pub fn into_parts(self) -> (Guest, Option<Calls>) {
        (self.guest, self.calls.map(|calls| *calls))
    }

    /// A call of `function` begins.
    #[inline]
    fn note_call(&mut self, function: &Arc<Function>, args: &[u64]) {
        if let Some(calls) = &mut self.calls {
            calls.begin(function, args);
        }
    }

    /// The limit of memory does not count `bytes` of memory that is added to its module.
    pub fn add_free_memory(&mut self, bytes: u64) {
        self.free_bytes += bytes;
    }

    /// The stack of the process, `bytes` long, begins at this function's frame. The part of it beyond
    /// [`FREE_STACK_BYTES`] counts as memory before a call that may wait. Tasks may have others, if it is not the `is_only` one.
    pub fn begin_large_stack(&mut self, bytes: usize, is_only: bool) {
        self.large_stack = Some(LargeStack::begin(bytes, is_only));
    }

    /// Charges the stack of a process that may wait.
    ///
    /// # Errors
    /// The limit of memory.
    fn charge_stack(&mut self) -> Result<(), Stop> {
        let Some(stack) = &self.large_stack else { return Ok(()) };
        let more =
            stack.used_bytes().saturating_sub(FREE_STACK_BYTES).saturating_sub(self.stack_bytes);
        if !self.take_memory(more) {
            return Err(Stop::Limit(Limit::Memory));
        }
        self.stack_bytes += more;
        Ok(())
    }

    /// Moves the deadline if time has passed that does not count.
    #[inline]
    fn follow_uncounted_time(&mut self) {
        if self.uncounted != uncounted_time() {
            self.follow_deadline();
        }
    }

    /// Time that does not count moves the deadline.
    #[cold]
    fn follow_deadline(&mut self) {
        self.uncounted = uncounted_time();
        if let (Some(interruption), Some(deadline)) =
            (&mut self.interruption, self.guest.machine().deadline())
        {
            interruption.follow(deadline);
        }
    }

    /// Writes `bytes` to what has no places.
    ///
    /// # Errors
    /// As [`Guest::fd_write`].
    fn write_next(&mut self, fd: u32, bytes: &[u8]) -> Result<(), Fault> {
        let mut bytes = bytes.to_vec();
        let range = Range { start: 0, len: bytes.len() };
        let buffers = Buffers::new(&mut bytes, std::iter::once(range).collect());
        self.guest.fd_write(fd, &buffers).map(|_| ())
    }

    /// Ends the program if its memory cannot grow because this machine has none left: a program that saw that could do
    /// something else than on another machine.
    ///
    /// # Errors
    /// [`Stop`], if the reason is that.
    fn grow_failed(&mut self, error: &wasmtime::Error) -> wasmtime::Result<()> {
        if !error.chain().any(is_exhausted) {
            return Ok(());
        }
        self.guest.end_for_lack_of_memory();
        Err(wasmtime::Error::new(Stop::Limit(Limit::Host)))
    }

    /// Charges `bytes`; returns whether the limit of memory allows them.
    fn take_memory(&mut self, bytes: u64) -> bool {
        let free = bytes.min(self.free_bytes);
        self.free_bytes -= free;
        let has_grown = self.charge.grow(bytes - free).is_ok();
        if !has_grown {
            self.guest.machine_mut().note_limit(Limit::Memory);
        }
        has_grown
    }
}

impl ResourceLimiter for Process {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if self.guest.repeat_lack().is_some() {
            return Err(wasmtime::Error::new(Stop::Limit(Limit::Host)));
        }
        Ok(self.take_memory((desired - current) as u64))
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.grow_failed(&error)
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.grow_failed(&error)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.take_memory((desired - current) as u64 * TABLE_ELEMENT_BYTES))
    }
}

/// Defines the function `name` of the import module `module` in `linker`; returns whether guests have it. A program gets
/// the functions that it imports: all of them would take a third of the start of a small program.
///
/// # Errors
/// The name is already defined.
pub fn define(linker: &mut Linker<Process>, module: &str, name: &str) -> wasmtime::Result<bool> {
    if belljar::define_constant(linker, module, name)? {
        return Ok(true);
    }
    bind(&mut Binding::in_linker(linker, module, name))
}

fn bind(binding: &mut Binding<'_>) -> wasmtime::Result<bool> {
    match binding.module() {
        belljar::MODULE => belljar::bind(binding),
        _ => preview1::bind(binding),
    }
}

/// As [`define`], for a player: a module that makes the calls of traces.
///
/// # Errors
/// The name is already defined.
pub fn define_for_player(
    linker: &mut Linker<Process>,
    module: &str,
    name: &str,
) -> wasmtime::Result<bool> {
    if (module, name) == (follower::MODULE, follower::NEXT) {
        linker.func_wrap(module, name, follower::next)?;
        return Ok(true);
    }
    define(linker, module, name)
}

/// All functions whose calls can be made again, with their types, in an order that stays.
pub fn functions() -> Vec<(Function, Signature)> {
    let named = |module, names: &[&'static str]| {
        names.iter().map(|name| (module, *name)).collect::<Vec<_>>()
    };
    let all = [
        named(preview1::MODULE, preview1::snapshot::NAMES),
        named(preview1::MODULE_UNSTABLE, preview1::snapshot::NAMES),
        named(belljar::MODULE, belljar::NAMES),
    ];
    let described = |(module, name): (&str, &str)| {
        let mut binding = Binding::described(module, name);
        bind(&mut binding).expect("a description cannot fail");
        let signature = binding.signature().expect("it is a function of the list");
        (Function { module: module.into(), name: name.into() }, signature)
    };
    all.into_iter().flatten().map(described).collect()
}

/// A number that the trace shows for a successful call, with its name.
type Answer = Option<(&'static str, u64)>;

/// A call that may wait.
type Answering<'c> = Box<dyn Future<Output = wasmtime::Result<i32>> + Send + 'c>;

/// Makes one call: runs `body` with the guest's memory and kernel side, and encodes what it returns.
///
/// # Errors
/// [`Stop`], if it ends the guest.
#[inline]
fn call(
    mut caller: Caller<'_, Process>,
    name: &'static str,
    body: impl FnOnce(&mut GuestMemory<'_>, &mut Guest) -> Result<Answer, Fault>,
) -> wasmtime::Result<i32> {
    look_up_memory(&mut caller);
    if caller.data().calls.is_some() {
        let mut body = Some(body);
        return call_noted(caller, name, &mut |memory, guest| {
            let body = body.take().expect("a call is made once");
            body(memory, guest)
        });
    }
    let (mut memory, guest) = sides(&mut caller);
    guest.begin_call(name);
    let answer = body(&mut memory, guest);
    debug_assert!(answer != Err(Fault::Wait), "{name} cannot wait");
    let answer = finish(guest, answer);
    caller.data_mut().follow_uncounted_time();
    answer
}

/// As [`call`], if the calls are taken down, or made again. A function of its own, so that other calls do not pay for it.
#[cold]
fn call_noted(
    mut caller: Caller<'_, Process>,
    name: &'static str,
    body: &mut dyn FnMut(&mut GuestMemory<'_>, &mut Guest) -> Result<Answer, Fault>,
) -> wasmtime::Result<i32> {
    if let Some(code) = given(&mut caller)? {
        return Ok(code);
    }
    let (mut memory, guest) = noted_sides(&mut caller);
    guest.begin_call(name);
    let answer = body(&mut memory, guest);
    debug_assert!(answer != Err(Fault::Wait), "{name} cannot wait");
    let answer = finish(guest, answer);
    take_down(&mut caller, answer.as_ref().ok().map(|code| code.cast_unsigned()));
    caller.data_mut().follow_uncounted_time();
    answer
}

/// A call that has no pointers and cannot fail: returns what `body` does.
///
/// # Errors
/// [`NotOfTrace`].
fn number(
    mut caller: Caller<'_, Process>,
    body: impl FnOnce(&mut Guest) -> u32,
) -> wasmtime::Result<u32> {
    if caller.data().calls.is_some()
        && let Some(code) = given(&mut caller)?
    {
        return Ok(code.cast_unsigned());
    }
    let number = body(&mut caller.data_mut().guest);
    if caller.data().calls.is_some() {
        take_down(&mut caller, Some(number));
    }
    Ok(number)
}

/// As [`call`], for a call that may wait: `body` runs again after each wait. The stack counts before the first one, when
/// the process can still end.
///
/// # Errors
/// [`Stop`], if it ends the guest.
async fn call_waiting(
    mut caller: Caller<'_, Process>,
    name: &'static str,
    mut body: impl FnMut(&mut GuestMemory<'_>, &mut Guest) -> Result<Answer, Fault>,
) -> wasmtime::Result<i32> {
    look_up_memory(&mut caller);
    if caller.data().calls.is_some()
        && let Some(code) = given(&mut caller)?
    {
        return Ok(code);
    }
    caller.data_mut().charge_stack().map_err(wasmtime::Error::new)?;
    caller.data_mut().guest.begin_call(name);
    let mut attempt = |caller: &mut Caller<'_, Process>| {
        let (mut memory, guest) = noted_sides(caller);
        body(&mut memory, guest)
    };
    let mut answer = attempt(&mut caller);
    while answer == Err(Fault::Wait) {
        pause(&mut caller).await?;
        if let Some(calls) = &mut caller.data_mut().calls {
            calls.begin_attempt();
        }
        answer = attempt(&mut caller);
    }
    let answer = finish(&mut caller.data_mut().guest, answer);
    if caller.data().calls.is_some() {
        take_down(&mut caller, answer.as_ref().ok().map(|code| code.cast_unsigned()));
    }
    caller.data_mut().follow_uncounted_time();
    answer
}

/// The answer of a call that was made already, before the code of the program ran: writes it to the memory.
///
/// # Errors
/// [`NotOfTrace`].
#[cold]
fn given(caller: &mut Caller<'_, Process>) -> wasmtime::Result<Option<i32>> {
    let Some(calls) = &mut caller.data_mut().calls else { return Ok(None) };
    let Some(known) = calls.given().map_err(wasmtime::Error::new)? else {
        calls.begin_attempt();
        return Ok(None);
    };
    if let Some(memory) = caller.data().memory {
        let data = memory.data_mut(caller);
        for Span { at, bytes } in &known.outputs {
            let place = data.get_mut(*at as usize..).and_then(|data| data.get_mut(..bytes.0.len()));
            let place = place.ok_or_else(|| wasmtime::Error::new(NotOfTrace))?;
            place.copy_from_slice(&bytes.0);
        }
    }
    Ok(Some(known.code.cast_signed()))
}

/// Takes down the call that returned `code`, or ended the process.
#[cold]
fn take_down(caller: &mut Caller<'_, Process>, code: Option<u32>) {
    let Some(mut calls) = caller.data_mut().calls.take() else { return };
    let memory = caller.data().memory;
    let data = memory.map_or(&[][..], |memory| memory.data(&*caller));
    calls.end(data, code);
    caller.data_mut().calls = Some(calls);
}

/// Gives up the turn, with what others can use meanwhile: pages of the stack, and fuel, which is the machine's.
async fn pause(store: &mut (impl AsContextMut<Data = Process> + Send)) -> wasmtime::Result<()> {
    let mut store = store.as_context_mut();
    if let Some(stack) = &store.data().large_stack {
        stack.release_unused();
    }
    leave_fuel(&mut store)?;
    let resumed = store.data_mut().guest.pause().await;
    take_fuel(&mut store)?;
    resumed.map_err(wasmtime::Error::new)
}

/// The fuel is for the next process.
fn leave_fuel(store: &mut StoreContextMut<'_, Process>) -> wasmtime::Result<()> {
    if store.data().guest.machine().run.fuel_left.is_some() {
        let left = store.get_fuel()?;
        store.data_mut().guest.machine_mut().run.fuel_left = Some(left);
    }
    Ok(())
}

fn take_fuel(store: &mut StoreContextMut<'_, Process>) -> wasmtime::Result<()> {
    match store.data().guest.machine().run.fuel_left {
        Some(left) => store.set_fuel(left),
        None => Ok(()),
    }
}

/// Writes `bytes` to the standard output of a process that is not in a call.
///
/// # Errors
/// [`Stop`], if it ends the process. An errno is returned.
pub async fn write_out(
    store: &mut wasmtime::Store<Process>,
    bytes: &[u8],
) -> wasmtime::Result<Result<(), Errno>> {
    store.data_mut().guest.begin_call("fd_write");
    loop {
        match store.data_mut().write_next(1, bytes) {
            Ok(()) => return Ok(Ok(())),
            Err(Fault::Errno(errno)) => return Ok(Err(errno)),
            Err(Fault::Stop(stop)) => return Err(wasmtime::Error::new(stop)),
            Err(Fault::Wait) => pause(store).await?,
        }
    }
}

#[inline]
fn look_up_memory(caller: &mut Caller<'_, Process>) {
    if caller.data().memory.is_none() {
        find_memory(caller);
    }
}

#[cold]
fn find_memory(caller: &mut Caller<'_, Process>) {
    caller.data_mut().memory = caller.get_export("memory").and_then(wasmtime::Extern::into_memory);
}

/// The guest's memory, and the kernel's side of it.
fn sides<'c>(caller: &'c mut Caller<'_, Process>) -> (GuestMemory<'c>, &'c mut Guest) {
    let (bytes, process) = memory_and_process(caller);
    (GuestMemory::new(bytes, None), &mut process.guest)
}

/// As [`sides`]; what the call touches of the memory is noted if the calls are taken down.
fn noted_sides<'c>(caller: &'c mut Caller<'_, Process>) -> (GuestMemory<'c>, &'c mut Guest) {
    let (bytes, process) = memory_and_process(caller);
    let touched = process.calls.as_ref().map(|calls| &calls.touched);
    (GuestMemory::new(bytes, touched), &mut process.guest)
}

fn memory_and_process<'c>(caller: &'c mut Caller<'_, Process>) -> (&'c mut [u8], &'c mut Process) {
    match caller.data().memory {
        Some(memory) => memory.data_and_store_mut(caller),
        // Without a memory every pointer is bad.
        None => (&mut [], caller.data_mut()),
    }
}

#[inline]
fn finish(guest: &mut Guest, answer: Result<Answer, Fault>) -> wasmtime::Result<i32> {
    let machine = guest.machine_mut();
    machine.timeouts.step();
    if machine.is_watched() {
        check_watched(guest, answer)?;
    }
    match answer {
        Ok(_) => Ok(0),
        Err(Fault::Errno(errno)) => Ok(i32::from(errno.code())),
        Err(Fault::Stop(stop)) => Err(wasmtime::Error::new(stop)),
        Err(Fault::Wait) => Ok(i32::from(Errno::Again.code())),
    }
}

/// A call of a machine that is traced, has a tape or timed out ends with `answer`.
///
/// # Errors
/// [`Stop`], if that ends the guest.
#[inline(never)]
fn check_watched(guest: &mut Guest, answer: Result<Answer, Fault>) -> wasmtime::Result<()> {
    if guest.is_traced() {
        guest.trace_answer(answer);
    }
    if let Err(Fault::Stop(stop)) = guest.check_tape() {
        return Err(wasmtime::Error::new(stop));
    }
    if guest.machine().is_at_taped_timeout() {
        // The recorded run ended between this call and the next.
        guest.machine_mut().note_limit(Limit::Timeout);
    }
    // A call during which the run timed out ends the process.
    if guest.machine().has_timed_out() {
        return Err(wasmtime::Error::new(Stop::Limit(Limit::Timeout)));
    }
    Ok(())
}

/// Writes the arguments of the current call to the trace, if there is one.
macro_rules! trace {
    ($guest:expr, $($format:tt)*) => {
        if $guest.is_traced() {
            $guest.trace_call(format_args!($($format)*));
        }
    };
}
use trace;

/// Checks that all bits of a guest's flags have a meaning.
fn known_bits(bits: u32, mask: u32) -> Result<u32, Errno> {
    if bits & !mask == 0 { Ok(bits) } else { Err(Errno::Inval) }
}
