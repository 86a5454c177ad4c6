//! Calls of one exported function, in place of the start function: `--invoke`.
//!
//! Arguments and results are values of WAVE, the text format of the component model.

use serde_json::{Value, json};
use wasm_wave::untyped::UntypedFuncCall;
use wasm_wave::wasm::{DisplayType, WasmType, WasmTypeKind, WasmValue};
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{self, Component, ComponentExportIndex};
use wasmtime::{Extern, Instance, Store, Val};

use super::prepare;
use crate::abi::preview3::event_loop;
use crate::abi::{Process, write_out};
use crate::kernel::process::outcome::Outcome;

/// Most functions that an error lists.
const LISTED_MAX: usize = 30;

/// Most bytes of an error: names and types are as long as a module likes.
const PROBLEM_BYTES_MAX: usize = 4000;

/// Why a call has no outcome.
pub(super) enum Refusal {
    /// It cannot be made, or its results cannot be written.
    Problem(String),
    /// It ended by itself.
    Ended(wasmtime::Error),
}

impl From<String> for Refusal {
    fn from(mut problem: String) -> Self {
        if problem.len() > PROBLEM_BYTES_MAX {
            problem.truncate(problem.floor_char_boundary(PROBLEM_BYTES_MAX));
            problem.push('…');
        }
        Self::Problem(problem)
    }
}

impl From<wasmtime::Error> for Refusal {
    fn from(error: wasmtime::Error) -> Self {
        Self::Ended(error)
    }
}

/// A call as it is written: `NAME(ARGUMENTS)`, or `NAME` alone.
struct Call<'t> {
    name: &'t str,
    /// With the parentheses.
    args: &'t str,
}

impl<'t> Call<'t> {
    fn parse(text: &'t str) -> Self {
        let (name, args) = text.split_at(text.find('(').unwrap_or(text.len()));
        Self { name: name.trim(), args: if args.is_empty() { "()" } else { args } }
    }

    /// The arguments, as values of `types`.
    fn values<V: WasmValue + 'static>(&self, types: &[V::Type]) -> Result<Vec<V>, String> {
        // A name of its own: those of modules can be anything.
        let text = format!("f{}", self.args);
        let read = UntypedFuncCall::parse(&text).and_then(|call| call.to_wasm_params(types));
        read.map_err(|error| {
            let takes: Vec<_> = types.iter().map(|ty| DisplayType(ty).to_string()).collect();
            format!("{error}; it takes ({})", takes.join(", "))
        })
    }
}

/// Calls the export of `instance` that `text` names.
pub(super) async fn invoke_module(
    store: &mut Store<Process>,
    instance: Instance,
    text: &str,
) -> Result<Outcome, Refusal> {
    let call = Call::parse(text);
    let Some(function) = instance.get_func(&mut *store, call.name) else {
        let exports: Vec<_> = instance.exports(&mut *store).collect();
        let names = exports.into_iter().filter_map(|export| {
            let name = export.name().to_owned();
            matches!(export.into_extern(), Extern::Func(_)).then_some(name)
        });
        return Err(not_exported(call.name, names.filter(|name| name != prepare::START)).into());
    };
    let ty = function.ty(&*store);
    let params = call.values::<Val>(&ty.params().collect::<Vec<_>>())?;
    expect_written(ty.results())?;
    let mut results = vec![Val::I32(0); ty.results().len()];
    if let Some(initialize) = instance.get_func(&mut *store, "_initialize")
        && call.name != "_initialize"
    {
        initialize.call_async(&mut *store, &[], &mut []).await?;
    }
    function.call_async(&mut *store, &params, &mut results).await?;
    show(store, &results).await
}

