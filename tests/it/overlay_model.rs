//! Compares the overlay with a model: the same operations must give the same answers and the same
//! final tree.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use belljar::Cas;
use belljar::kernel::vfs::Metadata;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tempfile::TempDir;

use crate::support::files::{Answer, Files, MemoryLayer, Outcome, OverlayFiles, Tree};
use crate::support::model::Model;
use crate::support::plans::{Hunt, NOW, Op, Plan, Tally, plant};

/// The store of saved overlays, shared by all tests of this file.
static STORE: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// Limit on forks: more would only make plans slow.
const WORLDS_MAX: usize = 4;

/// One fork of the overlay, and the model that it is compared with.
#[derive(Clone)]
struct World {
    overlay: OverlayFiles,
    model: Model,
    pairs: Pairs,
}

/// Pairs of inodes of the overlay and of the model. Neither side reuses a number, so a pair holds
/// to the end.
#[derive(Clone, Default)]
struct Pairs {
    of_overlay: HashMap<u64, u64>,
    of_model: HashMap<u64, u64>,
}

impl Pairs {
    /// The model's number for the inode `ino` of the overlay; `u64::MAX` if `ino` is not the inode
    /// `model`.
    fn name(&mut self, ino: u64, model: u64) -> u64 {
        let of_model = *self.of_model.entry(model).or_insert(ino);
        let of_overlay = *self.of_overlay.entry(ino).or_insert(model);
        if of_model == ino { of_overlay } else { u64::MAX }
    }

    fn rename_meta(&mut self, meta: &mut Metadata, model: &Metadata) {
        meta.ino = self.name(meta.ino, model.ino);
    }

    /// Replaces the inode numbers in the overlay's answer by those of the model.
    fn rename(&mut self, answer: &mut Answer, model: &Answer) {
        match (answer, model) {
            (Answer::Meta(meta), Answer::Meta(model)) => self.rename_meta(meta, model),
            (Answer::Entries(entries), Answer::Entries(model)) => {
                for (entry, model) in entries.iter_mut().zip(model) {
                    entry.1 = self.name(entry.1, model.1);
                }
            }
            _ => {}
        }
    }

    fn rename_tree(&mut self, tree: &mut Tree, model: &Tree) {
        for (path, (meta, held)) in tree {
            if let Some((model_meta, model_held)) = model.get(path) {
                self.rename_meta(meta, model_meta);
                self.rename(held, model_held);
            }
        }
    }
}

impl World {
    fn step(&mut self, op: &Op, now: u64) -> Result<Outcome, String> {
        let expected = self.model.apply(op, now);
        let mut got = self.overlay.apply(op, now);
        if let (Ok(got), Ok(expected)) = (&mut got, &expected) {
            self.pairs.rename(got, expected);
        }
        if got == expected {
            return Ok(got);
        }
        Err(format!("{op:?}\n  expected {expected:?}\n  got      {got:?}"))
    }

    /// Compares the final trees, also after the overlay was saved and restored over `fresh` layers.
    fn end(&mut self, mut fresh: OverlayFiles) -> Result<(), String> {
        let cas = Cas::new(STORE.path());
        let mut fork = self.overlay.clone();
        fork.hand_over_to(&mut fresh, &cas).map_err(|error| error.to_string())?;
        let mut expected = self.model.dump();
        let got = self.overlay.dump();
        self.compare(got, &expected)?;
        // Open files are not saved.
        expected.retain(|path, _| !path.starts_with('#'));
        self.compare(fresh.dump(), &expected).map_err(|error| format!("restored, {error}"))?;
        fresh.empty();
        self.overlay.empty();
        Ok(())
    }

    fn compare(&mut self, mut got: Tree, expected: &Tree) -> Result<(), String> {
        self.pairs.rename_tree(&mut got, expected);
        let all = expected.keys().chain(got.keys());
        if let Some(path) = all.into_iter().find(|path| expected.get(*path) != got.get(*path)) {
            let (expected, got) = (expected.get(path), got.get(path));
            return Err(format!("in the end, {path:?}\n  expected {expected:?}\n  got {got:?}"));
        }
        Ok(())
    }
}

fn run(plan: &Plan) -> Result<Tally, String> {
    let layers: Vec<_> = plan.layers.iter().map(|sown| plant(sown, plan.folds)).collect();
    let model = Model::new(&layers, plan.own_times);
    let layer = |tree: &_| MemoryLayer { tree: Clone::clone(tree), folds: plan.folds };
    let over =
        || OverlayFiles::over(layers.iter().map(layer).collect(), plan.own_times, plan.caches);
    let mut worlds = vec![World { overlay: over(), model, pairs: Pairs::default() }];
    let mut tally = Tally::default();
    for (at, step) in plan.steps.iter().enumerate() {
        let index = step.world % worlds.len();
        if step.op == Op::Fork && worlds.len() < WORLDS_MAX {
            worlds.push(worlds[index].clone());
        }
        let answer = worlds[index]
            .step(&step.op, NOW + at as u64)
            .map_err(|error| format!("step {at}, world {index}: {error}"))?;
        tally.count(&step.op, answer.err().map_or("ok", |errno| errno.name()));
    }
    for (index, world) in worlds.iter_mut().enumerate() {
        world.end(over()).map_err(|error| format!("world {index}: {error}"))?;
    }
    Ok(tally)
}

/// A panic of the overlay is a failure, so that its plan is reduced like others.
fn check(plan: &Plan) -> Result<Tally, String> {
    catch_unwind(AssertUnwindSafe(|| run(plan))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panic: {}", text.or(panic.downcast_ref().copied()).unwrap_or("?")))
    })
}

#[test]
fn overlay_agrees_with_the_model_over_one_layer() {
    let layers = |_: &mut _| 1;
    Hunt { name: "model, one layer", ops: 100_000, ops_per_plan: 150, layers }.run(check);
}

#[test]
fn overlay_agrees_with_the_model_over_merged_layers() {
    let hunt = Hunt {
        name: "model, merged layers",
        ops: 100_000,
        ops_per_plan: 150,
        layers: |chance| 2 + chance.below(2),
    };
    hunt.run(check);
}

#[test]
fn overlay_agrees_with_the_model_without_layers() {
    let layers = |_: &mut _| 0;
    Hunt { name: "model, no layer", ops: 20_000, ops_per_plan: 150, layers }.run(check);
}

#[test]
fn overlay_agrees_with_the_model_in_proptest_plans() {
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let plans = Plan::strategy(2);
    let outcome = TestRunner::new_with_rng(config, rng)
        .run(&plans, |plan| check(&plan).map(|_| ()).map_err(TestCaseError::fail));
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
