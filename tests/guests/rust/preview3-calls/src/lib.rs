//! Makes calls of WASI 0.3: one for each argument, which is the words of a call. It prints a line with each answer.
//!
//! Descriptors are `d0`, `d1`, … in the order in which they were opened; the first are the preopens. Words of paths are
//! taken as they are, `''` is the empty path. `together A + B` makes calls at once, as tasks of their own, and prints
//! their answers in the order in which they come.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::rc::Rc;

use futures_util::future::{LocalBoxFuture, join_all, select};
use wasip3::cli::{environment, exit, stderr, stdin, stdout};
use wasip3::clocks::{monotonic_clock, system_clock};
use wasip3::filesystem::preopens;
use wasip3::filesystem::types::{
    Advice, Descriptor, DescriptorFlags, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
};
use wasip3::random::{insecure, insecure_seed, random};
use wasip3::sockets::{ip_name_lookup, types as sockets};
use wasip3::wit_bindgen::{StreamReader, StreamResult, yield_async};

struct Program;
wasip3::cli::command::export!(Program);

impl wasip3::exports::cli::run::Guest for Program {
    async fn run() -> Result<(), ()> {
        let state = Rc::new(State::default());
        for (descriptor, name) in preopens::get_directories() {
            state.names.borrow_mut().push(name);
            state.descriptors.borrow_mut().push(Rc::new(descriptor));
        }
        for call in environment::get_arguments().iter().skip(1) {
            if call == "fail" {
                return Err(());
            }
            make(&state, call.clone()).await;
        }
        Ok(())
    }
}

#[derive(Default)]
struct State {
    names: RefCell<Vec<String>>,
    descriptors: RefCell<Vec<Rc<Descriptor>>>,
    /// How many calls have an answer.
    answers: Cell<u64>,
}

impl State {
    fn add(&self, opened: Result<Descriptor, ErrorCode>) -> String {
        match opened {
            Ok(descriptor) => {
                let mut descriptors = self.descriptors.borrow_mut();
                descriptors.push(Rc::new(descriptor));
                format!("d{}", descriptors.len() - 1)
            }
            Err(error) => format!("{error:?}"),
        }
    }

    /// The descriptor that the next word names; if there is none yet, another one.
    fn at(&self, words: &mut Words<'_>) -> Rc<Descriptor> {
        let index: usize = words.next()[1..].parse().expect("the word is d and a number");
        let descriptors = self.descriptors.borrow();
        descriptors[index % descriptors.len()].clone()
    }
}

/// The words of a call.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> &'a str {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        if word == "''" { "" } else { word }
    }

    fn rest(&mut self) -> &'a str {
        std::mem::take(&mut self.0)
    }

    fn path(&mut self) -> String {
        self.next().to_owned()
    }

    fn number(&mut self) -> u64 {
        self.next().parse().expect("the word is a number")
    }

    fn path_flags(&mut self) -> PathFlags {
        if self.next() == "follow" { PathFlags::SYMLINK_FOLLOW } else { PathFlags::empty() }
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

    fn flags(&mut self) -> DescriptorFlags {
        self.next().chars().fold(DescriptorFlags::empty(), |flags, flag| {
            flags
                | match flag {
                    'r' => DescriptorFlags::READ,
                    'w' => DescriptorFlags::WRITE,
                    'm' => DescriptorFlags::MUTATE_DIRECTORY,
                    _ => DescriptorFlags::empty(),
                }
        })
    }

    fn time(&mut self) -> NewTimestamp {
        match self.next() {
            "keep" => NewTimestamp::NoChange,
            "now" => NewTimestamp::Now,
            seconds => NewTimestamp::Timestamp(system_clock::Instant {
                seconds: seconds.parse().expect("the word is seconds"),
                nanoseconds: 5,
            }),
        }
    }
}

fn shown(value: impl Debug) -> String {
    format!("{value:?}")
}

fn said<T: Debug>(answer: Result<T, ErrorCode>) -> String {
    match answer {
        Ok(value) => shown(value),
        Err(error) => shown(error),
    }
}

/// A stream of `text`, which is written by a task of its own.
fn stream_of(text: &str) -> StreamReader<u8> {
    let (mut writer, reader) = wasip3::wit_stream::new();
    let text = text.as_bytes().to_vec();
    wasip3::spawn_local(async move {
        writer.write_all(text).await;
    });
    reader
}

