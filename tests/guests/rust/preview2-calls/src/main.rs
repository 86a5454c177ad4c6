//! Makes calls of WASI 0.2: one for each argument, which is the words of a call. It prints a line with each answer.
//!
//! What a call returns gets the next number of its kind: descriptors `d0`, `d1`, …, listings `l0`, input streams `i0`,
//! output streams `o0`, pollables `p0`. Words of paths are taken as they are, `''` is the empty path.

use std::fmt::Debug;

use wasip2::cli::{environment, exit, stderr, stdin, stdout, terminal_stdin, terminal_stdout};
use wasip2::clocks::{monotonic_clock, wall_clock};
use wasip2::filesystem::preopens;
use wasip2::filesystem::types::{
    Advice, Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntryStream,
    ErrorCode, NewTimestamp, OpenFlags, PathFlags, filesystem_error_code,
};
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};
use wasip2::random::{insecure, insecure_seed, random};
use wasip2::sockets::network::IpAddressFamily;
use wasip2::sockets::{instance_network, ip_name_lookup, tcp_create_socket, udp_create_socket};

#[derive(Default)]
struct State {
    // They come from streams, which must not be dropped before them.
    pollables: Vec<Option<Pollable>>,
    descriptors: Vec<Option<Descriptor>>,
    listings: Vec<Option<DirectoryEntryStream>>,
    inputs: Vec<Option<InputStream>>,
    outputs: Vec<Option<OutputStream>>,
}

/// The words of a call.
struct Words<'a>(std::str::Split<'a, char>);

impl<'a> Words<'a> {
    fn next(&mut self) -> &'a str {
        match self.0.next().expect("the call has too few words") {
            "''" => "",
            word => word,
        }
    }

    fn number(&mut self) -> u64 {
        self.next().parse().expect("the word is a number")
    }

    /// The number after the letter of a kind.
    fn index(&mut self) -> usize {
        self.next()[1..].parse().expect("the word is a letter and a number")
    }

    fn path_flags(&mut self) -> PathFlags {
        if self.next() == "follow" { PathFlags::SYMLINK_FOLLOW } else { PathFlags::empty() }
    }

    fn time(&mut self) -> NewTimestamp {
        match self.next() {
            "keep" => NewTimestamp::NoChange,
            "now" => NewTimestamp::Now,
            seconds => NewTimestamp::Timestamp(wall_clock::Datetime {
                seconds: seconds.parse().expect("the word is seconds"),
                nanoseconds: 5,
            }),
        }
    }

    fn open_flags(&mut self) -> OpenFlags {
        self.next().chars().fold(OpenFlags::empty(), |flags, flag| {
            flags
                | match flag {
                    'c' => OpenFlags::CREATE,
                    'd' => OpenFlags::DIRECTORY,
                    'x' => OpenFlags::EXCLUSIVE,
                    't' => OpenFlags::TRUNCATE,
                    _ => OpenFlags::empty(),
                }
        })
    }

    fn descriptor_flags(&mut self) -> DescriptorFlags {
        self.next().chars().fold(DescriptorFlags::empty(), |flags, flag| {
            flags
                | match flag {
                    'r' => DescriptorFlags::READ,
                    'w' => DescriptorFlags::WRITE,
                    's' => DescriptorFlags::FILE_INTEGRITY_SYNC,
                    'm' => DescriptorFlags::MUTATE_DIRECTORY,
                    _ => DescriptorFlags::empty(),
                }
        })
    }
}

fn add<T>(list: &mut Vec<Option<T>>, kind: char, value: T) {
    println!("{kind}{}", list.len());
    list.push(Some(value));
}

fn add_or_show<T>(list: &mut Vec<Option<T>>, kind: char, value: Result<T, ErrorCode>) {
    match value {
        Ok(value) => add(list, kind, value),
        Err(error) => println!("{}", error.name()),
    }
}

/// The value of this number; if it was dropped, or there is none, the next one that there is.
fn at<T>(list: &[Option<T>], index: usize) -> &T {
    let from = list.iter().cycle().skip(index).take(list.len());
    from.flatten().next().expect("there is a value of this kind")
}

fn drop_at<T>(list: &mut [Option<T>], index: usize) {
    if let Some(value) = list.get_mut(index) {
        *value = None;
    }
}

fn show(value: impl Debug) {
    println!("{value:?}");
}

fn show_or_error(value: Result<impl Debug, ErrorCode>) {
    match value {
        Ok(value) => show(value),
        Err(error) => println!("{}", error.name()),
    }
}

/// Type, links, size, and the time of the last change of the content.
fn shown(stat: DescriptorStat) -> (DescriptorType, u64, u64, Option<(u64, u32)>) {
    let time = stat.data_modification_timestamp.map(|time| (time.seconds, time.nanoseconds));
    (stat.type_, stat.link_count, stat.size, time)
}

