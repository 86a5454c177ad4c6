//! Plans: sequences of file-system operations, drawn from a seed, over so few names that they
//! collide; and the reduction of a plan that fails.
//!
//! Every step is drawn from a seed of its own, so that leaving one out does not change the others.

use std::collections::BTreeMap;
use std::fmt;

use belljar::kernel::vfs::{Follow, OpenFlags, SYMLOOP_MAX, SetTime};
use proptest::prelude::*;

/// Open descriptions that a plan can hold at a time.
pub const SLOTS: usize = 3;

/// The size of the chunks in which contents are stored; large offsets of a plan are near multiples
/// of half of it.
const CHUNK: u64 = 2 << 20;

/// Times before this one were set by a plan or a starting tree; `now` is always later.
pub const NOW: u64 = 1_700_000_000_000_000_000;

/// A path, and what it is relative to.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// The open description that holds the directory; `None` is the root.
    pub slot: Option<usize>,
    /// The open description that holds the directory which the lookup may not leave.
    pub root: Option<usize>,
    pub path: String,
}

/// One operation. Writes are filled with [`pattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Open { slot: usize, at: Place, flags: OpenFlags },
    Close { slot: usize },
    Write { slot: usize, offset: u64, len: usize, first: u8 },
    Append { slot: usize, len: usize, first: u8 },
    Read { slot: usize, offset: u64, len: usize },
    SetLen { slot: usize, len: u64 },
    Allocate { slot: usize, offset: u64, len: u64 },
    List { slot: usize },
    StatOpen { slot: usize },
    SetTimesOpen { slot: usize, atim: SetTime, mtim: SetTime },
    Stat { at: Place, follow: Follow },
    SetTimes { at: Place, follow: Follow, atim: SetTime, mtim: SetTime },
    SetExecutable { at: Place, follow: Follow, executable: bool },
    IsExecutable { at: Place, follow: Follow },
    Mkdir { at: Place },
    Rmdir { at: Place },
    Unlink { at: Place },
    Rename { from: Place, to: Place },
    Link { from: Place, follow: Follow, to: Place },
    Symlink { text: String, at: Place },
    ReadLink { at: Place },
    Fork,
}

/// An operation, and the number of the fork that it is for, modulo the number of forks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub world: usize,
    pub op: Op,
}

/// An entry of a starting tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sown {
    pub path: String,
    pub what: What,
    pub mtime: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Dir,
    File {
        len: usize,
        first: u8,
    },
    Link(String),
    /// A FIFO if the tree is on a real file system.
    Special,
}

/// The layers of an overlay, and the operations on it.
#[derive(Clone, PartialEq, Eq)]
pub struct Plan {
    /// Starting trees, the uppermost first.
    pub layers: Vec<Vec<Sown>>,
    /// Whether the layers find names regardless of case.
    pub folds: bool,
    /// Whether unchanged content may be kept in memory.
    pub caches: bool,
    /// Whether the layers show their own times, rather than one time for all.
    pub own_times: bool,
    pub steps: Vec<Step>,
}

/// `SplitMix64`: small, and the same in every version.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound as u64) as usize
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn byte(&mut self) -> u8 {
        self.draw() as u8
    }
}

/// The bytes of a write: neighbours differ, so that a shift is detected.
pub fn pattern(first: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| first.wrapping_add((i * 37 + i / 256) as u8)).collect()
}

/// The kind of plan for which a step is drawn.
#[derive(Clone, Copy, Default)]
pub struct Flavor {
    /// Uses far offsets, too, which take time.
    pub large: bool,
    /// Uses even fewer names.
    pub few: bool,
    /// Uses paths through a [`chain`] of links.
    pub chained: bool,
}

fn name(chance: &mut Chance, flavor: Flavor) -> String {
    match chance.below(1000) {
        _ if flavor.few && chance.percent(80) => ["a", "d"][chance.below(2)].into(),
        0..300 => "a".into(),
        300..480 => "b".into(),
        480..560 => "c".into(),
        560..780 => "d".into(),
        780..890 => "l".into(),
        890..910 => "A".into(),
        910..940 => ".".into(),
        940..985 => "..".into(),
        985..990 => String::new(),
        990..995 => "n".repeat(255),
        _ => "n".repeat(256),
    }
}

