//! Searches for programs, replayed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::engine::{MODULES_MAX, Program, RunError};
use crate::kernel::guest::{Guest, SpawnError};
use crate::kernel::process::programs::{Found, NeededTree, NotRunnable, Place, Programs};
use crate::kernel::process::schedule::{Ended, Image, Mode, Running};
use crate::kernel::vfs::{TapedLayer, TapedTree};
use crate::native::{NativeImage, TapedChildren};
use crate::process::ShellImage;
use crate::tape::{Kind, Launch, LaunchTree};
use crate::toolchain::ToolchainPrograms;

/// A result of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Answer {
    Nothing,
    /// A program that cannot run, and why.
    NotRunnable(String),
    Module(Digest),
    Shell,
    /// A native program, confined by this profile.
    Native(Option<String>),
}

/// Results of searches, in order.
#[derive(Default)]
pub(super) struct TapedFinds {
    answers: HashMap<(Place, String), VecDeque<(Answer, Launch)>>,
    /// A name of each module of a toolchain.
    names: HashMap<Digest, String>,
}

impl TapedFinds {
    /// Takes in a [`Kind::ProgramFind`]; ignores other kinds.
    ///
    /// # Errors
    /// What is wrong with the record.
    pub fn learn(&mut self, find: Kind) -> Result<(), String> {
        let Kind::ProgramFind { place, name, mode, profile, module_hash, launch, error, .. } = find
        else {
            return Ok(());
        };
        let place = Place::from_name(&place)
            .ok_or_else(|| format!("unknown place {place:?} of a search for a program"))?;
        let answer = match (error, mode.as_deref(), module_hash) {
            (Some(reason), ..) => Answer::NotRunnable(reason),
            (None, None, _) => Answer::Nothing,
            (None, Some("wasi"), Some(digest)) => Answer::Module(digest),
            (None, Some("builtin"), _) => Answer::Shell,
            (None, Some("native"), _) => Answer::Native(profile),
            (None, Some(mode), _) => {
                return Err(format!("invalid mode {mode:?} of the program {name:?}"));
            }
        };
        if let (Place::Toolchain, Answer::Module(digest)) = (place, &answer) {
            self.names.entry(*digest).or_insert_with(|| name.clone());
        }
        self.answers
            .entry((place, name))
            .or_default()
            .push_back((answer, launch.unwrap_or_default()));
        Ok(())
    }

    /// The modules of toolchains, each with a name.
    pub fn modules(&self) -> impl Iterator<Item = (Digest, &str)> {
        self.names.iter().map(|(digest, name)| (*digest, name.as_str()))
    }
}

/// The programs of a tape that has searches.
pub(super) struct FoundPrograms {
    /// The remaining results.
    finds: Mutex<TapedFinds>,
    /// Modules of toolchains that were started.
    programs: HashMap<Digest, Program>,
    /// Digests of all modules that were started.
    started: HashSet<Digest>,
    taped: Arc<TapedChildren>,
    /// Modules of the namespace, compiled once each.
    modules: ToolchainPrograms,
    /// What programs found below.
    tree: Arc<TapedTree>,
}

impl FoundPrograms {
    pub fn new(
        finds: TapedFinds,
        programs: HashMap<Digest, Program>,
        started: HashSet<Digest>,
        taped: Arc<TapedChildren>,
        modules: ToolchainPrograms,
        tree: Arc<TapedTree>,
    ) -> Self {
        Self { finds: Mutex::new(finds), programs, started, taped, modules, tree }
    }

    /// The next result; `None` if the tape has none: then the run has diverged.
    fn next(&self, place: Place, name: &str) -> Option<(Answer, Launch)> {
        let mut finds = self.finds.lock().unwrap_or_else(PoisonError::into_inner);
        finds.answers.get_mut(&(place, name.to_owned()))?.pop_front()
    }

    fn found(&self, place: Place, name: &str) -> Result<Option<Found>, NotRunnable> {
        let Some((answer, launch)) = self.next(place, name) else { return Ok(None) };
        let found = match answer {
            Answer::Nothing => return Ok(None),
            Answer::NotRunnable(reason) => return Err(NotRunnable(reason)),
            Answer::Shell => ShellImage::new().found(),
            Answer::Native(profile) => {
                NativeImage::taped(name, profile, Arc::clone(&self.taped)).found()
            }
            Answer::Module(digest) => match self.programs.get(&digest) {
                Some(program) => program.clone().found(),
                None => never_started(name, digest),
            },
        };
        let trees = taped_trees(&self.tree, &launch.trees);
        Ok(Some(Found { launch, trees, ..found }))
    }
}

