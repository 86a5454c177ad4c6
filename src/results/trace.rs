//! The calls of one process.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use super::secrets::Secrets;
use crate::base::digest::{Digest, DigestHasher};

/// Longest answer that a trace has byte by byte; of longer ones it has the digest.
const SHORT_BYTES_MAX: usize = 48;

/// Most bytes that the calls of a trace hand over and get, each.
pub(super) const BYTES_MAX: u64 = 256 << 20;

/// Most calls of a trace.
const CALLS_MAX: usize = 4 << 20;

/// Charge for a call, besides its bytes.
const CALL_BYTES: u64 = 64;

/// A function that processes import.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Function {
    /// The import module.
    pub module: Box<str>,
    /// Its name there.
    pub name: Box<str>,
}

/// Bytes, serialized as such.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfBytes;
        impl<'de> Visitor<'de> for OfBytes {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<Bytes, A::Error> {
                let mut all = Vec::new();
                while let Some(byte) = bytes.next_element()? {
                    all.push(byte);
                }
                Ok(Bytes(all))
            }
        }
        deserializer.deserialize_bytes(OfBytes)
    }
}

/// Bytes at a place in the memory of a process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Span {
    /// The offset of the first byte.
    pub at: u32,
    /// The bytes.
    pub bytes: Bytes,
}

/// One call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// The index of its function in [`Trace::functions`].
    pub function: u16,
    /// The size of the memory of the process, in bytes.
    pub memory_bytes: u64,
    /// Its arguments; 32-bit ones are extended by zeros.
    pub args: Vec<u64>,
    /// What it reads in the memory.
    pub inputs: Vec<Span>,
    /// The answer; `None` if the call ended the process.
    pub answer: Option<Answer>,
}

impl Call {
    /// What can be read in it: see [`Trace::texts`].
    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let short = match self.answer.as_ref().map(|answer| &answer.written) {
            Some(Written::Short(bytes)) => Some(&*bytes.0),
            Some(Written::Digest(_) | Written::Sealed(_)) | None => None,
        };
        self.inputs.iter().map(|span| &*span.bytes.0).chain(short)
    }
}

/// The answer of a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The number that it returns.
    pub code: u32,
    /// Where it wrote in the memory: offsets and lengths.
    pub places: Vec<(u32, u32)>,
    /// What it wrote there.
    written: Written,
}

impl Answer {
    /// Tells it from all other answers.
    pub(super) fn hash_into(&self, hasher: &mut DigestHasher) {
        hasher.write(&self.code.to_le_bytes());
        hasher.write(&(self.places.len() as u64).to_le_bytes());
        for (at, len) in &self.places {
            hasher.write(&at.to_le_bytes());
            hasher.write(&len.to_le_bytes());
        }
        match &self.written {
            Written::Short(bytes) => {
                hasher.write(&[0]);
                // Its length is that of the places.
                hasher.write(&bytes.0);
            }
            Written::Digest(digest) => {
                hasher.write(&[1]);
                hasher.write(digest);
            }
            Written::Sealed(digest) => {
                hasher.write(&[2]);
                hasher.write(digest);
            }
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Written {
    Short(Bytes),
    Digest([u8; Digest::BYTES]),
    /// It holds a secret: see [`Secrets`].
    Sealed([u8; Digest::BYTES]),
}

/// The answer of a call, as it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// The number that it returns.
    pub code: u32,
    /// What it wrote in the memory.
    pub outputs: Vec<Span>,
}

impl Known {
    /// Bytes that it wrote.
    pub fn bytes(&self) -> u64 {
        self.outputs.iter().map(|span| span.bytes.0.len() as u64).sum()
    }

    /// What a trace has of it, in which `secrets` cannot be read.
    pub fn to_answer(&self, secrets: &Secrets) -> Answer {
        let parts: SmallVec<[&[u8]; 4]> = self.outputs.iter().map(|it| &*it.bytes.0).collect();
        match secrets.seal(&parts) {
            Some(sealed) => self.answer_with(Written::Sealed(sealed)),
            None => self.to_plain_answer(),
        }
    }

    /// Whether `answer` is what a trace has of it.
    pub fn is(&self, answer: &Answer, secrets: &Secrets) -> bool {
        match answer.written {
            Written::Sealed(_) => self.to_answer(secrets) == *answer,
            // Equal bytes are equal, whether they are a secret or not.
            Written::Short(_) | Written::Digest(_) => self.to_plain_answer() == *answer,
        }
    }

    fn answer_with(&self, written: Written) -> Answer {
        let place = |span: &Span| (span.at, span.bytes.0.len() as u32);
        Answer { code: self.code, places: self.outputs.iter().map(place).collect(), written }
    }

    fn to_plain_answer(&self) -> Answer {
        let written = if self.bytes() <= SHORT_BYTES_MAX as u64 {
            let mut bytes = Vec::with_capacity(SHORT_BYTES_MAX);
            for span in &self.outputs {
                bytes.extend_from_slice(&span.bytes.0);
            }
            Written::Short(Bytes(bytes))
        } else {
            let mut hasher = DigestHasher::default();
            for span in &self.outputs {
                hasher.write(&span.bytes.0);
            }
            Written::Digest(*hasher.digest().as_bytes())
        };
        self.answer_with(written)
    }
}

/// How a process ended, after its last call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum End {
    /// It exited, or its last call ended it.
    Exited,
    /// It trapped, for a reason that is in its code and its answers alone.
    Trapped {
        /// The cause, in a few words.
        message: String,
        /// The active functions, innermost first.
        backtrace: Vec<String>,
    },
}

/// The calls of one process that ended by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trace {
    /// The action that it is a trace of.
    pub action: Digest,
    /// Its arguments, for people.
    pub command: Vec<String>,
    /// The functions that it called.
    pub functions: Vec<Function>,
    /// Its calls, in order. The last one ends it, or it ended afterwards.
    pub calls: Vec<Call>,
    /// How it ended.
    pub end: End,
    /// Real time that it took to run, in microseconds.
    pub took_us: u64,
}

