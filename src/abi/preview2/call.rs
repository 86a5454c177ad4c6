//! One call of a component.

use std::any::Any;

use wasmtime::component::{ComponentNamedList, Lift, LinkerInstance, Lower};
use wasmtime::{AsContextMut, StoreContextMut};

use super::types::ErrorCode;
use crate::abi::{Answer, Process, finish, pause};
use crate::base::errno::Errno;
use crate::kernel::guest::{Fault, Guest};
use crate::kernel::machine::limits::Stop;

/// Why a call has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::abi) enum Halt {
    /// The process waits: the call is made again. Only functions that may wait return this.
    Wait,
    /// The process ends.
    Stop(Stop),
    /// The component did what the interface forbids: a trap.
    Trap(&'static str),
    /// The kernel answered an error that the interface cannot say: a trap.
    Unsaid(Errno),
}

impl Halt {
    /// What ends the component.
    pub fn into_error(self) -> wasmtime::Error {
        match self {
            Self::Stop(stop) => wasmtime::Error::new(stop),
            Self::Trap(message) => wasmtime::Error::new(Trapped::Misuse(message)),
            Self::Wait => wasmtime::Error::new(Trapped::Unsaid(Errno::Again)),
            Self::Unsaid(errno) => wasmtime::Error::new(Trapped::Unsaid(errno)),
        }
    }
}

impl From<Fault> for Halt {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Errno(errno) => Self::Unsaid(errno),
            Fault::Stop(stop) => Self::Stop(stop),
            Fault::Wait => Self::Wait,
        }
    }
}

impl From<Errno> for Halt {
    fn from(errno: Errno) -> Self {
        Self::Unsaid(errno)
    }
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// A trap of a component that the code itself does not raise.
#[derive(Clone, thiserror::Error)]
enum Trapped {
    #[error("{0}")]
    Misuse(&'static str),
    #[error("the kernel answered {}, which the interface cannot say", .0.name())]
    Unsaid(Errno),
}

crate::base::readable::readable!(Trapped);

/// Defines the function `name` in `instance`, each call of which is the trap `error`.
///
/// # Errors
/// The name is already defined.
pub fn define_trap(
    instance: &mut LinkerInstance<'_, Process>,
    name: &str,
    is_async: bool,
    error: impl std::error::Error + Clone + Send + Sync + 'static,
) -> wasmtime::Result<()> {
    if is_async {
        instance.func_new_concurrent(name, move |_, _, _, _| {
            let error = wasmtime::Error::new(error.clone());
            Box::pin(async move { Err(error) })
        })
    } else {
        instance.func_new(name, move |_, _, _, _| Err(wasmtime::Error::new(error.clone())))
    }
}

/// What is done at once with the arguments of a call that may wait.
type Prepare<P, S> = fn(&mut Process, P) -> Result<S, Halt>;

/// What of a call may wait, and is then done again.
type Finish<S, R> = fn(&mut Process, &S) -> Result<R, Halt>;

/// A function that is being defined.
pub(in crate::abi) struct Functions<'a, 'l> {
    instance: &'a mut LinkerInstance<'l, Process>,
    name: &'a str,
    /// Whether its type is that of an asynchronous function.
    is_async: bool,
}

impl<'a, 'l> Functions<'a, 'l> {
    /// The function `name` in `instance`, with the type of an asynchronous function if it `is_async`.
    pub fn new(
        instance: &'a mut LinkerInstance<'l, Process>,
        name: &'a str,
        is_async: bool,
    ) -> Self {
        Self { instance, name, is_async }
    }

    /// Where it is defined.
    pub fn instance(&mut self) -> &mut LinkerInstance<'l, Process> {
        self.instance
    }

    /// The name of the function.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// It is `body`, which returns a value.
    pub fn is<P, R>(
        &mut self,
        name: &'static str,
        body: fn(&mut Process, P) -> Result<R, Halt>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
        R: Send + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.instance.func_wrap(name, move |store, params: P| {
            call(store, name, Guest::begin_call, |process| body(process, params)).map(|it| (it,))
        })
    }

    /// It is `body`, which returns a value and cannot fail.
    pub fn answers<P, R>(
        &mut self,
        name: &'static str,
        body: fn(&mut Process, P) -> R,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
        R: Send + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.instance.func_wrap(name, move |store, params: P| {
            let body = |process: &mut Process| Ok(body(process, params));
            call(store, name, Guest::begin_call, body).map(|answer| (answer,))
        })
    }