/// All bytes of a stream, at most `chunk` at once; after `most` the rest is left. No bytes are read first if `chunk` is 0.
async fn read(mut stream: StreamReader<u8>, mut chunk: usize, most: usize) -> String {
    if chunk == 0 {
        stream.read(Vec::new()).await;
        chunk = 1;
    }
    let mut bytes = Vec::new();
    while bytes.len() < most {
        let (status, more) = stream.read(Vec::with_capacity(chunk.min(most - bytes.len()))).await;
        bytes.extend(more);
        if status == StreamResult::Dropped {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn make(state: &Rc<State>, call: String) -> LocalBoxFuture<'static, ()> {
    let state = state.clone();
    Box::pin(async move {
        let mut words = Words(&call);
        let answer = match words.next() {
            "together" => {
                join_all(words.rest().split(" + ").map(|call| make(&state, call.to_owned()))).await;
                return;
            }
            "spawn" => {
                wasip3::spawn_local(make(&state, words.rest().to_owned()));
                return;
            }
            // The first that ends ends the others.
            "first" => {
                let mut calls = words.rest().split(" + ").map(|call| make(&state, call.to_owned()));
                let both = (calls.next().expect("two"), calls.next().expect("two"));
                select(both.0, both.1).await;
                return;
            }
            word => answer(&state, word, &mut words).await,
        };
        state.answers.set(state.answers.get() + 1);
        println!("{answer}");
    })
}

async fn answer(state: &State, word: &str, words: &mut Words<'_>) -> String {
    match word {
        "args" => shown(environment::get_arguments()),
        "env" => shown(environment::get_environment()),
        "cwd" => shown(environment::get_initial_cwd()),
        "exit" => {
            exit::exit_with_code(words.number() as u8);
            unreachable!()
        }
        "dirs" => shown(state.names.borrow()),
        "now" => shown(monotonic_clock::now()),
        "sleep" => {
            let ns = words.number();
            monotonic_clock::wait_for(ns).await;
            format!("slept {ns}")
        }
        "until" => {
            let when = words.number();
            monotonic_clock::wait_until(when).await;
            format!("it is {when}")
        }
        "resolution" => {
            format!("{} {}", monotonic_clock::get_resolution(), system_clock::get_resolution())
        }
        "wall" => shown(system_clock::now()),
        "random" => shown(random::get_random_bytes(words.number())),
        "number" => shown(random::get_random_u64()),
        "insecure" => format!(
            "{:?} {}",
            insecure::get_insecure_random_bytes(words.number()),
            insecure::get_insecure_random_u64()
        ),
        "seed" => shown(insecure_seed::get_insecure_seed()),
        "stdin" => {
            let (chunk, most) = (words.number() as usize, words.number() as usize);
            let (stream, ended) = stdin::read_via_stream();
            let text = read(stream, chunk, most).await;
            format!("{text:?} {:?}", ended.await)
        }
        "out" => {
            let ended = stdout::write_via_stream(stream_of(&format!("{}\n", words.rest())));
            shown(ended.await)
        }
        "err" => {
            let ended = stderr::write_via_stream(stream_of(&format!("{}\n", words.rest())));
            shown(ended.await)
        }
        "much" => {
            let ended = stdout::write_via_stream(stream_of(&"x".repeat(words.number() as usize)));
            format!("\n{:?}", ended.await)
        }
        // The bytes go from the host to the host.
        "copy" => {
            let (stream, read) = stdin::read_via_stream();
            let written = stdout::write_via_stream(stream);
            format!("{:?} {:?}", written.await, read.await)
        }
        // Asks again and again whether another call has its answer.
        "spin" => {
            let before = state.answers.get();
            while state.answers.get() == before {
                yield_async().await;
            }
            "spun".to_owned()
        }
        // Nobody will write to this stream.
        "never" => {
            let (writer, reader) = wasip3::wit_stream::new::<u8>();
            let text = read(reader, 1, 1).await;
            drop(writer);
            text
        }
        "tcp" => shown(sockets::TcpSocket::create(sockets::IpAddressFamily::Ipv4)),
        "udp" => shown(sockets::UdpSocket::create(sockets::IpAddressFamily::Ipv6)),
        "resolve" => shown(ip_name_lookup::resolve_addresses(words.path()).await),
        word => file_answer(state, word, words).await,
    }
}

async fn file_answer(state: &State, word: &str, words: &mut Words<'_>) -> String {
    let file = state.at(words);
    match word {
        "open" => {
            let (follow, path) = (words.path_flags(), words.path());
            let (open, flags) = (words.open_flags(), words.flags());
            state.add(file.open_at(follow, path, open, flags).await)
        }
        "read" => {
            let (offset, chunk, most) = (words.number(), words.number(), words.number());
            let (stream, ended) = file.read_via_stream(offset);
            let text = read(stream, chunk as usize, most as usize).await;
            format!("{text:?} {:?}", ended.await)
        }
        "write" => {
            let offset = words.number();
            shown(file.write_via_stream(stream_of(words.rest()), offset).await)
        }
        "append" => shown(file.append_via_stream(stream_of(words.rest())).await),
        "list" => {
            let (mut stream, ended) = file.read_directory();
            let mut names = Vec::new();
            loop {
                let (status, more) = stream.read(Vec::with_capacity(2)).await;
                names.extend(
                    more.into_iter().map(|entry| format!("{}:{:?}", entry.name, entry.type_)),
                );
                if status == StreamResult::Dropped {
                    break;
                }
            }
            format!("{} {:?}", names.join(" "), ended.await)
        }
        "stat" => said(file.stat().await),
        "stat-at" => said(file.stat_at(words.path_flags(), words.path()).await),
        "mkdir" => said(file.create_directory_at(words.path()).await),
        "rmdir" => said(file.remove_directory_at(words.path()).await),
        "unlink" => said(file.unlink_file_at(words.path()).await),
        "rename" => {
            let (from, to_dir) = (words.path(), state.at(words));
            said(file.rename_at(from, &to_dir, words.path()).await)
        }
        "link" => {
            let (follow, from, to_dir) = (words.path_flags(), words.path(), state.at(words));
            said(file.link_at(follow, from, &to_dir, words.path()).await)
        }
        "symlink" => said(file.symlink_at(words.path(), words.path()).await),
        "readlink" => said(file.readlink_at(words.path()).await),
        "size" => said(file.set_size(words.number()).await),
        "times" => said(file.set_times(words.time(), words.time()).await),
        "times-at" => {
            let (follow, path) = (words.path_flags(), words.path());
            said(file.set_times_at(follow, path, words.time(), words.time()).await)
        }
        "sync" => said(file.sync().await),
        "sync-data" => said(file.sync_data().await),
        "advise" => said(file.advise(0, 1, Advice::Sequential).await),
        "flags" => said(file.get_flags().await),
        "type" => said(file.get_type().await),
        "same" => shown(file.is_same_object(&state.at(words)).await),
        "hash" => said(file.metadata_hash().await),
        "hash-at" => said(file.metadata_hash_at(words.path_flags(), words.path()).await),
        word => panic!("there is no call {word}"),
    }
}