impl Trace {
    /// Real time that it took to run.
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.took_us)
    }

    /// Bytes that its calls hand over.
    pub fn bytes(&self) -> u64 {
        let spans = self.calls.iter().flat_map(|call| &call.inputs);
        spans.map(|span| span.bytes.0.len() as u64).sum()
    }

    /// The form in which a cache keeps it: the digest of what follows, which is the trace in the format of postcard.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_with_digest().1
    }

    pub(super) fn to_bytes_with_digest(&self) -> (Digest, Vec<u8>) {
        let bytes = vec![0; Digest::BYTES];
        let mut bytes =
            postcard::to_extend(self, bytes).expect("no part of it has an unknown length");
        let digest = Digest::of(&bytes[Digest::BYTES..]);
        bytes[..Digest::BYTES].copy_from_slice(digest.as_bytes());
        (digest, bytes)
    }

    /// The trace with these bytes; `None` if they are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let trace: Self = postcard::from_bytes(Digest::checked(bytes)?).ok()?;
        let is_whole = trace.calls.iter().all(|call| trace.function(call).is_some());
        is_whole.then_some(trace)
    }

    /// The function of `call`; `None` if the trace is damaged.
    pub fn function(&self, call: &Call) -> Option<&Function> {
        self.functions.get(usize::from(call.function))
    }

    /// What can be read in it: arguments, what calls read, and short answers.
    pub fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let command = self.command.iter().map(String::as_bytes);
        command.chain(self.calls.iter().flat_map(Call::texts))
    }

    /// How many of its first answers are the first ones of `answers`.
    pub fn answers_shared(&self, answers: &[Answer]) -> usize {
        let own = self.calls.iter().map(|call| call.answer.as_ref());
        own.zip(answers).take_while(|(own, other)| *own == Some(*other)).count()
    }

    /// Whether it has answers that can be compared only with the key of the user who made it: see [`Secrets`].
    pub fn is_sealed(&self) -> bool {
        let answers = self.calls.iter().filter_map(|call| call.answer.as_ref());
        answers.into_iter().any(|answer| matches!(answer.written, Written::Sealed(_)))
    }

    /// Compares it with `run`, a process of the same action that was made anew.
    pub fn compare(&self, run: &Self) -> Compared {
        for (index, (known, made)) in self.calls.iter().zip(&run.calls).enumerate() {
            let is_same = self.function(known) == run.function(made)
                && (known.memory_bytes, &known.args) == (made.memory_bytes, &made.args)
                && known.inputs == made.inputs;
            if !is_same {
                return Compared::Differs { call: index };
            }
            match &made.answer {
                answer if *answer == known.answer => {}
                // A signal ended it there, which is an answer of the kernel's.
                None => return Compared::Same,
                Some(_) => {
                    let answers = run.calls[..=index].iter().filter_map(|call| call.answer.clone());
                    return Compared::Leaves { answers: answers.collect() };
                }
            }
        }
        let (known, made) = (self.calls.len(), run.calls.len());
        if known == made && self.end == run.end {
            Compared::Same
        } else {
            Compared::Differs { call: known.min(made) }
        }
    }
}

