//! The time and memory of compilation, and how they are limited.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::cli::scratch;
use crate::support::{belljar, stderr, stdout};

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        bytes.push(if number > 0 { low | 0x80 } else { low });
        if number == 0 {
            return bytes;
        }
    }
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id], leb(content.len()).as_slice(), content].concat()
}

/// A module that does nothing, and has a function with `body`. Type 1 takes and answers `values` numbers.
fn module_with(values: usize, body: &[u8]) -> Vec<u8> {
    let code = [vec![2, 2, 0, 0x0b], leb(body.len()), body.to_vec()].concat();
    let many = [leb(values), vec![0x7f; values]].concat();
    let types = [b"\x02\x60\0\0\x60".as_slice(), &many, &many].concat();
    let exports = b"\x02\x06_start\0\0\x06memory\x02\0";
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &types),
        section(3, b"\x02\0\0"),
        section(5, b"\x01\0\x01"),
        section(7, exports),
        section(10, &code),
    ]
    .concat()
}

/// A module with a function that takes long to compile: `loops` loops, and variables that live across all of them.
fn hard_module(variables: usize, loops: usize) -> Vec<u8> {
    let mut body = [leb(1), leb(variables), vec![0x7f]].concat();
    for index in 0..loops {
        let get = |index: usize| [&[0x20][..], &leb(index % variables)].concat();
        let set = [&[0x41, 1, 0x6a, 0x21][..], &leb(index * 7 % variables)].concat();
        let around = [vec![0x03, 0x40], get(index), set, get(index * 3), vec![0x0d, 0, 0x0b]];
        body.extend(around.concat());
    }
    body.push(0x0b);
    module_with(0, &body)
}

/// A module with `blocks` blocks that take and answer `values` values, so that few bytes of code take gigabytes of
/// memory to compile.
fn wide_module(values: usize, blocks: usize) -> Vec<u8> {
    let mut body = vec![0];
    body.extend([0x41, 0].repeat(values));
    body.extend([0x03, 1, 0x0b].repeat(blocks));
    body.extend([0, 0x0b]);
    module_with(values, &body)
}

/// Runs belljar with a cache and a home of its own in `folder`.
fn call(folder: &Path, args: &[&str]) -> Output {
    let mut command = belljar(folder);
    command.env("BELLJAR_CACHE_DIR", folder.join(".cache"));
    command.env("BELLJAR_HOME", folder.join(".home")).args(args).output().unwrap()
}

fn cached(folder: &Path) -> usize {
    let keys = folder.join(".cache/code-1/keys");
    std::fs::read_dir(keys).map_or(0, Iterator::count)
}

/// Regression: each exec reached its timeout during compilation, and cached nothing.
#[test]
fn compile_time_does_not_count_and_the_code_is_cached() {
    for command in [
        &["sandbox", "exec", "box", "./hard.wasm"][..],
        &["sandbox", "exec", "box", "sh", "-c", "./hard.wasm && ./hard.wasm && echo done"],
        &["sh", "--timeout", "300ms", "-c", "./hard.wasm && ./hard.wasm && echo done"],
        &["run", "--timeout", "300ms", "./hard.wasm"],
    ] {
        let folder = scratch();
        let dir = folder.path();
        std::fs::write(dir.join("hard.wasm"), hard_module(100, 5000)).unwrap();
        let create = ["sandbox", "create", "--id", "box", "--timeout", "300ms"];
        assert!(call(dir, &create).status.success());
        let begun = Instant::now();
        let output = call(dir, command);
        assert!(output.status.success(), "{command:?}: {}", stderr(&output));
        // A compilation that takes seconds is reported.
        if begun.elapsed() > Duration::from_secs(3) {
            let said = stderr(&output);
            let is_said = |words: &str| said.contains(words);
            assert!(
                is_said("compiling hard.wasm (") || is_said("compiling hard.wasm once ("),
                "{said}"
            );
        }
        assert_eq!(stdout(&output).contains("done"), command.contains(&"-c"), "{command:?}");
        assert_eq!(cached(dir), 1, "{command:?}");
        let again = call(dir, command);
        assert!(again.status.success() && stderr(&again).is_empty(), "{}", stderr(&again));
    }
    // Time spent outside compilation still counts.
    let folder = scratch();
    let endless = call(folder.path(), &["sh", "--timeout", "300ms", "-c", "while :; do :; done"]);
    assert_eq!(endless.status.code(), Some(124));
}

