//! Trees that are not as they were recorded, and tapes from elsewhere: what a replay must not do.

use std::fs;
use std::path::Path;

use belljar::Digest;
use belljar::native::{FilesError, SubprocessFiles};

use super::{Scene, files_error, is_there, mismatch, run, sh, tree};

/// The file is the user's: a replay must not replace it.
#[test]
fn existing_file_is_a_mismatch_and_stays() {
    let scene = Scene::new(&[]);
    let mut session = scene.record();
    sh(&mut session, "echo made > out");
    session.finalize().unwrap();
    scene.reset(&[("out", "mine")]);
    let mut session = scene.replay_on_disk();
    let error = session.command("sh").args(["-c", "echo made > out"]).output().unwrap_err();
    let mismatch = mismatch(error);
    assert_eq!(mismatch.differences[0].field, "file out");
    assert_eq!(mismatch.differences[0].tape, "nothing");
    assert_eq!(fs::read(scene.root().join("out")).unwrap(), b"mine");
}

#[test]
fn link_on_the_way_is_not_followed() {
    let scene = Scene::new(&[("out/a", "")]);
    let mut session = scene.record();
    sh(&mut session, "echo made > out/new");
    session.finalize().unwrap();
    let outside = scene.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for target in [outside.as_path(), Path::new("inside")] {
        scene.reset(&[("inside/a", "")]);
        std::os::unix::fs::symlink(target, scene.root().join("out")).unwrap();
        for mut session in [scene.replay(), scene.replay_on_disk()] {
            let error = session.command("sh").args(["-c", "echo made > out/new"]).output();
            let error = files_error(error.unwrap_err());
            assert!(matches!(&error, FilesError::NotADir { at, .. } if at == "out"), "{error}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(!is_there(&scene.root().join("inside/new")));
    }
}

/// A tape from elsewhere, with these changes.
fn hostile(scene: &Scene, changes: &str) -> Result<(), String> {
    let entry = format!(r#"{{"program":"p","exit_code":0,"changes":{changes}}}"#);
    fs::write(scene.tape(), format!("{{\"version\":\"1.2\"}}\n{entry}\n")).unwrap();
    let builder = scene.builder().subprocess_files(SubprocessFiles::on_disk());
    let session = builder.replay_subprocesses(scene.tape()).build().activate();
    let mut session = session.map_err(|error| format!("{error:?}"))?;
    session.command("p").output().map(drop).map_err(|error| format!("{error:?}"))
}

#[test]
fn hostile_tapes_change_nothing() {
    let scene = Scene::new(&[("mine", "mine")]);
    let digest = Digest::of(b"evil");
    let file = format!(r#""after":{{"file_type":"file","content_hash":"{digest}","len_bytes":4}}"#);
    let before = tree(scene.folder.path());
    for (path, reason) in [
        ("../evil", "not a path beneath the root"),
        ("/evil", "not a path beneath the root"),
        ("a/../../evil", "not a path beneath the root"),
        ("a//b", "not a path beneath the root"),
        ("./a", "not a path beneath the root"),
        ("", "not a path beneath the root"),
        ("a\\u0000b", "not a path beneath the root"),
        ("mine", "file mine: tape nothing, now a file of 4 bytes"),
        ("mine/evil", "mine is not a directory"),
        ("evil", "tools.jsonl.cas is missing"),
    ] {
        let error = hostile(&scene, &format!(r#"[{{"path":"{path}",{file}}}]"#)).unwrap_err();
        assert!(error.contains(reason), "{path}: {error}");
    }
    let twice = hostile(&scene, r#"[{"path":"a"},{"path":"a"}]"#).unwrap_err();
    assert!(twice.contains("sorted, or is there twice"), "{twice}");
    // Another content than the tape names.
    let cas = scene.folder.path().join("tools.jsonl.cas");
    fs::create_dir(&cas).unwrap();
    fs::write(cas.join(digest.to_string()), "EVIL").unwrap();
    let damaged = hostile(&scene, &format!(r#"[{{"path":"evil",{file}}}]"#)).unwrap_err();
    assert!(damaged.contains("is damaged"), "{damaged}");
    fs::write(cas.join(digest.to_string()), "evil").unwrap();
    let longer = file.replace(r#""len_bytes":4"#, r#""len_bytes":5"#);
    assert!(hostile(&scene, &format!(r#"[{{"path":"evil",{longer}}}]"#)).is_err());
    // A content for a link that the same tape makes, and for what other tools obey.
    let link = r#"{"path":"l","after":{"file_type":"link","target":"/tmp"}}"#;
    let error = hostile(&scene, &format!(r#"[{link},{{"path":"l/evil",{file}}}]"#)).unwrap_err();
    assert!(error.contains("l is not a directory"), "{error}");
    hostile(&scene, &format!(r#"[{{"path":".git/hooks/pre-commit",{file}}}]"#)).unwrap();
    hostile(&scene, &format!(r#"[{{"path":"a/.envrc",{file}}}]"#)).unwrap();
    fs::remove_dir_all(&cas).unwrap();
    fs::remove_file(scene.tape()).unwrap();
    assert_eq!(tree(scene.folder.path()), before);
}

#[test]
fn tape_of_an_older_version_replays_without_files() {
    let scene = Scene::new(&[]);
    let entry = r#"{"program":"cc","args":["-c","main.c"],"exit_code":0}"#;
    fs::write(scene.tape(), format!("{{\"version\":\"1.1\"}}\n{entry}\n")).unwrap();
    let mut session = scene.replay();
    run(&mut session, &["cc", "-c", "main.c"]);
    assert!(session.finalize().unwrap().fs_diff.is_empty());
}
