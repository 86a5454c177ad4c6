//! A machine, and what a guest starts with in it.

use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex};

use belljar::kernel::vfs::{FileType, Follow};
use belljar::{
    Command, Input, Limits, Machine, MachineBuilder, Outcome, OutputStream, Preopen, Reach, Source,
    Stdio,
};

use super::interpreter::{MAGIC, WROTE, program};
use super::script::{Script, Slot};

/// Descriptor of the first preopened directory.
pub const DIR: u32 = 3;

/// A machine with the memory mount `/w`.
pub fn builder() -> MachineBuilder {
    Machine::builder().mount("/w", Source::Memory)
}

/// A machine, and what a guest starts with in it.
pub struct World {
    pub machine: Machine,
    /// `None` for the whole namespace.
    pub preopens: Option<Vec<Preopen>>,
    pub current_dir: Option<String>,
    pub args: Vec<Vec<u8>>,
    pub env: Vec<(String, String)>,
    /// What standard input holds after the script.
    pub stdin: Vec<u8>,
}

/// The results of a run.
#[derive(Debug)]
pub struct Run {
    pub outcome: Outcome,
    pub stdout: Vec<u8>,
    /// The answer to each call.
    pub answers: Vec<u32>,
    pub memory: Vec<u8>,
}

impl World {
    /// The memory mount `/w`, which is all that the guest sees.
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    /// As [`World::new`], with these limits.
    pub fn with(limits: Limits) -> Self {
        Self::confined(builder().limits(limits))
    }

    /// Only `/w`, which the builder mounts.
    pub fn confined(builder: MachineBuilder) -> Self {
        let preopen =
            Preopen { path: "/w".to_owned(), name: "/w".to_owned(), reach: Reach::Confined };
        Self { preopens: Some(vec![preopen]), ..Self::namespace(builder) }
    }

    /// The whole namespace, as programs see it by default.
    pub fn namespace(builder: MachineBuilder) -> Self {
        Self {
            machine: builder.build().unwrap(),
            preopens: None,
            current_dir: None,
            args: Vec::new(),
            env: Vec::new(),
            stdin: Vec::new(),
        }
    }

    /// Makes the file `path` below `/w`.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        let now = self.machine.now_ns();
        self.machine.vfs_mut().write(&format!("/w/{path}"), content, now).unwrap();
    }

    /// Makes the directory `path` below `/w`.
    pub fn dir(&mut self, path: &str) {
        let now = self.machine.now_ns();
        let vfs = self.machine.vfs_mut();
        vfs.create_dir(vfs.host_base(), &format!("w/{path}"), now).unwrap();
    }

    /// Makes the symbolic link `path` below `/w`.
    pub fn link(&mut self, path: &str, text: &str) {
        let now = self.machine.now_ns();
        let vfs = self.machine.vfs_mut();
        vfs.symlink(text, vfs.host_base(), &format!("w/{path}"), now).unwrap();
    }

    /// The content of the file `path` below `/w`.
    pub fn read(&mut self, path: &str) -> Vec<u8> {
        self.machine.vfs_mut().read(&format!("/w/{path}")).unwrap()
    }

    /// The modification time of the file `path` below `/w`.
    pub fn written(&mut self, path: &str) -> u64 {
        let vfs = self.machine.vfs_mut();
        vfs.stat(vfs.host_base(), &format!("w/{path}"), Follow::No).unwrap().times.mtim
    }

    /// Whether `path` below `/w` exists; links are not followed.
    pub fn has(&mut self, path: &str) -> bool {
        let vfs = self.machine.vfs_mut();
        vfs.reaches(vfs.host_base(), &format!("w/{path}"), false)
    }

    /// A line for each entry of the namespace, with its content.
    pub fn tree(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        self.list("", &mut lines);
        lines
    }

    fn list(&mut self, dir: &str, lines: &mut Vec<String>) {
        let vfs = self.machine.vfs_mut();
        let node = vfs.open_dir(&format!("{dir}/")).unwrap();
        let listing = vfs.list(node).unwrap();
        vfs.close(node);
        for entry in listing.iter() {
            let path = format!("{dir}/{}", entry.name);
            match entry.file_type {
                FileType::Directory => {
                    lines.push(format!("{path}/"));
                    self.list(&path, lines);
                }
                FileType::RegularFile => {
                    let content = self.machine.vfs_mut().read(&path).unwrap();
                    lines.push(format!("{path} {}", content.escape_ascii()));
                }
                other => lines.push(format!("{path} {other:?}")),
            }
        }
    }

    /// Runs `script` until it ends in any way.
    pub fn run_until(&mut self, script: &Script) -> Run {
        let stdin = Cursor::new([script.encode(), self.stdin.clone()].concat());
        self.run_with(script, Input::Bytes(stdin), Box::new(io::empty()))
    }

    /// As [`World::run_until`], with these streams. `stdin` begins with the script. What the guest
    /// writes to standard output also goes to `stdout`, which may fail.
    pub fn run_with(
        &mut self,
        script: &Script,
        stdin: Input,
        stdout: Box<dyn Write + Send>,
    ) -> Run {
        let mut command = Command::new(program(script.snapshot));
        command.argv0("guest").args(&self.args);
        for (key, value) in &self.env {
            command.env(key, value);
        }
        if let Some(preopens) = &self.preopens {
            command.preopens(preopens.clone());
        }
        if let Some(path) = &self.current_dir {
            command.current_dir(path);
        }
        let (out, err) = (Tee::new(stdout), Tee::new(Box::new(io::empty())));
        let (written, errors) = (out.copy.clone(), err.copy.clone());
        let streams = Stdio {
            stdin,
            stdout: OutputStream::Writer(Box::new(out)),
            stderr: OutputStream::Writer(Box::new(err)),
        };
        let status = command.status(&mut self.machine, streams).unwrap();
        let stdout = std::mem::take(&mut *written.lock().unwrap());
        let stderr = std::mem::take(&mut *errors.lock().unwrap());
        let dump = take_dump(&stderr).or_else(|| take_dump(&stdout));
        let (answers, memory) = dump.unwrap_or_default();
        Run { outcome: status.outcome().clone(), stdout, answers, memory }
    }

    /// Runs `script`, which must reach its end with the expected answers, and write only to the
    /// memory that it reserved.
    #[track_caller]
    pub fn run(&mut self, script: &Script) -> Run {
        let run = self.run_until(script);
        assert_eq!(run.outcome, Outcome::Exited(0));
        assert!(!run.memory.is_empty(), "the dump is lost");
        let faults = script.faults(&run.answers, &run.memory);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        run
    }
}