fn path(chance: &mut Chance, flavor: Flavor) -> String {
    if chance.below(200) == 0 {
        return ["", "/", "//", ".", ".."][chance.below(5)].into();
    }
    if flavor.chained && chance.percent(5) {
        return ["k/0", "k/1", "k/1/", "k/2/a"][chance.below(4)].into();
    }
    let depth = [1, 1, 1, 1, 2, 2, 2, 3, 3, 4][chance.below(10)];
    let mut path = (0..depth).map(|_| name(chance, flavor)).collect::<Vec<_>>().join("/");
    match chance.below(100) {
        0..8 => path.push('/'),
        8 => path.push_str("//"),
        9 => path.insert(0, '/'),
        _ => {}
    }
    path
}

fn link_text(chance: &mut Chance, flavor: Flavor) -> String {
    // Short names, so that a path that links keep expanding fails with `ELOOP` and not by its
    // length, whose limit POSIX leaves to the system.
    let path = path(chance, flavor).replace("nn", "");
    match chance.below(20) {
        0 => String::new(),
        1..5 => format!("/{path}"),
        5..8 => format!("../{path}"),
        _ => path,
    }
}

/// Mostly the root of all, sometimes the directory itself, rarely another.
fn root(chance: &mut Chance, slot: Option<usize>) -> Option<usize> {
    match chance.below(20) {
        0..6 => slot,
        6 => Some(chance.below(SLOTS)),
        _ => None,
    }
}

fn place(chance: &mut Chance, flavor: Flavor) -> Place {
    let slot = chance.percent(20).then(|| chance.below(SLOTS));
    Place { slot, root: root(chance, slot), path: path(chance, flavor) }
}

fn open_flags(chance: &mut Chance) -> OpenFlags {
    let create = chance.percent(45);
    OpenFlags {
        create,
        exclusive: chance.percent(12),
        truncate: chance.percent(15),
        directory: chance.percent(if create { 4 } else { 40 }),
        follow: chance.percent(75),
        write: chance.percent(if create { 85 } else { 35 }),
    }
}

/// A length or offset. Large ones are for plans that can afford them.
fn amount(chance: &mut Chance, flavor: Flavor) -> u64 {
    if flavor.large && chance.percent(30) {
        let anchor = [CHUNK / 2, CHUNK, CHUNK * 2, CHUNK * 2 + CHUNK / 2][chance.below(4)];
        return anchor + chance.below(5) as u64 - 2;
    }
    let far = [0, 0, 0, 0, 40, 4096][chance.below(6)];
    (far + chance.below(20)) as u64
}

fn set_time(chance: &mut Chance) -> SetTime {
    match chance.below(4) {
        0 => SetTime::Keep,
        1 => SetTime::Now,
        _ => SetTime::At(chance.draw() % (NOW / 2)),
    }
}

impl Op {
    /// The paths of the operation.
    pub fn places(&self) -> Vec<&Place> {
        match self {
            Self::Open { at, .. }
            | Self::Stat { at, .. }
            | Self::SetTimes { at, .. }
            | Self::SetExecutable { at, .. }
            | Self::IsExecutable { at, .. }
            | Self::Mkdir { at }
            | Self::Rmdir { at }
            | Self::Unlink { at }
            | Self::Symlink { at, .. }
            | Self::ReadLink { at } => vec![at],
            Self::Rename { from, to } | Self::Link { from, to, .. } => vec![from, to],
            _ => Vec::new(),
        }
    }

    /// The open descriptions that the paths refer to.
    pub fn bases(&self) -> impl Iterator<Item = usize> {
        self.places().into_iter().flat_map(|place| [place.slot, place.root]).flatten()
    }
}

