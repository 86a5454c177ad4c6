//! Random edits between random decisions of tools. The edits determine each decision: a file written or touched since
//! it was last examined has changed, and its targets must be made again.

use super::Place;

/// A source of random numbers, determined by its seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Records the time and length of a file, as Python and git do, and prints whether they are the same as before.
const NOTE: &str = r#"note() {
    is="$(date -r $1 +%s) $(wc -c < $1)"
    if [ -f $1.note ] && [ "$is" = "$(cat $1.note)" ]; then echo same; else echo changed; fi
    echo "$is" > $1.note
}
"#;

#[derive(Default)]
struct Model {
    is_made: bool,
    /// For `a` and `b`: changed since the last `note`.
    changed: [bool; 2],
    noted: [bool; 2],
}

impl Model {
    /// A command, and what it must print.
    fn step(&mut self, chance: &mut Chance) -> (String, String) {
        let file = chance.below(2) as usize;
        let (name, digit) = (["a", "b"][file], chance.below(10));
        let edit = |model: &mut Self, command: String| {
            model.is_made = false;
            model.changed[file] = true;
            (command, String::new())
        };
        match chance.below(9) {
            0 => edit(self, format!("echo {digit} > {name}")),
            1 => edit(self, format!("echo {digit} > new; mv new {name}")),
            2 => edit(self, format!("rm {name}; echo {digit} > {name}")),
            3 => edit(self, format!("touch {name}")),
            4 => edit(self, format!("echo {digit} > other; true; cp other {name}")),
            5 | 6 => {
                let is_same = self.noted[file] && !self.changed[file];
                (self.noted[file], self.changed[file]) = (true, false);
                (format!("note {name}"), if is_same { "same\n" } else { "changed\n" }.to_owned())
            }
            _ => {
                let made = if self.is_made { "" } else { "mid\nout\n" };
                self.is_made = true;
                // If there is nothing to do, minimake prints a message.
                ("minimake | grep -v minimake".to_owned(), made.to_owned())
            }
        }
    }
}

fn sequences() -> u64 {
    std::env::var("BELLJAR_TEST_TIME_SEQUENCES").map_or(12, |count| count.parse().unwrap())
}

fn steps(number: u64, count: usize) -> Vec<(String, String)> {
    let (mut model, mut chance) = (Model::default(), Chance(number));
    (0..count).map(|_| model.step(&mut chance)).collect()
}

#[test]
fn tools_detect_changes_in_one_script() {
    for number in 0..sequences() {
        let steps = steps(number, 40);
        let asked = steps.iter().map(|(command, _)| format!("echo '{command}'\n{command}\n"));
        let script = format!("{NOTE}{}true", asked.collect::<Vec<_>>().concat());
        let told = steps.iter().map(|(command, printed)| format!("{command}\n{printed}"));
        let expected = told.collect::<Vec<_>>().concat();
        let printed = Place::to_make().printed(&script);
        assert_eq!(printed, expected, "sequence {number}");
    }
}

#[test]
fn tools_detect_changes_between_execs() {
    for number in 0..sequences().div_ceil(4) {
        let place = Place::to_make();
        let session = place.session();
        for (at, (command, printed)) in steps(1000 + number, 25).into_iter().enumerate() {
            let is = session.exec(&format!("{NOTE}{command}; true"));
            assert_eq!(is, printed, "sequence {number}, step {at}: {command}");
        }
    }
}

/// Only make is tested, which compares fractions of a second: runs follow each other faster here than by
/// hand.
#[test]
fn tools_detect_changes_between_runs() {
    for number in 0..sequences().div_ceil(4) {
        let place = Place::to_make();
        let steps = steps(2000 + number, 25).into_iter();
        for (at, (command, printed)) in steps.filter(|(it, _)| !it.starts_with("note")).enumerate()
        {
            let is = place.applied(&format!("{command}; true"));
            assert_eq!(is, printed, "sequence {number}, step {at}: {command}");
        }
    }
}
