//! What can be asked for: the registry of what is built in, and the manifest of all there is.

use std::collections::BTreeMap;

use serde::Serialize;

/// A capability, as the manifest shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Capability {
    /// What it is for.
    pub description: String,
    /// The names of its operations, sorted.
    pub ops: Vec<String>,
    /// Its operations.
    pub operations: BTreeMap<String, Operation>,
}

/// An operation, as the manifest shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Operation {
    /// What it does.
    pub description: String,
    /// Whether mocks answer it, at least some of its calls.
    pub mocked: bool,
    /// Whether the embedder's bridge says that it answers it.
    pub bridged: bool,
}

/// Everything that can be asked for, by the name of the capability.
pub type Manifest = BTreeMap<String, Capability>;

/// What is built in: capabilities, and what each is for.
const CAPABILITIES: &[(&str, &str)] = &[
    ("host", "What can be asked for"),
    ("interaction", "Asking whoever uses the program"),
    ("memory", "What the embedder knows by heart"),
    #[cfg(feature = "http")]
    ("net", "Requests over the network, as far as the egress policy lets them"),
    ("process", "Commands and shells"),
    ("runtime", "What the program is run for"),
    #[cfg(feature = "templates")]
    ("template", "Templates"),
    ("tool", "The tools of the embedder's bridge"),
    ("workspace", "Where the program works"),
];

/// What is built in: operations, and what each does.
const OPERATIONS: &[(&str, &str)] = &[
    ("host.capabilities", "Lists what can be asked for"),
    ("interaction.ask", "Asks a question and waits for its answer"),
    (BRIDGE_ONLY, "Turns texts into vectors; the bridge does it"),
    #[cfg(feature = "http")]
    ("net.close", "Closes an answer that is streamed"),
    #[cfg(feature = "http")]
    ("net.http", "Makes a request over HTTP"),
    #[cfg(feature = "http")]
    ("net.read", "Reads on in an answer that is streamed"),
    ("process.exec", "Runs a command to its end"),
    ("process.get_default_shell", "Says which shell runs commands that name none"),
    ("process.list_shells", "Lists the shells that there are"),
    ("process.set_default_shell", "Sets which shell runs commands that name none"),
    ("process.shell_invocation", "Says which arguments run a command in a shell"),
    ("runtime.set_result", "Sets what the program has come to"),
    ("runtime.task", "Says what the program is to do"),
    #[cfg(feature = "templates")]
    ("template.render", "Renders a template"),
    ("tool.call", "Calls a tool"),
    ("tool.list", "Lists the tools"),
    ("workspace.cwd", "Says where the caller is"),
    ("workspace.project_root", "Says where the project is"),
];

/// The operation that there is with a bridge only.
const BRIDGE_ONLY: &str = "memory.embed";

/// Puts a manifest together: of what is built in, with `bridged` and `mocked` operations.
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

/// Whether `manifest` has `name`: a capability, or `CAPABILITY.OPERATION`.
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
    fn every_operation_is_of_a_capability_that_is_described() {
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