impl Step {
    pub fn draw(seed: u64, f: Flavor) -> Self {
        let c = &mut Chance::new(seed);
        let follow = |c: &mut Chance| if c.percent(60) { Follow::Yes } else { Follow::No };
        let world = c.below(6);
        let slot = c.below(SLOTS);
        let op = match c.below(212) {
            0..52 => Op::Open { slot, at: place(c, f), flags: open_flags(c) },
            52..56 => Op::Close { slot },
            56..72 => {
                let long = Flavor { large: f.large && c.percent(30), ..f };
                let len = amount(c, long) as usize;
                Op::Write { slot, offset: amount(c, f), len, first: c.byte() }
            }
            72..77 => {
                Op::Append { slot, len: amount(c, Flavor::default()) as usize, first: c.byte() }
            }
            77..89 => Op::Read { slot, offset: amount(c, f), len: amount(c, f) as usize },
            89..98 => Op::SetLen { slot, len: amount(c, f) },
            98..102 => Op::Allocate { slot, offset: amount(c, f), len: amount(c, f) },
            102..110 => Op::List { slot },
            110..116 => Op::StatOpen { slot },
            116..119 => Op::SetTimesOpen { slot, atim: set_time(c), mtim: set_time(c) },
            119..134 => Op::Stat { at: place(c, f), follow: follow(c) },
            134..138 => {
                let (at, follow) = (place(c, f), follow(c));
                Op::SetTimes { at, follow, atim: set_time(c), mtim: set_time(c) }
            }
            138..150 => Op::Mkdir { at: place(c, f) },
            150..157 => Op::Rmdir { at: place(c, f) },
            157..165 => Op::Unlink { at: place(c, f) },
            165..181 => Op::Rename { from: place(c, f), to: place(c, f) },
            181..188 => Op::Link { from: place(c, f), follow: follow(c), to: place(c, f) },
            188..196 => Op::Symlink { text: link_text(c, f), at: place(c, f) },
            196..199 => Op::ReadLink { at: place(c, f) },
            199..206 => {
                let (at, follow, executable) = (place(c, f), follow(c), c.percent(60));
                Op::SetExecutable { at, follow, executable }
            }
            206..211 => Op::IsExecutable { at: place(c, f), follow: follow(c) },
            _ => Op::Fork,
        };
        Self { world, op }
    }
}

/// Draws a step, or sometimes several that belong together: single steps rarely keep a file open
/// after its name is removed, or move a directory that is in use.
fn draw_steps(seed: u64, f: Flavor) -> Vec<Step> {
    let c = &mut Chance::new(!seed);
    let (world, slot, at) = (c.below(6), c.below(SLOTS), place(c, f));
    let dir = OpenFlags { directory: true, follow: true, ..OpenFlags::default() };
    let file = OpenFlags { create: true, write: true, follow: true, ..OpenFlags::default() };
    let mut inside = || Place { slot: Some(slot), root: root(c, Some(slot)), path: path(c, f) };
    let mut then = vec![Op::Stat { at: inside(), follow: Follow::Yes }, Op::List { slot }];
    then.extend([Op::Mkdir { at: inside() }, Op::Open { slot: 0, at: inside(), flags: file }]);
    then.extend([Op::Link { from: inside(), follow: Follow::No, to: inside() }]);
    then.extend([Op::Rename { from: inside(), to: inside() }, Op::StatOpen { slot }]);
    let mut ops = match c.below(60) {
        0 => vec![
            Op::Mkdir { at: at.clone() },
            Op::Open { slot, at: at.clone(), flags: dir },
            Op::Rmdir { at },
        ],
        1 => vec![
            Op::Open { slot, at: at.clone(), flags: dir },
            Op::Rename { from: at, to: place(c, f) },
        ],
        2 => vec![
            Op::Open { slot, at: at.clone(), flags: file },
            Op::Write { slot, offset: amount(c, f), len: 9, first: c.byte() },
            if c.percent(50) {
                Op::Unlink { at }
            } else {
                Op::Rename { from: place(c, f), to: at }
            },
            Op::Append { slot, len: 5, first: c.byte() },
            Op::Read { slot, offset: 0, len: 99 },
        ],
        _ => return vec![Step::draw(seed, f)],
    };
    ops.extend(then.into_iter().filter(|_| c.percent(30)));
    ops.into_iter().map(|op| Step { world, op }).collect()
}

impl Sown {
    pub fn draw(seed: u64, f: Flavor) -> Self {
        let c = &mut Chance::new(seed);
        let depth = 1 + c.below(3);
        let known: &[&str] = if f.few { &["a", "d"] } else { &["a", "b", "c", "d", "d", "l", "A"] };
        let names = (0..depth).map(|_| known[c.below(known.len())]);
        let path = names.collect::<Vec<_>>().join("/");
        let what = match c.below(20) {
            0..6 => What::Dir,
            6..15 => {
                let len = if c.percent(20) { 0 } else { amount(c, f) as usize };
                What::File { len, first: c.byte() }
            }
            15..19 => What::Link(link_text(c, f)).non_empty(),
            _ => What::Special,
        };
        Self { path, what, mtime: c.draw() % (NOW / 2) }
    }
}

