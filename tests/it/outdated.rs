//! `belljar toolchain outdated`, with a real registry.
#![cfg(unix)]

use serde_json::{Value, json};

use crate::registries::{Registry, Scene};
use crate::support::{stderr, stdout};

#[test]
fn outdated_names_other_versions_that_the_sources_of_a_project_have() {
    let scene = Scene::new();
    let Some(registry) = Registry::start(&scene, "outdated", None) else { return };
    let set_version = |version: &str| {
        let path = scene.path("tools/toolchain.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        manifest["version"] = version.into();
        std::fs::write(path, manifest.to_string()).unwrap();
    };
    let outdated = |options: &[&str]| {
        scene.succeed("two", &[&["toolchain", "outdated", "--plain-http"], options].concat())
    };
    let project = |text: &str| std::fs::write(scene.path("work/belljar.toml"), text).unwrap();
    let tagged = registry.reference("team/tools:1.2");
    scene.push(&tagged);
    project(&format!("[toolchains]\ntools = {{ source = \"{tagged}\" }}\n"));
    let nothing = scene.call("two", &["toolchain", "outdated", "--plain-http"]);
    assert!(stderr(&nothing).contains("tools is not locked yet"), "{}", stderr(&nothing));
    scene.succeed("two", &["trust"]);
    scene.succeed("two", &["install", "--quiet", "--no-compile", "--plain-http"]);
    assert_eq!(outdated(&[]), "");
    for version in ["1.9", "1.10"] {
        set_version(version);
        scene.push(&registry.reference(&format!("team/tools:{version}")));
    }
    scene.push(&registry.reference("team/tools:latest"));
    let next = "name this tag in belljar.toml, then `belljar install --update`";
    assert_eq!(outdated(&[]), format!("tools 1.2: {tagged} has 1.10; {next}\n"));
    let found: Value = serde_json::from_str(&outdated(&["--json"])).unwrap();
    let expected = json!({
        "name": "tools", "version": "1.2", "source": tagged, "available": "1.10", "next": next,
    });
    assert_eq!(found, json!([expected]));

    // A tag that moved, and a bundle.
    set_version("1.11");
    scene.push(&tagged);
    let takes = "`belljar install --update` takes it";
    assert_eq!(outdated(&[]), format!("tools 1.2: {tagged} has 1.11; {takes}\n"));
    let pack = ["toolchain", "pack", "-q", "../tools", "-o", "tools.belljar"];
    scene.succeed("two", &pack);
    project("[toolchains]\ntools = { version = \"1.11\", source = \"tools.belljar\" }\n");
    let write = "write this version in belljar.toml, then `belljar install --update`";
    assert_eq!(outdated(&[]), format!("tools 1.2: tools.belljar has 1.11; {write}\n"));
    scene.succeed("two", &["install", "--quiet", "--no-compile", "--update"]);
    assert_eq!(outdated(&[]), "");

    // A source that does not answer hides nothing of the others.
    set_version("1.12");
    scene.succeed("two", &pack);
    let gone = registry.reference("team/x:1");
    project(&format!(
        "[toolchains]\na = {{ source = \"{gone}\" }}\ntools = {{ source = \"tools.belljar\" }}\n"
    ));
    let lock = std::fs::read_to_string(scene.path("work/belljar.lock")).unwrap();
    let entry = lock.split("[[toolchain]]").nth(1).unwrap().replace("\"tools\"", "\"a\"");
    std::fs::write(scene.path("work/belljar.lock"), lock + "\n[[toolchain]]" + &entry).unwrap();
    scene.succeed("two", &["trust"]);
    drop(registry);
    let output = scene.call("two", &["toolchain", "outdated", "--plain-http"]);
    assert!(!output.status.success());
    assert_eq!(stdout(&output), format!("tools 1.11: tools.belljar has 1.12; {takes}\n"));
    assert!(stderr(&output).contains("cannot tell what there is of a"), "{}", stderr(&output));
}
