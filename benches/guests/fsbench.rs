//! fsbench OP N: times N operations in the current folder and removes what it made. As `guest-examples/fsbench.c`, for what
//! is built as a module, as a component and natively from one source.
//!
//!   create     create, write 1 KiB, close: N distinct names
//!   open_read  open, read 1 KiB, close: files made before
//!   stat_hit   metadata: files made before
//!   stat_miss  metadata of a name that does not exist
//!   readdir    one listing of a folder of N files, per entry
//!   clock      the monotonic clock
//!   seqwrite   N MiB into one file in 64 KiB writes
//!   read4k     N MiB out of one file in 4 KiB reads
//!
//! Prints `OP VALUE UNIT COUNT ops`, the unit being ns/op or MiB/s.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const KIB: usize = 1024;
const BLOCK: usize = 64 * KIB;
const SMALL: usize = 4 * KIB;
/// Enough names to defeat a cache of one, few enough to make quickly on a slow disk.
const EXISTING: usize = 1000;

const FOLDER: &str = "fsbench.d";
const DATA: &str = "fsbench.data";

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().collect();
    let count = args.get(2).and_then(|count| count.parse().ok()).unwrap_or(0);
    // Zeros would let a file system store nothing.
    let block: Vec<_> = (0..BLOCK).map(|i| b'!' + (i * 7 % 94) as u8).collect();
    let timed = match args.get(1).map_or("", String::as_str) {
        _ if count == 0 => None,
        "create" => Some(create(&block, count)),
        "open_read" => Some(open_read(&block, count)),
        "stat_hit" => Some(stat_hit(&block, count)),
        "stat_miss" => Some(stat_miss(count)),
        "readdir" => Some(readdir(&block, count)),
        "clock" => Some(Ok(clock(count))),
        "seqwrite" => Some(sequential_write(&block, count)),
        "read4k" => Some(read_small(&block, count)),
        _ => None,
    };
    let Some(timed) = timed else {
        eprintln!("usage: fsbench create|open_read|stat_hit|stat_miss|readdir|clock N");
        eprintln!("       fsbench seqwrite|read4k MIB");
        return ExitCode::from(2);
    };
    let took = match timed {
        Ok(took) if !took.is_zero() => took.as_secs_f64(),
        Ok(_) => {
            eprintln!("fsbench: the monotonic clock did not move, so there is nothing to report");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("fsbench: {error}");
            return ExitCode::FAILURE;
        }
    };
    let op = &args[1];
    match op.as_str() {
        "seqwrite" | "read4k" => println!("{op} {:.1} MiB/s {count} ops", count as f64 / took),
        _ => println!("{op} {:.1} ns/op {count} ops", took * 1e9 / count as f64),
    }
    ExitCode::SUCCESS
}

/// Short names: formatting them does not count, as they are made before.
fn names(folder: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{folder}/{i:08}")).collect()
}

fn make(block: &[u8], names: &[String]) -> io::Result<()> {
    names.iter().try_for_each(|name| File::create(name)?.write_all(&block[..KIB]))
}

/// The time of `timed` with `names`, of files made before in a folder, which is removed.
fn with_files(
    block: &[u8],
    names: &[String],
    timed: impl FnOnce() -> io::Result<Duration>,
) -> io::Result<Duration> {
    fs::create_dir(FOLDER)?;
    make(block, names)?;
    let took = timed()?;
    names.iter().try_for_each(fs::remove_file)?;
    fs::remove_dir(FOLDER)?;
    Ok(took)
}

fn create(block: &[u8], count: usize) -> io::Result<Duration> {
    let names = names(".", count);
    let begun = Instant::now();
    make(block, &names)?;
    let took = begun.elapsed();
    names.iter().try_for_each(fs::remove_file)?;
    Ok(took)
}

fn open_read(block: &[u8], count: usize) -> io::Result<Duration> {
    let names = names(FOLDER, count.min(EXISTING));
    with_files(block, &names, || {
        let mut bytes = [0; KIB];
        let begun = Instant::now();
        for name in names.iter().cycle().take(count) {
            File::open(name)?.read_exact(&mut bytes)?;
        }
        Ok(begun.elapsed())
    })
}

fn stat_hit(block: &[u8], count: usize) -> io::Result<Duration> {
    let names = names(FOLDER, count.min(EXISTING));
    with_files(block, &names, || {
        let begun = Instant::now();
        for name in names.iter().cycle().take(count) {
            let len = fs::metadata(name)?.len();
            assert_eq!(len, KIB as u64, "{name}");
        }
        Ok(begun.elapsed())
    })
}

fn stat_miss(count: usize) -> io::Result<Duration> {
    let names = names(".", count);
    let begun = Instant::now();
    for name in &names {
        let missing = fs::metadata(name).map_err(|error| error.kind());
        assert_eq!(missing.err(), Some(ErrorKind::NotFound), "{name}");
    }
    Ok(begun.elapsed())
}

fn readdir(block: &[u8], count: usize) -> io::Result<Duration> {
    with_files(block, &names(FOLDER, count), || {
        let begun = Instant::now();
        let listed = fs::read_dir(FOLDER)?.try_fold(0, |n, entry| entry.map(|_| n + 1))?;
        let took = begun.elapsed();
        assert_eq!(listed, count);
        Ok(took)
    })
}

fn clock(count: usize) -> Duration {
    let begun = Instant::now();
    let mut last = begun;
    for _ in 0..count {
        last = Instant::now();
    }
    last - begun
}

fn write_data(block: &[u8], mib: usize) -> io::Result<()> {
    let mut file = File::create(DATA)?;
    (0..mib * 16).try_for_each(|_| file.write_all(block))
}

fn sequential_write(block: &[u8], mib: usize) -> io::Result<Duration> {
    let begun = Instant::now();
    write_data(block, mib)?;
    let took = begun.elapsed();
    fs::remove_file(DATA)?;
    Ok(took)
}

fn read_small(block: &[u8], mib: usize) -> io::Result<Duration> {
    write_data(block, mib)?;
    let mut bytes = [0; SMALL];
    let begun = Instant::now();
    let mut file = File::open(DATA)?;
    (0..mib * 256).try_for_each(|_| file.read_exact(&mut bytes))?;
    let took = begun.elapsed();
    fs::remove_file(DATA)?;
    Ok(took)
}