impl What {
    /// Hosts do not create a link with an empty text.
    fn non_empty(self) -> Self {
        match self {
            Self::Link(text) if text.is_empty() => Self::Link(".".into()),
            other => other,
        }
    }
}

/// The tree of `sown`, by path: missing parents are added, and an entry that conflicts with another
/// is left out. The root is the empty path.
pub fn plant(sown: &[Sown], folds: bool) -> BTreeMap<String, Sown> {
    let fold = |path: &str| if folds { path.to_lowercase() } else { path.to_owned() };
    // Each tree has its own times, so that the times of merged directories can be distinguished.
    let mtime = 1_000_000_000 + sown.len() as u64;
    let dir = |path: &str| Sown { path: path.into(), what: What::Dir, mtime };
    let mut tree = BTreeMap::from([(String::new(), dir(""))]);
    for entry in sown {
        let parents = entry.path.match_indices('/').map(|(at, _)| &entry.path[..at]);
        let parents = parents.collect::<Vec<_>>();
        let is_blocked = tree.contains_key(&entry.path)
            || parents.iter().any(|p| tree.get(*p).is_some_and(|sown| sown.what != What::Dir))
            || tree.keys().any(|known| {
                let clashes = |path: &str| path != known && fold(path) == fold(known);
                clashes(&entry.path) || parents.iter().any(|parent| clashes(parent))
            });
        if !is_blocked {
            for parent in parents {
                tree.entry(parent.into()).or_insert_with(|| dir(parent));
            }
            tree.insert(entry.path.clone(), entry.clone());
        }
    }
    tree
}

/// A chain of symbolic links from `k/0`, one longer than a lookup follows.
fn chain() -> Vec<Sown> {
    let link = |at: u32| {
        let text = if at == SYMLOOP_MAX { "../a".into() } else { (at + 1).to_string() };
        Sown { path: format!("k/{at}"), what: What::Link(text), mtime: 1_000_000_009 }
    };
    (0..=SYMLOOP_MAX).map(link).collect()
}

impl Plan {
    /// Draws a plan of `len` steps over `layers` starting trees.
    pub fn draw(seed: u64, layers: usize, len: usize) -> Self {
        let mut c = Chance::new(seed);
        let (large, few, chained) = (c.below(24) == 0, c.percent(40), c.below(16) == 0);
        let flavor = Flavor { large, few, chained };
        let folds = layers > 0 && c.below(6) == 0;
        let (caches, own_times) = (!c.percent(25), c.percent(50));
        let mut layer = |_| {
            let bound = [4, 20][c.below(2)];
            let count = c.below(bound);
            (0..count).map(|_| Sown::draw(c.draw(), flavor)).collect()
        };
        let mut layers = (0..layers).map(&mut layer).collect::<Vec<Vec<Sown>>>();
        if let (true, Some(top)) = (chained, layers.first_mut()) {
            top.extend(chain());
        }
        let steps = (0..len).flat_map(|_| draw_steps(c.draw(), flavor)).take(len).collect();
        Self { layers, folds, caches, own_times, steps }
    }

    /// Plans for proptest, which makes them smaller by leaving entries and steps out.
    pub fn strategy(layers: usize) -> impl Strategy<Value = Self> {
        let seeds = |max| proptest::collection::vec(any::<u64>().no_shrink(), 0..max);
        let trees = proptest::collection::vec(seeds(16), layers);
        let flags = any::<[bool; 4]>().no_shrink();
        (trees, seeds(160), flags).prop_map(|(trees, steps, [folds, caches, own_times, few])| {
            let flavor = Flavor { few, ..Flavor::default() };
            let sown = |seed: &u64| Sown::draw(*seed, flavor);
            let layers = trees.iter().map(|seeds| seeds.iter().map(sown).collect()).collect();
            let steps = steps.iter().flat_map(|seed| draw_steps(*seed, flavor)).collect();
            Self { layers, folds, caches, own_times, steps }
        })
    }

