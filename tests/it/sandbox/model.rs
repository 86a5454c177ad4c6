//! Many sessions at once, each compared with a model: maps for its files, a number for its clock, the
//! one port that its policy allows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use belljar::host::HostError;
use belljar::net::EgressPolicy;
use belljar::sandbox::{
    ExecRequest, FilesystemAccess, MountSource, SandboxBackend, SandboxError, SandboxMount,
    SandboxSpec, WasiBackend,
};

use super::backend;
use crate::support::plans::Chance;

const THREADS: usize = 8;

/// Operations of all sessions together, unless `BELLJAR_TEST_SANDBOX_OPS` is set. There is one session per 100
/// operations, and at least ten: 100,000 operations are a thousand sessions, and take half a minute.
const OPS: usize = 4_000;

/// Commands of one script.
const COMMANDS_MAX: usize = 6;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Ports of this machine on which no process listens: 1 to this number.
const PORTS: usize = 3;

/// Whether the host can make requests for programs.
const CONNECTS: bool = cfg!(feature = "http");

const START_S: u64 = 2_114_380_800;

/// The expected state of a session. Names of one file have the same number.
#[derive(Clone, Default, Debug)]
struct Model {
    names: BTreeMap<String, u64>,
    contents: BTreeMap<u64, Vec<u8>>,
    made: u64,
    slept_s: u64,
    /// Number of commands so far: each of them, and each exec, may advance the clock by one second.
    commands: u64,
    /// Mounts that were attached.
    attached: usize,
    /// The port of this machine that its programs may connect to.
    allowed: Option<usize>,
}

impl Model {
    /// A script of random commands, whose effects are applied to the model.
    fn script(&mut self, chance: &mut Chance) -> String {
        let mut script = "set -e; cd /tmp\n".to_owned();
        self.commands += 1;
        for _ in 0..=chance.below(COMMANDS_MAX) {
            self.commands += 1;
            let (a, b) = (NAMES[chance.below(6)].to_owned(), NAMES[chance.below(6)].to_owned());
            let (of_a, of_b) = (self.names.get(&a).copied(), self.names.get(&b).copied());
            let line = format!("{}\n", chance.below(1_000_000));
            match (chance.below(7), of_a) {
                (0, Some(file)) => {
                    let _ = write!(script, "echo {line} > {a}; ");
                    self.contents.insert(file, line.into_bytes());
                }
                (0 | 1, None) => {
                    let _ = write!(script, "echo {line} > {a}; ");
                    self.made += 1;
                    self.names.insert(a, self.made);
                    self.contents.insert(self.made, line.into_bytes());
                }
                (1 | 2, Some(file)) => {
                    let _ = write!(script, "echo {line} >> {a}; ");
                    self.contents.get_mut(&file).unwrap().extend(line.into_bytes());
                }
                (3, Some(_)) => {
                    let _ = write!(script, "rm {a}; ");
                    self.names.remove(&a);
                }
                // Renaming a file to another of its own names does nothing, or is an error.
                (4, Some(file)) if of_b != Some(file) => {
                    let _ = write!(script, "mv {a} {b}; ");
                    self.names.remove(&a);
                    self.names.insert(b, file);
                }
                (5, Some(file)) if of_b.is_none() => {
                    let _ = write!(script, "ln {a} {b}; ");
                    self.names.insert(b, file);
                }
                (6, _) => {
                    let seconds = chance.below(100) as u64;
                    let _ = write!(script, "sleep {seconds}; ");
                    self.slept_s += seconds;
                }
                _ => {}
            }
        }
        // A newline in an echoed line would end the command.
        script.replace("\n ", " ") + "date +%s"
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.names.iter().map(|(name, file)| (name.clone(), self.contents[file].clone())).collect()
    }
}

/// The sessions and snapshots of one task, and their expected states.
struct Task {
    backend: Arc<WasiBackend>,
    chance: Chance,
    sessions: Vec<(String, Model)>,
    snapshots: Vec<(String, Model)>,
}

