//! Functions of interfaces that are asynchronous, or make streams.

use std::future::poll_fn;

use wasmtime::component::{ComponentNamedList, Lift, Lower};
use wasmtime::{AsContextMut, StoreContextMut};

use crate::abi::Process;
use crate::abi::preview2::call::{Functions, Halt, call};
use crate::abi::preview2::poll::Condition;
use crate::kernel::guest::Guest;

impl Functions<'_, '_> {
    /// It is `body`, an asynchronous function that has its answer at once.
    pub fn is_async<P, R>(
        &mut self,
        name: &'static str,
        body: fn(&mut Process, P) -> Result<R, Halt>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + Send + 'static,
        R: Send + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.answers_at_once(name, body)
    }

    /// It is `body`, an asynchronous function that has its answer at once, and cannot fail.
    pub fn answers_async<P, R>(
        &mut self,
        name: &'static str,
        body: fn(&mut Process, P) -> R,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + Send + 'static,
        R: Send + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.answers_at_once(name, move |process: &mut Process, params| Ok(body(process, params)))
    }

    fn answers_at_once<P, R>(
        &mut self,
        name: &'static str,
        body: impl Fn(&mut Process, P) -> Result<R, Halt> + Copy + Send + Sync + 'static,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + Send + 'static,
        R: Send + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.instance().func_wrap_concurrent(name, move |accessor, params: P| {
            Box::pin(async move {
                let body = |process: &mut Process| body(process, params);
                let answer = accessor
                    .with(|mut store| call(store.as_context_mut(), name, Guest::begin_call, body));
                answer.map(|answer| (answer,))
            })
        })
    }

    /// It is `body`, an asynchronous function that waits until the condition is met that `body` returns.
    pub fn waits_async<P>(
        &mut self,
        name: &'static str,
        body: fn(&mut Process, P) -> Result<Condition, Halt>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + Send + 'static,
    {
        self.instance().func_wrap_concurrent(name, move |accessor, params: P| {
            Box::pin(async move {
                let body = |process: &mut Process| {
                    let condition = body(process, params)?;
                    Ok((condition, process.waits.wait()))
                };
                let (condition, mut wait) = accessor.with(|mut store| {
                    call(store.as_context_mut(), name, Guest::begin_call, body)
                })?;
                if condition != Condition::Met {
                    poll_fn(|cx| wait.poll(condition, cx)).await;
                }
                Ok(())
            })
        })
    }

    /// It is `body`, which makes streams or futures: it has the store, and begins and ends its call itself, as [`call`] does.
    pub fn streams<P, R>(
        &mut self,
        name: &'static str,
        body: fn(StoreContextMut<'_, Process>, P) -> wasmtime::Result<R>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
        R: Send + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.instance().func_wrap(name, move |store, params: P| Ok((body(store, params)?,)))
    }
}