    /// Reduces a failing plan: leaves out steps and entries, first many at a time, then one by one.
    pub fn reduce(mut self, fails: impl Fn(&Self) -> bool) -> Self {
        loop {
            let before = (self.steps.len(), self.layers.iter().map(Vec::len).sum::<usize>());
            let steps = std::mem::take(&mut self.steps);
            self.steps = reduce_list(steps, |steps| fails(&Self { steps, ..self.clone() }));
            for index in 0..self.layers.len() {
                let entries = std::mem::take(&mut self.layers[index]);
                self.layers[index] = reduce_list(entries, |entries| {
                    let mut smaller = self.clone();
                    smaller.layers[index] = entries;
                    fails(&smaller)
                });
            }
            if before == (self.steps.len(), self.layers.iter().map(Vec::len).sum()) {
                return self;
            }
        }
    }
}

fn reduce_list<T: Clone>(mut list: Vec<T>, fails: impl Fn(Vec<T>) -> bool) -> Vec<T> {
    let mut piece = list.len().div_ceil(2);
    while piece > 0 && !list.is_empty() {
        let mut at = 0;
        while at < list.len() {
            let mut rest = list.clone();
            rest.drain(at..(at + piece).min(list.len()));
            if fails(rest.clone()) {
                list = rest;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    list
}

/// The parameters of a run of many plans.
pub struct Hunt {
    pub name: &'static str,
    /// Operations in all, unless `BELLJAR_TEST_OPS` says otherwise.
    pub ops: usize,
    pub ops_per_plan: usize,
    pub layers: fn(&mut Chance) -> usize,
}

impl Hunt {
    /// Runs plans until the operations are used up. `BELLJAR_TEST_SEED` is the seed of the first
    /// plan; each further plan has the next one.
    ///
    /// # Panics
    /// If a plan fails, with its seed and the reduced plan.
    pub fn run(&self, check: impl Fn(&Plan) -> Result<Tally, String>) {
        let number = |name: &str, default: u64| match std::env::var(name) {
            Ok(text) => text.replace('_', "").parse().expect(name),
            Err(_) => default,
        };
        let ops = number("BELLJAR_TEST_OPS", self.ops as u64);
        let first = number("BELLJAR_TEST_SEED", 1);
        let plans = ops.div_ceil(self.ops_per_plan as u64);
        let mut tally = Tally::default();
        for seed in first..first + plans {
            let layers = (self.layers)(&mut Chance::new(seed));
            let plan = Plan::draw(seed, layers, self.ops_per_plan);
            if let Ok(more) = check(&plan) {
                tally.add(&more);
                continue;
            }
            let small = plan.reduce(|plan| check(plan).is_err());
            let why = check(&small).expect_err("reduced to a plan that fails");
            panic!("{}: BELLJAR_TEST_SEED={seed}\n{small:?}{why}", self.name);
        }
        let last = first + plans - 1;
        println!("{}: {ops} operations in plans of seeds {first}..={last}\n{tally}", self.name);
    }
}

/// Counts of operations by kind and answer.
#[derive(Default, Debug)]
pub struct Tally(BTreeMap<(String, String), u64>);

impl Tally {
    pub fn count(&mut self, op: &Op, answer: &str) {
        let kind = format!("{op:?}");
        let kind = kind.split([' ', '{']).next().unwrap_or_default().to_owned();
        *self.0.entry((kind, answer.to_owned())).or_default() += 1;
    }

    fn add(&mut self, other: &Self) {
        for (key, count) in &other.0 {
            *self.0.entry(key.clone()).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((kind, answer), count) in &self.0 {
            kinds.entry(kind).or_default().push(format!("{answer} {count}"));
        }
        kinds.iter().try_for_each(|(kind, answers)| writeln!(f, "  {kind}: {}", answers.join(", ")))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(slot) = self.slot {
            write!(f, "#{slot}:")?;
        }
        if let Some(root) = self.root {
            write!(f, "(in #{root})")?;
        }
        fmt::Debug::fmt(&self.path, f)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folds, caches, own_times, .. } = self;
        writeln!(f, "folds: {folds}, caches: {caches}, own_times: {own_times}")?;
        for (index, layer) in self.layers.iter().enumerate() {
            layer.iter().try_for_each(|sown| writeln!(f, "layer {index}: {sown:?}"))?;
        }
        self.steps
            .iter()
            .enumerate()
            .try_for_each(|(at, step)| writeln!(f, "{at}: world {} {:?}", step.world, step.op))
    }
}