/// How a trace compares with a process that ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compared {
    /// They made the same calls, and got the same answers.
    Same,
    /// The process got another answer: these are its answers, up to that one.
    Leaves {
        /// The answers.
        answers: Vec<Answer>,
    },
    /// The process made another call after the same answers: they are not of the same program.
    Differs {
        /// The number of the call, from 0.
        call: usize,
    },
}

/// Takes down the calls of a process as it makes them.
#[derive(Default)]
pub struct TraceBuilder {
    secrets: Arc<Secrets>,
    functions: Vec<Function>,
    numbers: HashMap<Function, u16>,
    calls: Vec<Call>,
    /// Bytes that calls handed over, and got.
    bytes: [u64; 2],
    abandoned: Option<Abandoned>,
}

/// Why the calls of a process are not taken down any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abandoned {
    /// They are too many, or hand over or get too much.
    TooLarge,
    /// A call failed after it had written an unknown part of its answer.
    Torn,
}

impl TraceBuilder {
    /// Takes down calls from the first one on; `secrets` cannot be read in their answers.
    pub fn new(secrets: Arc<Secrets>) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// Goes on after the first calls of `trace`, whose answers were `answers`, and wrote `answer_bytes` bytes.
    pub fn after(
        trace: &Trace,
        answers: Vec<Answer>,
        answer_bytes: u64,
        secrets: Arc<Secrets>,
    ) -> Self {
        let numbers = trace.functions.iter().cloned().zip(0..).collect();
        let functions = trace.functions.clone();
        let mut builder = Self { functions, numbers, ..Self::new(secrets) };
        for (call, answer) in trace.calls.iter().zip(answers) {
            let call = Call { answer: Some(answer), ..call.clone() };
            builder.push_call(call, 0);
        }
        builder.bytes[1] += answer_bytes;
        builder
    }

    /// Whether the call `index` is one of `function` with `args`.
    pub fn has(&self, index: usize, function: &Function, args: &[u64]) -> bool {
        self.calls.get(index).is_some_and(|call| {
            call.args == args && self.functions.get(usize::from(call.function)) == Some(function)
        })
    }

    /// Adds a call of `function` with its answer; `None` if it ends the process.
    pub fn push(
        &mut self,
        function: &Function,
        memory_bytes: u64,
        args: &[u64],
        inputs: Vec<Span>,
        answer: Option<&Known>,
    ) {
        if self.abandoned.is_some() {
            return;
        }
        let function = if let Some(number) = self.numbers.get(function) {
            *number
        } else {
            let number = self.functions.len() as u16;
            self.functions.push(function.clone());
            self.numbers.insert(function.clone(), number);
            number
        };
        let args = args.to_vec();
        let answer_bytes = answer.map_or(0, Known::bytes);
        let answer = answer.map(|known| known.to_answer(&self.secrets));
        self.push_call(Call { function, memory_bytes, args, inputs, answer }, answer_bytes);
    }

    fn push_call(&mut self, call: Call, answer_bytes: u64) {
        let handed: usize = call.inputs.iter().map(|span| span.bytes.0.len()).sum();
        self.bytes[0] += handed as u64 + CALL_BYTES;
        self.bytes[1] += answer_bytes;
        if self.calls.len() == CALLS_MAX || self.bytes.iter().any(|bytes| *bytes > BYTES_MAX) {
            self.abandon(Abandoned::TooLarge);
            return;
        }
        self.calls.push(call);
    }

    /// The process cannot be known from its calls, because of `why`.
    pub fn abandon(&mut self, why: Abandoned) {
        self.abandoned.get_or_insert(why);
        self.calls = Vec::new();
    }