/// Copies what another writer accepts.
struct Tee {
    to: Box<dyn Write + Send>,
    copy: Arc<Mutex<Vec<u8>>>,
}

impl Tee {
    fn new(to: Box<dyn Write + Send>) -> Self {
        Self { to, copy: Arc::default() }
    }
}

impl Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.copy.lock().unwrap().extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The answers and the memory, from the end of the guest's output.
fn take_dump(written: &[u8]) -> Option<(Vec<u32>, Vec<u8>)> {
    let word = |from_end: usize| {
        let at = written.len().checked_sub(from_end)?;
        Some(u32::from_le_bytes(written[at..at + 4].try_into().unwrap()))
    };
    if word(4)? != MAGIC {
        return None;
    }
    let (answers, memory) = (word(12)? as usize, word(8)? as usize);
    let rest = &written[written.len().checked_sub(12 + memory + answers)?..];
    let (answers, rest) = rest.split_at(answers);
    let answers = answers.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    Some((answers.collect(), rest[..memory].to_vec()))
}

impl Run {
    pub fn bytes(&self, slot: Slot) -> &[u8] {
        &self.memory[slot.addr as usize..][..slot.len as usize]
    }

    pub fn u32(&self, slot: Slot) -> u32 {
        u32::from_le_bytes(self.bytes(slot)[..4].try_into().unwrap())
    }

    pub fn u64(&self, slot: Slot) -> u64 {
        u64::from_le_bytes(self.bytes(slot)[..8].try_into().unwrap())
    }

    /// A `filestat` of preview1.
    pub fn stat(&self, slot: Slot) -> Stat {
        let field = |index: u32| self.u64(slot.part(index * 8, 8));
        assert_eq!(self.bytes(slot.part(17, 7)), [0; 7], "what pads the structure");
        Stat {
            dev: field(0),
            ino: field(1),
            file_type: self.bytes(slot)[16],
            nlink: field(3),
            size: field(4),
            atim: field(5),
            mtim: field(6),
            ctim: field(7),
        }
    }

    /// The errno of the call with this index; 0 for success.
    pub fn errno(&self, index: usize) -> u32 {
        self.answers[index] & !WROTE
    }
}

/// `filestat`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub file_type: u8,
    pub nlink: u64,
    pub size: u64,
    pub atim: u64,
    pub mtim: u64,
    pub ctim: u64,
}