impl Task {
    async fn run(mut self, sessions_max: usize, ops: usize) {
        for _ in 0..ops {
            self.step(sessions_max).await;
        }
        for (id, model) in std::mem::take(&mut self.sessions) {
            self.check(&id, &model).await;
            self.backend.terminate(&id).await.unwrap();
        }
        for (id, _) in &self.snapshots {
            self.backend.drop_snapshot(id).unwrap();
        }
    }

    async fn step(&mut self, sessions_max: usize) {
        if self.sessions.is_empty() {
            let id = self.backend.provision(SandboxSpec::default()).await.unwrap().id;
            return self.sessions.push((id, Model::default()));
        }
        let at = self.chance.below(self.sessions.len());
        let is_full = self.sessions.len() >= sessions_max;
        match self.chance.below(20) {
            0 if !is_full => {
                let id = self.backend.provision(SandboxSpec::default()).await.unwrap().id;
                self.sessions.push((id, Model::default()));
            }
            1..=2 => {
                let (id, model) = &self.sessions[at];
                let snapshot = self.backend.snapshot(id).await.unwrap();
                self.snapshots.push((snapshot, model.clone()));
                if self.snapshots.len() > sessions_max {
                    let first = self.snapshots.remove(0).0;
                    self.backend.drop_snapshot(&first).unwrap();
                }
            }
            3..=5 if !is_full && !self.snapshots.is_empty() => {
                let at = self.chance.below(self.snapshots.len());
                let (snapshot, model) = &self.snapshots[at];
                let id = self.backend.resume(snapshot).await.unwrap().id;
                self.sessions.push((id, model.clone()));
            }
            6 => self.attach(at).await,
            9 => self.allow(at).await,
            7..=8 => {
                let (id, model) = self.sessions.swap_remove(at);
                self.check(&id, &model).await;
                self.backend.terminate(&id).await.unwrap();
                let again = self.backend.terminate(&id).await;
                assert!(matches!(again, Err(SandboxError::Lifecycle { .. })), "{again:?}");
            }
            _ => self.exec(at).await,
        }
    }

    async fn attach(&mut self, at: usize) {
        let (id, model) = &mut self.sessions[at];
        let mount = |number: usize| SandboxMount {
            target: format!("/mnt/more{number}"),
            source: MountSource::Memory,
            access: FilesystemAccess::ReadWrite,
        };
        self.backend.attach_filesystem(id, mount(model.attached)).await.unwrap();
        let again = self.backend.attach_filesystem(id, mount(model.attached)).await;
        assert!(matches!(again, Err(SandboxError::Lifecycle { .. })), "{again:?}");
        model.attached += 1;
    }

    async fn allow(&mut self, at: usize) {
        let (id, model) = &mut self.sessions[at];
        model.allowed = (self.chance.below(3) > 0).then(|| 1 + self.chance.below(PORTS));
        let policy = match model.allowed {
            Some(port) => {
                EgressPolicy::default().allow(format!("127.0.0.1:{port}").parse().unwrap())
            }
            None => EgressPolicy::default(),
        };
        self.backend.apply_network_policy(id, policy).await.unwrap();
    }

    async fn exec(&mut self, at: usize) {
        let (id, model) = &mut self.sessions[at];
        let script = model.script(&mut self.chance);
        let result = self.backend.exec(id, ExecRequest::shell(&script)).await.unwrap();
        let printed = String::from_utf8_lossy(&result.stdout);
        assert_eq!(result.exit_code, 0, "{id}: {script}: {result:?}");
        let seconds: u64 = printed.trim_end().parse().unwrap();
        let earliest = START_S + model.slept_s;
        let latest = earliest + model.commands;
        assert!((earliest..=latest).contains(&seconds), "{seconds}: {id}: {script}");
    }