    /// The trace of a process of the action with the digest `action`, with the arguments `command`, that ended as `end`
    /// says after it had run for `took`.
    ///
    /// # Errors
    /// Why it was abandoned.
    pub fn finish(
        self,
        action: Digest,
        command: &[Vec<u8>],
        end: End,
        took: Duration,
    ) -> Result<Trace, Abandoned> {
        if let Some(why) = self.abandoned {
            return Err(why);
        }
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let command = command.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
        let Self { functions, calls, .. } = self;
        Ok(Trace { action, command, functions, calls, end, took_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action() -> Digest {
        Digest::of(b"action")
    }

    fn function(name: &str) -> Function {
        Function { module: "m".into(), name: name.into() }
    }

    fn known(code: u32, bytes: &[u8]) -> Known {
        let span = Span { at: 8, bytes: Bytes(bytes.to_vec()) };
        Known { code, outputs: vec![span] }
    }

    fn trace(calls: &[(&str, u64, &Known)]) -> Trace {
        let mut builder = TraceBuilder::default();
        for (name, arg, known) in calls {
            builder.push(&function(name), 65536, &[*arg], Vec::new(), Some(known));
        }
        builder.finish(action(), &[], End::Exited, Duration::ZERO).unwrap()
    }

    #[test]
    fn answers_are_equal_if_their_bytes_and_places_are() {
        for len in [0, 1, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1, 100_000] {
            let (a, mut b) = (known(0, &vec![1; len]), known(0, &vec![1; len]));
            let none = Secrets::default();
            assert_eq!(a.to_answer(&none), b.to_answer(&none), "{len}");
            b.outputs[0].at = 9;
            assert_ne!(a.to_answer(&none), b.to_answer(&none), "{len}");
            let mut b = known(0, &vec![1; len]);
            if let Some(last) = b.outputs[0].bytes.0.last_mut() {
                *last = 2;
                assert_ne!(a.to_answer(&none), b.to_answer(&none), "{len}");
            }
        }
    }

    #[test]
    fn traces_round_trip() {
        let trace = trace(&[("a", 1, &known(0, b"x")), ("b", 2, &known(28, &[7; 1000]))]);
        let mut bytes = trace.to_bytes();
        assert_eq!(Trace::from_bytes(&bytes), Some(trace));
        bytes[40] ^= 1;
        assert_eq!(Trace::from_bytes(&bytes), None);
    }

    #[test]
    fn other_call_after_equal_answers_is_a_difference() {
        let (same, other) = (known(0, b"x"), known(0, b"y"));
        let first = trace(&[("a", 1, &same), ("b", 2, &same)]);
        assert_eq!(first.compare(&first), Compared::Same);
        for run in [
            trace(&[("a", 1, &same), ("b", 3, &same)]),
            trace(&[("a", 1, &same), ("c", 2, &same)]),
            trace(&[("a", 1, &same)]),
        ] {
            assert_eq!(first.compare(&run), Compared::Differs { call: 1 });
        }
        let mut ended = TraceBuilder::default();
        ended.push(&function("a"), 65536, &[1], Vec::new(), None);
        let ended = ended.finish(action(), &[], End::Exited, Duration::ZERO).unwrap();
        let answers = vec![same.to_answer(&Secrets::default())];
        assert_eq!(ended.compare(&first), Compared::Leaves { answers }, "a signal came before");
        assert_eq!(first.compare(&ended), Compared::Same, "a signal came");
        let answers = vec![other.to_answer(&Secrets::default())];
        let run = trace(&[("a", 1, &other), ("c", 2, &same)]);
        assert_eq!(first.compare(&run), Compared::Leaves { answers });
    }

    #[test]
    fn process_that_hands_over_too_much_is_abandoned() {
        let mut builder = TraceBuilder::default();
        for _ in 0..5 {
            let span = Span { at: 0, bytes: Bytes(vec![0; 64 << 20]) };
            builder.push(&function("w"), 65536, &[], vec![span], Some(&known(0, b"")));
        }
        let finished = builder.finish(action(), &[], End::Exited, Duration::ZERO);
        assert_eq!(finished, Err(Abandoned::TooLarge));
    }
}