    /// It is `body`, which returns nothing.
    pub fn does<P>(
        &mut self,
        name: &'static str,
        body: fn(&mut Process, P) -> Result<(), Halt>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
    {
        self.instance.func_wrap(name, move |store, params: P| {
            call(store, name, Guest::begin_call, |process| body(process, params))
        })
    }

    /// It is `body`, which may wait, and returns a value.
    pub fn waits<P, R>(
        &mut self,
        name: &'static str,
        body: fn(&mut Process, &P) -> Result<R, Halt>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + Send + Sync + 'static,
        R: Send + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.waits_begun_by(Guest::begin_call, name, body)
    }

    /// As [`Functions::waits`], for a call that reads a clock: see [`Functions::reads_clock`].
    pub fn waits_reading_clock<P, R>(
        &mut self,
        name: &'static str,
        body: fn(&mut Process, &P) -> Result<R, Halt>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + Send + Sync + 'static,
        R: Send + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.waits_begun_by(Guest::begin_clock_call, name, body)
    }

    fn waits_begun_by<P, R>(
        &mut self,
        begin: fn(&mut Guest, &'static str),
        name: &'static str,
        body: fn(&mut Process, &P) -> Result<R, Halt>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + Send + Sync + 'static,
        R: Send + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.instance.func_wrap_async(name, move |store, params: P| {
            let given = |_: &mut Process, params| Ok(params);
            let call = call_waiting(store, name, begin, params, given, body);
            Box::new(async move { Ok((call.await?,)) })
        })
    }

    /// It is two functions: what is done at once with the arguments, some of which it may take away, and with what that
    /// returns, what may wait.
    pub fn waits_after<P, S, R>(
        &mut self,
        name: &'static str,
        (prepare, body): (Prepare<P, S>, Finish<S, R>),
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + Send + Sync + 'static,
        S: Send + Sync + 'static,
        R: Send + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.instance.func_wrap_async(name, move |store, params: P| {
            let call = call_waiting(store, name, Guest::begin_call, params, prepare, body);
            Box::new(async move { Ok((call.await?,)) })
        })
    }

    /// It is `body`, which may wait, and returns nothing.
    pub fn does_waiting<P>(
        &mut self,
        name: &'static str,
        body: fn(&mut Process, &P) -> Result<(), Halt>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        self.instance.func_wrap_async(name, move |store, params: P| {
            let given = |_: &mut Process, params| Ok(params);
            Box::new(call_waiting(store, name, Guest::begin_call, params, given, body))
        })
    }

    /// It is `body`, which reads a clock: a loop of such calls lets time go on.
    pub fn reads_clock<R>(
        &mut self,
        name: &'static str,
        body: fn(&mut Process, ()) -> Result<R, Halt>,
    ) -> wasmtime::Result<()>
    where
        R: Send + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.instance.func_wrap(name, move |store, ()| {
            call(store, name, Guest::begin_clock_call, |process| body(process, ())).map(|it| (it,))
        })
    }

    /// No component can call it: there is no value of the resource that it needs. `why` says so.
    pub fn cannot_be_called(&mut self, why: &'static str) -> wasmtime::Result<()> {
        define_trap(self.instance, self.name, self.is_async, Trapped::Misuse(why))
    }
}

/// Defines a function that defines one of an interface, by its name; it returns whether the interface has it.
macro_rules! interface {
    ($(#[$doc:meta])* $interface:ident: $($name:literal => $how:ident($body:expr)),* $(,)?) => {
        $(#[$doc])*
        pub(in crate::abi) fn $interface(functions: &mut $crate::abi::preview2::call::Functions<'_, '_>) -> wasmtime::Result<bool> {
            match functions.name() {
                $($name => functions.$how($name, $body)?,)*
                _ => return Ok(false),
            }
            Ok(true)
        }
    };
}
pub(in crate::abi) use interface;

/// Makes one call that cannot wait.
///
/// # Errors
/// [`Stop`], or a trap.
pub(in crate::abi) fn call<R: 'static>(
    mut store: StoreContextMut<'_, Process>,
    name: &'static str,
    begin: fn(&mut Guest, &'static str),
    body: impl FnOnce(&mut Process) -> Result<R, Halt>,
) -> wasmtime::Result<R> {
    let process = store.data_mut();
    begin(&mut process.guest, name);
    let answer = body(process);
    debug_assert!(!matches!(answer, Err(Halt::Wait)), "{name} cannot wait");
    end(process, answer)
}

/// Makes one call that may wait: `body` runs again after each wait, with what `prepare` makes of `params`.
///
/// # Errors
/// [`Stop`], or a trap.
pub(super) async fn call_waiting<P, S, R: 'static>(
    mut store: StoreContextMut<'_, Process>,
    name: &'static str,
    begin: fn(&mut Guest, &'static str),
    params: P,
    prepare: impl FnOnce(&mut Process, P) -> Result<S, Halt>,
    body: fn(&mut Process, &S) -> Result<R, Halt>,
) -> wasmtime::Result<R> {
    store.data_mut().charge_stack().map_err(wasmtime::Error::new)?;
    begin(&mut store.data_mut().guest, name);
    let params = match prepare(store.data_mut(), params) {
        Ok(params) => params,
        Err(halt) => return end(store.data_mut(), Err(halt)),
    };
    let mut answer = body(store.data_mut(), &params);
    while matches!(answer, Err(Halt::Wait)) {
        pause(&mut store.as_context_mut()).await?;
        answer = body(store.data_mut(), &params);
    }
    end(store.data_mut(), answer)
}

fn end<R: 'static>(process: &mut Process, answer: Result<R, Halt>) -> wasmtime::Result<R> {
    let failed = process.resources.failed.take();
    let shown: Result<Answer, Fault> = match &answer {
        Ok(answer) => match failed {
            Some(errno) => Err(Fault::Errno(errno)),
            None => Ok(number(answer)),
        },
        Err(Halt::Stop(stop)) => Err(Fault::Stop(*stop)),
        Err(Halt::Trap(_) | Halt::Wait) => Ok(None),
        Err(Halt::Unsaid(errno)) => Err(Fault::Errno(*errno)),
    };
    finish(&mut process.guest, shown)?;
    process.follow_uncounted_time();
    answer.map_err(Halt::into_error)
}

/// What the trace shows of `answer`.
fn number(answer: &dyn Any) -> Answer {
    if let Some(value) = answer.downcast_ref::<u64>() {
        return Some(("value", *value));
    }
    if let Some(Ok(size)) = answer.downcast_ref::<Result<u64, ErrorCode>>() {
        return Some(("size", *size));
    }
    None
}