impl Programs for FoundPrograms {
    fn named(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        self.found(Place::Toolchain, name)
    }

    fn module(&self, path: &str, bytes: Vec<u8>) -> Result<Found, NotRunnable> {
        match self.next(Place::File, path) {
            Some((Answer::NotRunnable(reason), _)) => Err(NotRunnable(reason)),
            Some((Answer::Module(digest), _)) if !self.started.contains(&digest) => {
                Ok(never_started(path, digest))
            }
            _ => self.modules.module(path, bytes),
        }
    }

    fn missing(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        self.found(Place::Substitute, name)
    }
}

/// The trees of a toolchain as they were on the tape.
pub(super) fn taped_trees(tree: &Arc<TapedTree>, trees: &[LaunchTree]) -> Vec<NeededTree> {
    let needed = |LaunchTree { path, exact_names }: &LaunchTree| NeededTree {
        at: path.clone(),
        layer: Arc::new(TapedLayer::new(tree.clone(), path, *exact_names)),
    };
    trees.iter().map(needed).collect()
}

/// The programs of a tape before 1.4, which has starts but no searches.
pub(super) struct StartedPrograms {
    pub by_name: HashMap<String, Program>,
    pub has_shell: bool,
    pub natives: HashMap<String, Option<String>>,
    pub taped: Arc<TapedChildren>,
    pub modules: ToolchainPrograms,
}

impl Programs for StartedPrograms {
    fn named(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        let program = self.by_name.get(name).cloned().map(Program::found);
        let is_shell = name == "sh" && self.has_shell;
        Ok(program.or_else(|| is_shell.then(|| ShellImage::new().found())))
    }

    fn module(&self, path: &str, bytes: Vec<u8>) -> Result<Found, NotRunnable> {
        self.modules.module(path, bytes)
    }

    fn missing(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        let native = |profile: &Option<String>| {
            NativeImage::taped(name, profile.clone(), Arc::clone(&self.taped)).found()
        };
        Ok(self.natives.get(name).map(native))
    }
}

/// Stands for a module that was found and not started: a replay does not need it.
fn never_started(name: &str, digest: Digest) -> Found {
    Found { digest: Some(digest), ..Found::built_in(Box::new(NeverStarted(name.to_owned()))) }
}

struct NeverStarted(String);

impl Image for NeverStarted {
    fn name(&self) -> &str {
        &self.0
    }

    fn mode(&self) -> Mode {
        Mode::Module
    }

    fn live_max(&self) -> Option<u32> {
        Some(MODULES_MAX)
    }

    fn start(self: Box<Self>, guest: Guest) -> Running {
        let reason = "it was not started when the tape was recorded".to_owned();
        let error = SpawnError { program: self.0, errno: Errno::Noexec, reason };
        Box::pin(async { Ended { guest, outcome: Err(RunError::Spawn(error)) } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(place: &str, mode: Option<&str>, error: Option<&str>) -> Kind {
        Kind::ProgramFind {
            pid: 1,
            place: place.to_owned(),
            name: "x".to_owned(),
            mode: mode.map(str::to_owned),
            profile: None,
            module_hash: Some(Digest::of(b"x")),
            launch: None,
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn program_searches_replay_by_place_and_order() {
        let mut finds = TapedFinds::default();
        for kind in [
            find("toolchain", None, None),
            find("toolchain", Some("wasi"), None),
            find("file", None, Some("no module")),
        ] {
            finds.learn(kind).unwrap();
        }
        let digest = Digest::of(b"x");
        assert_eq!(finds.modules().collect::<Vec<_>>(), [(digest, "x")]);
        let answers = |place| {
            let answers = finds.answers[&(place, "x".to_owned())].iter();
            answers.map(|(answer, _)| answer.clone()).collect::<Vec<_>>()
        };
        assert_eq!(answers(Place::Toolchain), [Answer::Nothing, Answer::Module(digest)]);
        assert_eq!(answers(Place::File), [Answer::NotRunnable("no module".to_owned())]);
    }

    #[test]
    fn invalid_program_searches_are_refused() {
        let mut finds = TapedFinds::default();
        for kind in [find("attic", None, None), find("toolchain", Some("x"), None)] {
            assert!(finds.learn(kind).is_err());
        }
    }
}
