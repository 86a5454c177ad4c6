//! Functions of Python that programs call by name, and tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar::host::{BridgeAnswer, HostBridge, HostTool};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::json;
use crate::run_state;

/// Answers host calls with functions of Python.
pub struct PythonBridge {
    /// By operation: `memory.embed`. They take the parameters.
    functions: BTreeMap<String, Py<PyAny>>,
    /// By name. They take the arguments by their names.
    tools: BTreeMap<String, (HostTool, Py<PyAny>)>,
}

/// A tool: name, description, schema as JSON, function.
pub type Tool = (String, String, Option<String>, Py<PyAny>);

impl PythonBridge {
    /// A bridge to these; `None` if there is nothing to answer.
    ///
    /// # Errors
    /// What is wrong with a schema.
    pub fn new(
        functions: BTreeMap<String, Py<PyAny>>,
        tools: Vec<Tool>,
    ) -> Result<Option<Arc<Self>>, String> {
        if functions.is_empty() && tools.is_empty() {
            return Ok(None);
        }
        let mut by_name = BTreeMap::new();
        for (name, description, schema, function) in tools {
            let input_schema = match schema {
                None => Value::Null,
                Some(schema) => serde_json::from_str(&schema)
                    .map_err(|error| format!("the schema of the tool {name:?}: {error}"))?,
            };
            let tool = HostTool { name: name.clone(), description, input_schema };
            by_name.insert(name, (tool, function));
        }
        Ok(Some(Arc::new(Self { functions, tools: by_name })))
    }
}

/// Calls a function of Python. An `Exception` is the answer; any other exception ends the run, and is raised by the call
/// that waits for it.
fn call(
    call: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>>,
) -> Result<Value, String> {
    let answer =
        Python::try_attach(|py| match call(py).and_then(|answer| json::from_python(&answer)) {
            Ok(answer) => Ok(answer),
            Err(error) if error.is_instance_of::<PyException>(py) => Err(error.to_string()),
            Err(error) => {
                let message = error.to_string();
                if let Some(run) = run_state::current() {
                    py.detach(|| run.fail(error));
                }
                Err(message)
            }
        });
    answer.unwrap_or_else(|| Err("the interpreter of Python has ended".to_owned()))
}

impl HostBridge for PythonBridge {
    fn dispatch(&self, capability: &str, operation: &str, params: &Value) -> BridgeAnswer {
        let Some(function) = self.functions.get(&format!("{capability}.{operation}")) else {
            return BridgeAnswer::NotMine;
        };
        let answer = call(|py| function.bind(py).call1((json::to_python(py, params)?,)));
        match answer {
            Ok(value) => BridgeAnswer::Value(value),
            Err(message) => BridgeAnswer::Error(message),
        }
    }

    fn operations(&self) -> Vec<String> {
        self.functions.keys().cloned().collect()
    }

    fn list_tools(&self) -> Result<Vec<HostTool>, String> {
        Ok(self.tools.values().map(|(tool, _)| tool.clone()).collect())
    }

    fn call_tool(&self, name: &str, args: &Value) -> Result<Value, String> {
        let Some((_, function)) = self.tools.get(name) else {
            let known: Vec<&str> = self.tools.keys().map(String::as_str).collect();
            return Err(format!("unknown tool {name:?}; tools: {}", known.join(", ")));
        };
        call(|py| {
            let kwargs = PyDict::new(py);
            if !args.is_null() {
                let args = json::to_python(py, args)?;
                kwargs.update(args.cast()?)?;
            }
            function.bind(py).call((), Some(&kwargs))
        })
    }
}
