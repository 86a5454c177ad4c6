//! The table of built-in operations, and the manifest of all operations.

use std::collections::BTreeMap;

use serde::Serialize;

/// A capability in the manifest.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Capability {
    /// What it is for.
    pub description: String,
    /// The names of its operations, sorted.
    pub ops: Vec<String>,
    /// By name.
    pub operations: BTreeMap<String, Operation>,
}

/// An operation in the manifest.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Operation {
    /// What it does.
    pub description: String,
    /// Whether a mock answers it, or some of its calls.
    pub mocked: bool,
    /// Whether the bridge lists it.
    pub bridged: bool,
}

/// All operations, by capability.
pub type Manifest = BTreeMap<String, Capability>;

/// The built-in capabilities and their descriptions.
const CAPABILITIES: &[(&str, &str)] = &[
    ("host", "What programs can ask for"),
    ("interaction", "Questions to the user"),
    ("memory", "Memory of the embedder"),
    #[cfg(feature = "http")]
    ("net", "Network requests that the egress policy allows"),
    ("process", "Commands and shells"),
    ("runtime", "Task and result of the program"),
    #[cfg(feature = "templates")]
    ("template", "Templates"),
    ("tool", "The tools of the embedder's bridge"),
    ("workspace", "Directories of the program"),
];

/// The built-in operations and their descriptions.
const OPERATIONS: &[(&str, &str)] = &[
    ("host.capabilities", "Lists the capabilities and operations"),
    ("interaction.ask", "Asks a question and waits for its answer"),
    (BRIDGE_ONLY, "Turns texts into vectors; needs a bridge"),
    #[cfg(feature = "http")]
    ("net.close", "Closes a streamed response"),
    #[cfg(feature = "http")]
    ("net.http", "Makes an HTTP request"),
    #[cfg(feature = "http")]
    ("net.read", "Reads the next bytes of a streamed response"),
    ("process.exec", "Runs a command to its end"),
    ("process.get_default_shell", "Returns the default shell"),
    ("process.list_shells", "Lists the available shells"),
    ("process.set_default_shell", "Sets the default shell"),
    ("process.shell_invocation", "Returns the arguments that run a command in a shell"),
    ("runtime.set_result", "Sets the result of the program"),
    ("runtime.task", "Returns the task of the program"),
    #[cfg(feature = "templates")]
    ("template.render", "Renders a template"),
    ("tool.call", "Calls a tool"),
    ("tool.list", "Lists the tools"),
    ("workspace.cwd", "Returns the current directory of the caller"),
    ("workspace.project_root", "Returns the root directory of the project"),
];

/// Available with a bridge only.
const BRIDGE_ONLY: &str = "memory.embed";

/// Builds the manifest from the built-in operations and those of the bridge and of mocks.
pub(super) fn manifest<'a>(
    has_bridge: bool,
    bridged: &[String],
    mocked: impl Iterator<Item = &'a str>,
) -> Manifest {
    let mut manifest = Manifest::new();
    for (name, description) in OPERATIONS {
        if has_bridge || *name != BRIDGE_ONLY {
            operation(&mut manifest, name).description = String::from(*description);
        }
    }
    for name in bridged {
        operation(&mut manifest, name).bridged = true;
    }
    for name in mocked {
        operation(&mut manifest, name).mocked = true;
    }
    for (name, capability) in &mut manifest {
        if let Some((_, description)) = CAPABILITIES.iter().find(|(known, _)| known == name) {
            capability.description = String::from(*description);
        }
        capability.ops = capability.operations.keys().cloned().collect();
    }
    manifest
}

fn operation<'m>(manifest: &'m mut Manifest, name: &str) -> &'m mut Operation {
    let (capability, operation) = name.split_once('.').unwrap_or((name, ""));
    let capability = manifest.entry(capability.to_owned()).or_default();
    capability.operations.entry(operation.to_owned()).or_default()
}

/// Whether `manifest` has the capability, or `CAPABILITY.OPERATION`, `name`.
pub(super) fn has(manifest: &Manifest, name: &str) -> bool {
    match name.split_once('.') {
        None => manifest.contains_key(name),
        Some((capability, operation)) => manifest
            .get(capability)
            .is_some_and(|capability| capability.operations.contains_key(operation)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_described_capability() {
        let manifest =
            manifest(true, &["db.query".into()], ["db.drop", "process.exec"].into_iter());
        for (name, description) in OPERATIONS {
            let (capability, operation) = name.split_once('.').unwrap();
            assert_eq!(manifest[capability].operations[operation].description, *description);
            assert!(!manifest[capability].description.is_empty(), "{capability}");
        }
        assert_eq!(manifest.len(), CAPABILITIES.len() + 1);
        assert_eq!(manifest["db"].ops, ["drop", "query"]);
        assert!(manifest["db"].operations["query"].bridged);
        assert!(manifest["process"].operations["exec"].mocked);
        assert!(has(&manifest, "db") && has(&manifest, "db.drop") && !has(&manifest, "db.x"));
    }

    #[test]
    fn embeddings_need_a_bridge() {
        assert!(!has(&manifest(false, &[], std::iter::empty()), "memory.embed"));
        assert!(has(&manifest(true, &[], std::iter::empty()), "memory.embed"));
    }
}