/// Calls the export of an instance of `component` that `text` names.
pub(super) async fn invoke_component(
    store: &mut Store<Process>,
    component: &Component,
    instance: component::Instance,
    text: &str,
) -> Result<Outcome, Refusal> {
    let call = Call::parse(text);
    let index = find(component, call.name)?;
    let function = instance.get_func(&mut *store, index);
    let function = function.ok_or_else(|| format!("{} is not a function", call.name))?;
    let ty = function.ty(&*store);
    let types: Vec<_> = ty.params().map(|(_, ty)| ty).collect();
    let params = call.values::<component::Val>(&types)?;
    expect_written(ty.results())?;
    let mut results = vec![component::Val::Bool(false); ty.results().len()];
    let main: event_loop::Main<_> = Box::new(move |tasks| {
        Box::pin(async move {
            function.call_concurrent(tasks, &params, &mut results).await?;
            Ok(results)
        })
    });
    let results = event_loop::run(store, main).await?;
    show(store, &results).await
}

/// The function `name` of `component`: of its own, or of an interface that it exports; `INTERFACE#NAME` is of that one.
fn find(component: &Component, name: &str) -> Result<ComponentExportIndex, String> {
    let engine = component.engine();
    let (of, function) = name.rsplit_once('#').map_or((None, name), |(of, name)| (Some(of), name));
    let (mut found, mut all) = (Vec::new(), Vec::new());
    for (export, item) in component.component_type().exports(engine) {
        match item.ty {
            ComponentItem::ComponentFunc(_) => {
                all.push(export.to_owned());
                if of.is_none() && export == function {
                    // What the component has itself precedes what its interfaces have.
                    let index = component.get_export_index(None, export);
                    return index.ok_or_else(|| not_exported(name, all));
                }
            }
            ComponentItem::ComponentInstance(interface) => {
                let versionless = export.split('@').next();
                let is_meant = of.is_none_or(|of| of == export || Some(of) == versionless);
                for (inner, item) in interface.exports(engine) {
                    if !matches!(item.ty, ComponentItem::ComponentFunc(_)) {
                        continue;
                    }
                    let spelled = format!("{export}#{inner}");
                    if is_meant && inner == function {
                        found.push((export.to_owned(), spelled.clone()));
                    }
                    all.push(spelled);
                }
            }
            _ => {}
        }
    }
    match &found[..] {
        [] => Err(not_exported(name, all)),
        [(interface, _)] => {
            let interface = component.get_export_index(None, interface);
            let index = interface.and_then(|it| component.get_export_index(Some(&it), function));
            index.ok_or_else(|| not_exported(name, all))
        }
        [..] => {
            let spelled: Vec<_> = found.into_iter().map(|(_, spelled)| spelled).collect();
            Err(format!("{name} is one of {}: name the interface, too", spelled.join(", ")))
        }
    }
}

/// The problem of a call of `name`, which is not one of `exports`.
fn not_exported(name: &str, exports: impl IntoIterator<Item = String>) -> String {
    let mut exports: Vec<_> = exports.into_iter().collect();
    if exports.is_empty() {
        return format!("it exports no function {name}, and no other one");
    }
    let more = exports.len().saturating_sub(LISTED_MAX);
    exports.truncate(LISTED_MAX);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("it exports no function {name}; it has {}{rest}", exports.join(", "))
}

/// Checks that results of `types` can be written: WAVE has no references and no resources.
fn expect_written<T: WasmType>(types: impl IntoIterator<Item = T>) -> Result<(), String> {
    if all_written(types.into_iter()) {
        return Ok(());
    }
    Err("it returns a reference, a resource, a stream or a future, which cannot be written"
        .to_owned())
}

fn is_written<T: WasmType>(ty: &T) -> bool {
    match ty.kind() {
        WasmTypeKind::Unsupported => false,
        WasmTypeKind::List | WasmTypeKind::FixedLengthList => {
            all_written(ty.list_element_type().into_iter())
        }
        WasmTypeKind::Record => all_written(ty.record_fields().map(|(_, ty)| ty)),
        WasmTypeKind::Tuple => all_written(ty.tuple_element_types()),
        WasmTypeKind::Variant => all_written(ty.variant_cases().filter_map(|(_, ty)| ty)),
        WasmTypeKind::Option => all_written(ty.option_some_type().into_iter()),
        WasmTypeKind::Result => {
            let types = ty.result_types().map(|(ok, err)| ok.into_iter().chain(err));
            all_written(types.into_iter().flatten())
        }
        _ => true,
    }
}

