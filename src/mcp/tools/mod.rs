//! The tools: each has a file, or shares one with its kin.

mod changes;
mod copies;
mod create;
mod exec;
mod files;
mod programs;
mod sandboxes;

use std::sync::{Arc, LazyLock};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::bounds::TEXT_BYTES_MAX;
use super::call::Call;
use super::client::{Client, Held, Live};
use super::error::ToolError;
use super::server::Server;
use crate::toolchain::similar;

/// What a tool does to its environment, for clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the hints of the protocol")]
pub struct Hints {
    /// It changes nothing.
    pub is_read_only: bool,
    /// It may destroy something.
    pub is_destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub is_idempotent: bool,
    /// It reaches beyond sandboxes.
    pub is_open_world: bool,
}

impl Hints {
    const fn reading() -> Self {
        Self {
            is_read_only: true,
            is_destructive: false,
            is_idempotent: true,
            is_open_world: false,
        }
    }

    const fn adding() -> Self {
        Self {
            is_read_only: false,
            is_destructive: false,
            is_idempotent: false,
            is_open_world: false,
        }
    }
}

/// What a client sees of a tool.
#[derive(Clone, Debug)]
pub struct ToolInfo {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// How a model uses it.
    pub description: &'static str,
    /// What it does.
    pub hints: Hints,
    /// The JSON Schema of its arguments, an object.
    pub input: Arc<Map<String, Value>>,
    /// The JSON Schema of its answer, an object.
    pub output: Arc<Map<String, Value>>,
}

/// What a call works with.
pub(super) struct Scene<'c> {
    pub client: &'c Arc<Client>,
    /// The sandboxes of the call, sorted by id, and then the one that it makes.
    pub held: Vec<Held>,
    pub call: &'c Call,
}

impl Scene<'_> {
    fn server(&self) -> &Arc<Server> {
        &self.client.server
    }

    /// Adds `live` as the sandbox `id`, which the call then holds; returns the id.
    fn admit(&mut self, id: String, live: Live) -> Result<String, ToolError> {
        self.held.push(self.client.admit(id.clone(), live)?);
        Ok(id)
    }

    /// The sandbox `id`, which the call holds.
    fn sandbox(&mut self, id: &str) -> Result<&mut Held, ToolError> {
        let mut held = self.held.iter_mut();
        held.find(|held| held.slot.id == id)
            .ok_or_else(|| ToolError::not_found(format!("no sandbox {id:?}")))
    }
}

