//! The agent of docs/agents.md, with a model that answers from a list.

use serde_json::json;

use super::{Scene, python};
use crate::support::{cache_dir, package, real, stderr, stdout};

/// The script and the policy of the document.
fn documented() -> (String, String) {
    let text = std::fs::read_to_string(package().join("docs/agents.md")).unwrap();
    let block = |language: &str| {
        let begin = format!("```{language}\n");
        let block = text.split(&begin).nth(1).expect("the block is there");
        block.split("\n```").next().unwrap().to_owned()
    };
    (block("python"), block("json"))
}

#[test]
fn the_documented_agent_survives_the_programs_of_its_model() {
    const TEST: &str = "the agent of docs/agents.md";
    let Some(mut python) = python("scripted_model.py", TEST) else { return };
    if real("python", TEST).is_none() {
        return;
    }
    let scene = Scene::new(&json!({}));
    let (agent, policy) = documented();
    scene.write("agent.py", &agent);
    scene.write("policy.json", &policy);
    python.arg(env!("CARGO_BIN_EXE_belljar")).current_dir(scene.path("."));
    python.env("BELLJAR_HOME", scene.path("home")).env("BELLJAR_CACHE_DIR", cache_dir());
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).ends_with("answer: '8\\n' after 8 programs\n"), "{}", stdout(&output));
    let replayed = scene.belljar().args(["replay", "agent.tape"]).output().unwrap();
    assert!(replayed.status.success(), "{}{}", stdout(&replayed), stderr(&replayed));
    assert!(stderr(&replayed).contains("got the same answers"), "{}", stderr(&replayed));
}