#[test]
fn compilation_has_its_own_timeout() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::write(dir.join("hard.wasm"), hard_module(1000, 10_000)).unwrap();
    let args = ["run", "--compile-timeout", "200ms", "--json=r.json", "./hard.wasm"];
    let output = call(dir, &args);
    assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
    let why = "cannot be compiled: it takes longer than 200 ms (raise it with --compile-timeout)";
    assert!(stderr(&output).contains(why), "{}", stderr(&output));
    assert!(std::fs::read_to_string(dir.join("r.json")).unwrap().contains("\"not_started\""));
    let script = "./hard.wasm; echo $?";
    let output = call(dir, &["sh", "--quiet", "--compile-timeout", "200ms", "-c", script]);
    assert_eq!(stdout(&output), "126\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("it takes longer than 200 ms"), "{}", stderr(&output));
}

/// Regression: with a cache that cannot be written, a module was compiled twice, the second time without limits.
#[test]
fn limits_of_compilation_hold_without_a_cache() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::write(dir.join("hard.wasm"), hard_module(1000, 10_000)).unwrap();
    std::fs::write(dir.join("file"), "no directory").unwrap();
    let with_cache = |cache: &str, args: &[&str]| {
        belljar(dir).env("BELLJAR_CACHE_DIR", cache).args(args).output().unwrap()
    };
    for (cache, option) in [("file/cache", "--quiet"), ("cache", "--no-cache")] {
        let output =
            with_cache(cache, &["run", option, "--compile-timeout", "200ms", "./hard.wasm"]);
        assert_eq!(output.status.code(), Some(126), "{option}: {}", stderr(&output));
        let why =
            "cannot be compiled: it takes longer than 200 ms (raise it with --compile-timeout)";
        assert!(stderr(&output).contains(why), "{option}: {}", stderr(&output));
    }
    std::fs::write(dir.join("easy.wasm"), hard_module(100, 2000)).unwrap();
    let output = with_cache("file/cache", &["run", "--tier=quick", "./easy.wasm"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    assert_eq!(said.matches("cannot cache the compiled code").count(), 1, "{said}");
}

/// Regression: compiling a module of 165 KB took 1.4 GB of memory under any limits.
#[cfg(target_os = "linux")]
#[test]
fn a_module_that_takes_too_much_memory_to_compile_is_refused() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::write(dir.join("hard.wasm"), hard_module(3000, 10_000)).unwrap();
    let output = call(dir, &["run", "--max-compile-memory", "128MiB", "./hard.wasm"]);
    assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
    let why = "it takes more than 128.0 MiB of memory (raise it with --max-compile-memory)";
    assert!(stderr(&output).contains(why), "{}", stderr(&output));
    assert_eq!(cached(dir), 0);
    // A module that needs less memory is compiled.
    let output = call(dir, &["run", "--max-compile-memory", "512MiB", "ls"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Regression: compiling a module of 4 KB took 8 GB in belljar's own process, because small modules are compiled there.
#[test]
fn a_small_module_that_takes_too_much_memory_to_compile_is_refused() {
    let folder = scratch();
    let dir = folder.path();
    let wide = wide_module(500, 1000);
    assert!(wide.len() < 6 << 10, "{}", wide.len());
    std::fs::write(dir.join("wide.wasm"), wide).unwrap();
    for options in [&["--max-compile-memory", "256MiB"][..], &["--no-cache"]] {
        let output = call(dir, &[&["run"], options, &["./wide.wasm"]].concat());
        assert_eq!(output.status.code(), Some(126), "{options:?} {}", stderr(&output));
        let message = stderr(&output);
        assert!(
            message.contains("of memory") && message.contains("--max-compile-memory"),
            "{message}"
        );
    }
    let script = "./wide.wasm; echo $?";
    let output = call(dir, &["sh", "--no-cache", "--max-compile-memory", "256MiB", "-c", script]);
    assert_eq!(stdout(&output), "126\n", "{}", stderr(&output));
}

/// The memory estimate computed from a module's code is enough to compile it, even for the most demanding code.
#[cfg(target_os = "linux")]
#[test]
fn compile_memory_estimate_is_an_upper_bound() {
    // The compiling process needs memory even if it compiles nothing.
    const PROCESS_BYTES: u64 = 48 << 20;
    let repeated = |code: &[u8], count: usize| {
        module_with(0, &[&[0], code.repeat(count).as_slice(), &[0x0b]].concat())
    };
    for (name, module) in [
        ("loops", hard_module(100, 3000)),
        ("variables", hard_module(1000, 1500)),
        ("values", wide_module(100, 100)),
        ("floats", repeated(&[0x43, 0, 0, 0x80, 0x3f, 0x8d, 0x8d, 0x8d, 0x8d, 0x8d, 0x1a], 3000)),
        ("calls", repeated(&[0x10, 0], 20_000)),
        ("branches", repeated(&[0x02, 0x40, 0x41, 0, 0x0d, 0, 0x0b], 5000)),
    ] {
        let folder = scratch();
        let dir = folder.path();
        let read = belljar::Module::from_bytes(name, module.clone()).unwrap();
        let bytes_max = read.compile_bytes_max().unwrap() + PROCESS_BYTES;
        std::fs::write(dir.join("m.wasm"), &module).unwrap();
        let limit = format!("{bytes_max}B");
        let output = call(dir, &["run", "--max-compile-memory", &limit, "./m.wasm"]);
        assert!(output.status.success(), "{name} in {limit}: {}", stderr(&output));
        assert!(bytes_max < 1 << 30, "{name}: {limit}");
    }
}

/// The error is the same as for a module that belljar compiles in its own process.
#[test]
fn invalid_module_is_reported_by_the_compiling_process() {
    let folder = scratch();
    let dir = folder.path();
    let module = hard_module(100, 1000);
    let start = module.len() - 20;
    let bad = [&module[..start], &[0xff; 20]].concat();
    std::fs::write(dir.join("bad.wasm"), bad).unwrap();
    let output = call(dir, &["run", "bad.wasm"]);
    assert_eq!(output.status.code(), Some(126));
    let message = stderr(&output);
    assert!(
        message.starts_with("belljar: bad.wasm is not a valid WebAssembly module: "),
        "{message}"
    );
    let alone = call(dir, &["run", "--no-cache", "bad.wasm"]);
    assert_eq!(stderr(&alone), message);
}

#[test]
fn compile_subcommand_is_hidden() {
    let folder = scratch();
    let help = stdout(&call(folder.path(), &["--help"]));
    assert!(!help.contains("compile-module"), "{help}");
    let unknown = call(folder.path(), &["frobnicate"]);
    assert!(!stderr(&unknown).contains("compile-module"), "{}", stderr(&unknown));
}

/// What a user sees while a module is compiled for the first time. `script` gives the command a terminal.
#[cfg(target_os = "linux")]
#[test]
fn shell_and_session_show_on_a_terminal_that_they_compile() {
    use crate::support::{bash, has};
    if !has("script", "shell_and_session_show_on_a_terminal_that_they_compile") {
        return;
    }
    let folder = scratch();
    let on_terminal = r#"export TERM=xterm BELLJAR_HOME="$PWD/home"; mkdir -m 700 home
        "$0" sandbox create --id box --worktree . > /dev/null
        see() { BELLJAR_CACHE_DIR="$PWD/$1" script -qec "'$0' $2" /dev/null < /dev/null; }
        see one "sh -c 'awk 1 /dev/null'" > one.out; see two "sandbox exec box awk 1 /dev/null" > two.out"#;
    assert!(bash(folder.path(), on_terminal).status.success());
    // The second cache lies in a directory of the session, so that nothing is kept there.
    for (name, words) in [("one.out", "compiling awk once ("), ("two.out", "compiling awk (")] {
        let shown = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(shown.contains(words), "{name}: {shown:?}");
    }
}

/// Regression: the load that the pool of memories refused deleted the code from the cache, so that each `sh` and each exec of a
/// session compiled it anew.
#[test]
fn code_that_does_not_fit_the_pool_is_compiled_once_for_scripts_and_sessions() {
    let folder = scratch();
    let at = folder.path();
    let large =
        r#"(module (table 300000 funcref) (memory (export "memory") 1) (func (export "_start")))"#;
    std::fs::create_dir(at.join("tools")).unwrap();
    std::fs::write(at.join("tools/large.wasm"), wat::parse_str(large).unwrap()).unwrap();
    let call = |args: &[&str]| {
        let mut command = belljar(at);
        command.args(args).env("BELLJAR_HOME", at.join(".home"));
        let output = command.env("BELLJAR_CACHE_DIR", at.join(".cache")).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    };
    // When each entry of the cache was written.
    let entries = || -> Vec<_> {
        let entries = crate::support::tree(&at.join(".cache")).into_keys();
        let code = entries.filter(|name| name.starts_with("code-") && !name.ends_with('/'));
        let written = |name: String| {
            let metadata = std::fs::metadata(at.join(".cache").join(&name)).unwrap();
            (name, metadata.created().ok(), metadata.len())
        };
        code.map(written).collect()
    };
    call(&["sh", "--toolchain", "tools", "-c", "large"]);
    let first = entries();
    assert!(first.iter().any(|(_, _, len)| *len > 1000), "{first:?}");
    call(&["sandbox", "create", "--id", "box", "--toolchain", "tools"]);
    for args in [
        &["sh", "--toolchain", "tools", "-c", "large; large"][..],
        &["sandbox", "exec", "box", "large"],
        &["sandbox", "exec", "box", "--", "sh", "-c", "large; large"],
        &["run", "--toolchain", "tools", "large"],
    ] {
        call(args);
        assert_eq!(entries(), first, "{args:?}");
    }
}