/// A tool: the arguments of one call, and what it does.
trait Tool: DeserializeOwned + JsonSchema + Send + 'static {
    type Answer: Serialize + JsonSchema;
    const NAME: &'static str;
    const TITLE: &'static str;
    const DESCRIPTION: &'static str;
    const HINTS: Hints;
    /// Whether it runs programs, of which only so many run at once.
    const RUNS_PROGRAMS: bool = false;

    /// The sandboxes that it works with.
    fn sandboxes(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The sandbox in which it ends what runs first.
    fn ends(&self) -> Option<&str> {
        None
    }

    fn run(self, scene: &mut Scene<'_>) -> Result<Self::Answer, ToolError>;
}

/// A call of a tool whose arguments are valid.
pub(super) trait Prepared: Send {
    fn sandboxes(&self) -> Vec<String>;
    fn ends(&self) -> Option<String>;
    fn runs_programs(&self) -> bool;
    fn run(self: Box<Self>, scene: &mut Scene<'_>) -> Result<Value, ToolError>;
}

impl<T: Tool> Prepared for T {
    fn sandboxes(&self) -> Vec<String> {
        Tool::sandboxes(self).into_iter().map(str::to_owned).collect()
    }

    fn ends(&self) -> Option<String> {
        Tool::ends(self).map(str::to_owned)
    }

    fn runs_programs(&self) -> bool {
        T::RUNS_PROGRAMS
    }

    fn run(self: Box<Self>, scene: &mut Scene<'_>) -> Result<Value, ToolError> {
        let answer = Tool::run(*self, scene)?;
        serde_json::to_value(answer).map_err(|error| ToolError::failed(error.to_string()))
    }
}

type Prepare = fn(Map<String, Value>) -> Result<Box<dyn Prepared>, ToolError>;

/// A tool in the list of all.
pub(super) struct Entry {
    info: ToolInfo,
    prepare: Prepare,
}

impl Entry {
    fn of<T: Tool>() -> Self {
        let info = ToolInfo {
            name: T::NAME,
            title: T::TITLE,
            description: T::DESCRIPTION,
            hints: T::HINTS,
            input: schema_of::<T>(true),
            output: schema_of::<T::Answer>(false),
        };
        Self { info, prepare: prepare::<T> }
    }

    pub(super) fn info(&self) -> &ToolInfo {
        &self.info
    }

    pub(super) fn prepare(
        &self,
        arguments: Map<String, Value>,
    ) -> Result<Box<dyn Prepared>, ToolError> {
        (self.prepare)(arguments)
    }
}

fn prepare<T: Tool>(arguments: Map<String, Value>) -> Result<Box<dyn Prepared>, ToolError> {
    let parsed: Result<T, _> = serde_path_to_error::deserialize(Value::Object(arguments));
    match parsed {
        Ok(tool) => Ok(Box::new(tool)),
        Err(error) => {
            let at = error.path().to_string();
            let at = if at == "." { String::new() } else { format!("{at}: ") };
            let message = error.into_inner().to_string();
            // The message may repeat what the client gave.
            let message: String = message.chars().take(TEXT_BYTES_MAX).collect();
            Err(ToolError::arguments(format!("{at}{message}; see the schema of {}", T::NAME)))
        }
    }
}

fn schema_of<T: JsonSchema>(is_input: bool) -> Arc<Map<String, Value>> {
    let mut settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    if !is_input {
        settings = settings.for_serialize();
    }
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    let Value::Object(mut schema) = schema.to_value() else { return Arc::default() };
    schema.remove("title");
    schema.values_mut().for_each(without_null);
    Arc::new(schema)
}

/// Removes `null` from the types in `schema`: what is optional may be left out, and some clients know no types but single
/// ones.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|name| name != "null");
                if let [one] = &types[..] {
                    let one = one.clone();
                    fields.insert("type".to_owned(), one);
                }
            }
            if fields.get("default") == Some(&Value::Null) {
                fields.remove("default");
            }
            fields.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

static TOOLS: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    vec![
        Entry::of::<create::Create>(),
        Entry::of::<exec::Exec>(),
        Entry::of::<exec::ReadOutput>(),
        Entry::of::<files::Read>(),
        Entry::of::<files::Write>(),
        Entry::of::<files::Ls>(),
        Entry::of::<changes::Diff>(),
        Entry::of::<changes::Apply>(),
        Entry::of::<copies::Fork>(),
        Entry::of::<copies::Compare>(),
        Entry::of::<sandboxes::Drop>(),
        Entry::of::<sandboxes::List>(),
        Entry::of::<programs::ListPrograms>(),
        Entry::of::<programs::Install>(),
    ]
});

/// Whether the policy of `server` lets clients use a tool at all.
fn is_allowed(name: &str, server: &Server) -> Result<(), ToolError> {
    let policy = server.policy();
    match name {
        changes::Apply::NAME if !policy.folders.iter().any(|folder| folder.may_apply) => {
            Err(ToolError::denied(
                "the policy of this server lets nothing be applied: show the user the patch of sandbox_diff, or let a folder \
                 have \"apply\": true in the policy file",
            ))
        }
        programs::Install::NAME if policy.install.is_empty() => Err(ToolError::denied(
            "the policy of this server lets no toolchain be installed: name it in \"install\" in the policy file, or run \
             `belljar install`",
        )),
        _ => Ok(()),
    }
}

/// The tool `name`, if clients of `server` may use it.
pub(super) fn find(name: &str, server: &Server) -> Result<&'static Entry, ToolError> {
    if let Some(entry) = TOOLS.iter().find(|entry| entry.info.name == name) {
        is_allowed(name, server)?;
        return Ok(entry);
    }
    let name: String = name.chars().take(64).collect();
    let known: Vec<String> = TOOLS.iter().map(|entry| entry.info.name.to_owned()).collect();
    let meant = crate::toolchain::meant(&similar(&name, &known));
    Err(ToolError::not_found(format!("no tool {name:?}{meant}; tools/list has their names")))
}

impl Server {
    /// The tools that the policy lets clients use.
    pub fn tools(&self) -> impl Iterator<Item = &'static ToolInfo> + '_ {
        TOOLS.iter().map(Entry::info).filter(|info| is_allowed(info.name, self).is_ok())
    }
}

/// Checks a short text of a client: a path, a name, a directory.
///
/// # Errors
/// It is too long, or has a NUL.
fn check_text(name: &str, text: &str) -> Result<(), ToolError> {
    if text.len() > TEXT_BYTES_MAX || text.contains('\0') {
        return Err(ToolError::arguments(format!(
            "{name}: longer than {TEXT_BYTES_MAX} bytes, or with a NUL"
        )));
    }
    Ok(())
}