    async fn check(&self, id: &str, model: &Model) {
        let found = self.backend.with_session(id, |sandbox| {
            let names = sandbox.list("/tmp").unwrap();
            let mut read = |name: &str| sandbox.files().read(&format!("/tmp/{name}")).unwrap();
            let files: BTreeMap<_, _> =
                names.iter().map(|entry| (entry.name.clone(), read(&entry.name))).collect();
            let mounts = sandbox.list("/mnt").unwrap();
            let attached = mounts.iter().filter(|entry| entry.name.starts_with("more")).count();
            let mut may_connect = |port: &usize| {
                let url = format!("http://127.0.0.1:{port}/");
                let refused = sandbox.host_call("net.http", &serde_json::json!({ "url": url }));
                CONNECTS && !matches!(refused.unwrap_err(), HostError::EgressBlocked { .. })
            };
            let allowed: Vec<usize> = (1..=PORTS).filter(|port| may_connect(port)).collect();
            (files, attached, allowed)
        });
        let expected =
            (model.files(), model.attached, Vec::from_iter(model.allowed.filter(|_| CONNECTS)));
        assert_eq!(found.await.unwrap(), expected, "{id}");
    }
}

#[test]
fn sessions_on_many_threads_agree_with_a_model_and_leave_nothing() {
    let ops: usize =
        std::env::var("BELLJAR_TEST_SANDBOX_OPS").map_or(OPS, |text| text.parse().unwrap());
    let sessions_max = (ops / 100).max(10).div_ceil(THREADS);
    // Everything that is created only once is created before the first count.
    super::sh(
        &mut super::sandbox(SandboxSpec::default()),
        "echo x > /tmp/a; mv /tmp/a /tmp/b; date",
    );
    let backend = Arc::new(backend());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).build();
    runtime.unwrap().block_on(async {
        let task = |number: usize| Task {
            backend: backend.clone(),
            chance: Chance::new(number as u64),
            sessions: Vec::new(),
            snapshots: Vec::new(),
        };
        let tasks: Vec<_> = (0..THREADS)
            .map(|number| tokio::spawn(task(number).run(sessions_max, ops / THREADS)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(backend.session_ids(), [""; 0]);
}

/// Runs in its own process: other tests open files, start threads and allocate memory during the counts.
#[cfg(target_os = "linux")]
#[test]
fn sessions_leave_neither_descriptors_nor_threads_nor_memory() {
    const ALONE: &str = "BELLJAR_TEST_ALONE";
    const TEST: &str = "sandbox::model::sessions_leave_neither_descriptors_nor_threads_nor_memory";
    /// Far less than all rounds write together.
    const GROWTH_KB_MAX: usize = 16 << 10;
    const ROUNDS: usize = 5;
    if std::env::var_os(ALONE).is_none() {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let output = again.args(["--exact", TEST]).env(ALONE, "1").output().unwrap();
        let printed = crate::support::stdout(&output);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
        return;
    }
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    // Threads that have ended are counted for a moment.
    let counts = || {
        let now = || (count("fd"), count("task"));
        let (mut last, mut times) = (now(), 0);
        while times < 20 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let next = now();
            times = if next == last { times + 1 } else { 0 };
            last = next;
        }
        last
    };
    let resident_kb = || -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let host = tempfile::tempdir().unwrap();
    let round = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        runtime.unwrap().block_on(async {
            let backend = backend();
            for _ in 0..20 {
                let mounts = vec![SandboxMount {
                    target: "/work".into(),
                    source: MountSource::Host(host.path().into()),
                    access: FilesystemAccess::ReadWrite,
                }];
                let spec = SandboxSpec { mounts, ..SandboxSpec::default() };
                let id = backend.provision(spec).await.unwrap().id;
                let script = ExecRequest::shell("seq 50000 | sort > /work/list; cat /work/list");
                assert_eq!(backend.exec(&id, script).await.unwrap().exit_code, 0);
                let snapshot = backend.snapshot(&id).await.unwrap();
                let fork = backend.resume(&snapshot).await.unwrap().id;
                backend.terminate(&id).await.unwrap();
                backend.terminate(&fork).await.unwrap();
                backend.drop_snapshot(&snapshot).unwrap();
            }
        });
    };
    // Fills all caches before the first count.
    round();
    round();
    let before = counts();
    let memory = resident_kb();
    for _ in 0..ROUNDS {
        round();
    }
    assert_eq!(counts(), before);
    let grown_kb = resident_kb().saturating_sub(memory);
    assert!(grown_kb < GROWTH_KB_MAX, "{grown_kb} KiB more");
}