fn all_written<T: WasmType>(mut types: impl Iterator<Item = T>) -> bool {
    types.all(|ty| is_written(&ty))
}

/// Writes `results` to standard output, a line each, and keeps them for the report.
async fn show<V: WasmValue>(store: &mut Store<Process>, results: &[V]) -> Result<Outcome, Refusal> {
    let mut lines = String::new();
    for result in results {
        let text = wasm_wave::to_string(result);
        lines += &text.map_err(|error| format!("its result cannot be written: {error}"))?;
        lines.push('\n');
    }
    store.data_mut().guest.machine_mut().run.returned = match results {
        [] => None,
        [result] => Some(json_of(result)),
        results => Some(results.iter().map(json_of).collect()),
    };
    let written = write_out(store, lines.as_bytes()).await?;
    // As a program that cannot write its output.
    Ok(Outcome::Exited(u32::from(written.is_err())))
}

/// `value` as JSON: records and maps are objects, tuples and flags lists, a variant is its name, or an object with its
/// name and its value.
fn json_of<V: WasmValue>(value: &V) -> Value {
    let of_case = |name: &str, payload: Option<&V>| match payload {
        Some(payload) => json!({ name: json_of(payload) }),
        None => name.into(),
    };
    // JSON has no numbers for these.
    let float = |number: f64| match number {
        number if number.is_nan() => "nan".into(),
        number if number.is_infinite() => if number > 0.0 { "inf" } else { "-inf" }.into(),
        number => json!(number),
    };
    match value.kind() {
        WasmTypeKind::Bool => value.unwrap_bool().into(),
        WasmTypeKind::S8 => value.unwrap_s8().into(),
        WasmTypeKind::S16 => value.unwrap_s16().into(),
        WasmTypeKind::S32 => value.unwrap_s32().into(),
        WasmTypeKind::S64 => value.unwrap_s64().into(),
        WasmTypeKind::U8 => value.unwrap_u8().into(),
        WasmTypeKind::U16 => value.unwrap_u16().into(),
        WasmTypeKind::U32 => value.unwrap_u32().into(),
        WasmTypeKind::U64 => value.unwrap_u64().into(),
        WasmTypeKind::F32 => float(value.unwrap_f32().into()),
        WasmTypeKind::F64 => float(value.unwrap_f64()),
        WasmTypeKind::Char => value.unwrap_char().to_string().into(),
        WasmTypeKind::String => value.unwrap_string().into(),
        WasmTypeKind::List | WasmTypeKind::FixedLengthList => {
            value.unwrap_list().map(|item| json_of(item.as_ref())).collect()
        }
        WasmTypeKind::Tuple => value.unwrap_tuple().map(|item| json_of(item.as_ref())).collect(),
        WasmTypeKind::Record => value
            .unwrap_record()
            .map(|(name, field)| (name.into_owned(), json_of(field.as_ref())))
            .collect(),
        WasmTypeKind::Variant => {
            let (name, payload) = value.unwrap_variant();
            of_case(&name, payload.as_deref())
        }
        WasmTypeKind::Enum => value.unwrap_enum().into(),
        WasmTypeKind::Option => {
            value.unwrap_option().map_or(Value::Null, |it| json_of(it.as_ref()))
        }
        WasmTypeKind::Result => match value.unwrap_result() {
            Ok(payload) => of_case("ok", payload.as_deref()),
            Err(payload) => of_case("err", payload.as_deref()),
        },
        WasmTypeKind::Flags => {
            value.unwrap_flags().map(|flag| Value::from(flag.as_ref())).collect()
        }
        // It has no text either.
        _ => Value::Null,
    }
}