/// Bytes as text, and the error of a stream with the code that a file system has for it.
fn show_stream<T>(value: Result<T, StreamError>, shown: impl FnOnce(T) -> String) {
    match value {
        Ok(value) => println!("{}", shown(value)),
        Err(StreamError::Closed) => println!("closed"),
        Err(StreamError::LastOperationFailed(error)) => {
            let code = filesystem_error_code(&error).map(|code| code.name());
            println!("{}, code {code:?}", error.to_debug_string());
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    bytes.escape_ascii().to_string()
}

impl State {
    fn call(&mut self, words: &mut Words<'_>) {
        let name = words.next();
        match name {
            "args" => show(environment::get_arguments()),
            "env" => show(environment::get_environment()),
            "cwd" => show(environment::initial_cwd()),
            "exit" => exit::exit(if words.next() == "ok" { Ok(()) } else { Err(()) }),
            "exit-with-code" => exit::exit_with_code(words.number() as u8),
            "terminals" => {
                let out = terminal_stdout::get_terminal_stdout();
                show((terminal_stdin::get_terminal_stdin().is_some(), out.is_some()));
            }
            "stdin" => add(&mut self.inputs, 'i', stdin::get_stdin()),
            "stdout" => add(&mut self.outputs, 'o', stdout::get_stdout()),
            "stderr" => add(&mut self.outputs, 'o', stderr::get_stderr()),
            "monotonic" => show(monotonic_clock::now()),
            "wall" => show(wall_clock::now()),
            "resolutions" => show((monotonic_clock::resolution(), wall_clock::resolution())),
            "at" => {
                let pollable = monotonic_clock::subscribe_instant(words.number());
                add(&mut self.pollables, 'p', pollable);
            }
            "in" => {
                let pollable = monotonic_clock::subscribe_duration(words.number());
                add(&mut self.pollables, 'p', pollable);
            }
            "random" => show(random::get_random_bytes(words.number())),
            "random-u64" => show(random::get_random_u64()),
            "insecure" => show(insecure::get_insecure_random_bytes(words.number())),
            "insecure-u64" => show(insecure::get_insecure_random_u64()),
            "seed" => show(insecure_seed::insecure_seed()),
            "tcp" => {
                let socket = tcp_create_socket::create_tcp_socket(IpAddressFamily::Ipv4);
                show(socket.err().map(|error| error.name()));
            }
            "udp" => {
                let socket = udp_create_socket::create_udp_socket(IpAddressFamily::Ipv6);
                show(socket.err().map(|error| error.name()));
            }
            "resolve" => {
                let network = instance_network::instance_network();
                let stream = ip_name_lookup::resolve_addresses(&network, words.next());
                show(stream.err().map(|error| error.name()));
            }
            "poll" => {
                let mut polled = Vec::new();
                while let Some(word) = words.0.next() {
                    polled.push(at(&self.pollables, word[1..].parse().expect("a pollable")));
                }
                show(poll(&polled));
            }
            "ready" => show(at(&self.pollables, words.index()).ready()),
            "block" => at(&self.pollables, words.index()).block(),
            "wait-ready" => {
                let pollable = at(&self.pollables, words.index());
                while !pollable.ready() {}
                println!("ready");
            }
            "drop" => self.drop(words.next()),
            "dirs" => {
                for (descriptor, name) in preopens::get_directories() {
                    print!("{name} ");
                    add(&mut self.descriptors, 'd', descriptor);
                }
            }
            "next" => match at(&self.listings, words.index()).read_directory_entry() {
                Ok(Some(entry)) => println!("{} {:?}", entry.name, entry.type_),
                Ok(None) => println!("end"),
                Err(error) => println!("{}", error.name()),
            },
            "read" | "blocking-read" | "skip" | "blocking-skip" | "subscribe-input" => {
                self.call_input(name, words);
            }
            _ if name.starts_with("out-") => self.call_output(name, words),
            _ => self.call_descriptor(name, words),
        }
    }

    fn drop(&mut self, word: &str) {
        let index: usize = word[1..].parse().expect("a letter and a number");
        match &word[..1] {
            "d" => drop_at(&mut self.descriptors, index),
            "l" => drop_at(&mut self.listings, index),
            "i" => drop_at(&mut self.inputs, index),
            "o" => drop_at(&mut self.outputs, index),
            _ => drop_at(&mut self.pollables, index),
        }
    }

    fn call_input(&mut self, name: &str, words: &mut Words<'_>) {
        let stream = at(&self.inputs, words.index());
        match name {
            "read" => show_stream(stream.read(words.number()), text),
            "blocking-read" => show_stream(stream.blocking_read(words.number()), text),
            "skip" => show_stream(stream.skip(words.number()), |count| count.to_string()),
            "blocking-skip" => {
                show_stream(stream.blocking_skip(words.number()), |count| count.to_string());
            }
            _ => add(&mut self.pollables, 'p', stream.subscribe()),
        }
    }

    fn call_output(&mut self, name: &str, words: &mut Words<'_>) {
        let stream = at(&self.outputs, words.index());
        let done = |()| "done".to_owned();
        match name {
            "out-check" => show_stream(stream.check_write(), |count| count.to_string()),
            "out-write" => show_stream(stream.write(words.next().as_bytes()), done),
            "out-zeroes" => show_stream(stream.write_zeroes(words.number()), done),
            "out-flush" => show_stream(stream.flush(), done),
            "out-blocking-flush" => show_stream(stream.blocking_flush(), done),
            "out-blocking-write" => {
                show_stream(stream.blocking_write_and_flush(words.next().as_bytes()), done);
            }
            "out-blocking-write-bytes" => {
                let bytes = vec![b'x'; words.number() as usize];
                show_stream(stream.blocking_write_and_flush(&bytes), done);
            }
            "out-blocking-zeroes" => {
                show_stream(stream.blocking_write_zeroes_and_flush(words.number()), done);
            }
            "out-splice" => {
                let from = at(&self.inputs, words.index());
                show_stream(stream.splice(from, words.number()), |count| count.to_string());
            }
            "out-blocking-splice" => {
                let from = at(&self.inputs, words.index());
                let count = stream.blocking_splice(from, words.number());
                show_stream(count, |count| count.to_string());
            }
            "out-subscribe" => add(&mut self.pollables, 'p', stream.subscribe()),
            name => panic!("no call is called {name}"),
        }
    }

    fn call_descriptor(&mut self, name: &str, words: &mut Words<'_>) {
        let file = at(&self.descriptors, words.index());
        match name {
            "open" => {
                let (path_flags, path) = (words.path_flags(), words.next());
                let (open_flags, flags) = (words.open_flags(), words.descriptor_flags());
                let opened = file.open_at(path_flags, path, open_flags, flags);
                add_or_show(&mut self.descriptors, 'd', opened);
            }
            "advise" => show_or_error(file.advise(0, 1, Advice::WillNeed)),
            "append-via-stream" => add_or_show(&mut self.outputs, 'o', file.append_via_stream()),
            "write-via-stream" => {
                add_or_show(&mut self.outputs, 'o', file.write_via_stream(words.number()));
            }
            "read-via-stream" => {
                add_or_show(&mut self.inputs, 'i', file.read_via_stream(words.number()));
            }
            "create-directory" => show_or_error(file.create_directory_at(words.next())),
            "flags" => show_or_error(file.get_flags()),
            "type" => show_or_error(file.get_type()),
            "same" => show(file.is_same_object(at(&self.descriptors, words.index()))),
            "link" => {
                let (flags, from) = (words.path_flags(), words.next());
                let to = at(&self.descriptors, words.index());
                show_or_error(file.link_at(flags, from, to, words.next()));
            }
            "hash" => show_or_error(file.metadata_hash().map(|hash| (hash.lower, hash.upper))),
            "hash-at" => {
                let hash = file.metadata_hash_at(words.path_flags(), words.next());
                show_or_error(hash.map(|hash| (hash.lower, hash.upper)));
            }
            "pread" => match file.read(words.number(), words.number()) {
                Ok((bytes, is_end)) => println!("{} {is_end}", text(bytes)),
                Err(error) => println!("{}", error.name()),
            },
            "pwrite" => show_or_error(file.write(words.next().as_bytes(), words.number())),
            "list" => add_or_show(&mut self.listings, 'l', file.read_directory()),
            "readlink" => show_or_error(file.readlink_at(words.next())),
            "remove-directory" => show_or_error(file.remove_directory_at(words.next())),
            "rename" => {
                let from = words.next();
                let to = at(&self.descriptors, words.index());
                show_or_error(file.rename_at(from, to, words.next()));
            }
            "set-size" => show_or_error(file.set_size(words.number())),
            "set-times" => show_or_error(file.set_times(words.time(), words.time())),
            "set-times-at" => {
                let (flags, path) = (words.path_flags(), words.next());
                show_or_error(file.set_times_at(flags, path, words.time(), words.time()));
            }
            "stat" => show_or_error(file.stat().map(shown)),
            "stat-at" => show_or_error(file.stat_at(words.path_flags(), words.next()).map(shown)),
            "symlink" => show_or_error(file.symlink_at(words.next(), words.next())),
            "sync" => {
                show_or_error(file.sync());
                show_or_error(file.sync_data());
            }
            "unlink" => show_or_error(file.unlink_file_at(words.next())),
            name => panic!("no call is called {name}"),
        }
    }
}

fn main() {
    let mut state = State::default();
    for call in std::env::args().skip(1) {
        state.call(&mut Words(call.split(' ')));
    }
}
