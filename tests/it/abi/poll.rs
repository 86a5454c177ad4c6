//! `poll_oneoff`.

use std::time::Duration;

use belljar::Errno::{Badf, Inval};
use belljar::kernel::clock::{DEFAULT_START_NS, UPTIME_NS};
use belljar::{ClockConfig, Limit, Limits, Outcome};

use super::flags::*;
use super::interpreter::MASK;
use super::script::{Call, Script, Slot, Snapshot, Word, scatter};
use super::world::{DIR, Run, World, builder};

const EVENT_BYTES: u32 = 32;

/// The event that a subscription waits for.
#[derive(Clone, Copy)]
pub enum Wait {
    /// Clock, timeout, flags.
    Clock(u32, u64, u16),
    Read(u32),
    Write(u32),
    /// An unknown kind.
    Other(u8),
}

/// Until `timeout` has passed on the monotonic clock.
pub fn after(timeout: u64) -> Wait {
    Wait::Clock(MONOTONIC, timeout, 0)
}

/// Until `time`; on the monotonic clock, until `time` after the start.
fn at(clock: u32, time: u64) -> Wait {
    let start = if clock == MONOTONIC { UPTIME_NS } else { 0 };
    Wait::Clock(clock, time.saturating_add(start), 1)
}

/// `subscription`; its padding is the mask, which must not be read.
pub fn encode(snapshot: Snapshot, userdata: u64, wait: Wait) -> Vec<u8> {
    // `wasi_unstable` has an identifier before the clock.
    let (len, clock) = match snapshot {
        Snapshot::Preview1 => (48, 16),
        Snapshot::Unstable => (56, 24),
    };
    let mut bytes = vec![MASK; len];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &userdata.to_le_bytes());
    match wait {
        Wait::Clock(id, timeout, flags) => {
            put(8, &[0]);
            put(clock, &id.to_le_bytes());
            put(clock + 8, &timeout.to_le_bytes());
            put(clock + 24, &flags.to_le_bytes());
        }
        Wait::Read(fd) | Wait::Write(fd) => {
            put(8, &[if matches!(wait, Wait::Read(_)) { 1 } else { 2 }]);
            put(16, &fd.to_le_bytes());
        }
        Wait::Other(tag) => put(8, &[tag]),
    }
    bytes
}

/// The memory for the results of a call.
#[derive(Clone, Copy)]
pub struct Answer {
    events: Slot,
    count: Slot,
}

/// Waits for any of `waits`; their user data counts from 100.
pub fn poll<'s>(s: &'s mut Script, waits: &[Wait]) -> (Answer, Call<'s>) {
    let snapshot = s.snapshot;
    let list: Vec<u8> =
        (100..).zip(waits).flat_map(|(index, wait)| encode(snapshot, index, *wait)).collect();
    let len = u32::try_from(waits.len()).unwrap();
    let subscriptions = s.bytes(&list);
    let answer = Answer { events: s.room(len * EVENT_BYTES), count: s.u32() };
    (answer, s.poll_oneoff(subscriptions, answer.events, len, answer.count))
}

fn polled(s: &mut Script, waits: &[Wait]) -> Answer {
    let (answer, call) = poll(s, waits);
    call.ok();
    answer
}

/// `event`: user data, error, kind, bytes, whether it hung up.
pub type Event = (u64, u16, u8, u64, bool);

pub fn events(run: &Run, answer: Answer) -> Vec<Event> {
    let count = run.u32(answer.count) as usize;
    let (happened, rest) = run.bytes(answer.events).split_at(count * EVENT_BYTES as usize);
    assert!(rest.iter().all(|byte| *byte == MASK), "only what happened is written");
    happened
        .chunks(EVENT_BYTES as usize)
        .map(|event| {
            let word = |at: usize| u64::from_le_bytes(event[at..at + 8].try_into().unwrap());
            assert_eq!((&event[11..16], &event[25..32]), (&[0; 5][..], &[0; 7][..]), "padding");
            let error = u16::from_le_bytes([event[8], event[9]]);
            assert!(event[24] < 2);
            (word(0), error, event[10], word(16), event[24] == 1)
        })
        .collect()
}

fn clock_event(userdata: u64) -> Event {
    (userdata, 0, 0, 0, false)
}

fn now(s: &mut Script) -> Slot {
    let time = s.u64();
    s.clock_time_get(MONOTONIC, 0, time).ok();
    time
}

#[test]
fn only_the_earliest_of_several_timeouts_fires() {
    let mut s = Script::new();
    let first = polled(&mut s, &[after(30), after(10), after(20), at(MONOTONIC, 11)]);
    let then = now(&mut s);
    let second = polled(&mut s, &[after(30), Wait::Clock(REALTIME, 5, 0), after(6)]);
    let later = now(&mut s);
    let run = World::new().run(&s);
    assert_eq!(events(&run, first), [clock_event(101)]);
    assert_eq!(events(&run, second), [clock_event(101)]);
    assert_eq!((run.u64(then), run.u64(later)), (UPTIME_NS + 10, UPTIME_NS + 15));
}

#[test]
fn equal_times_all_fire_in_order() {
    let mut s = Script::new();
    let waits = [
        after(10),
        at(MONOTONIC, 10),
        after(11),
        Wait::Clock(REALTIME, 10, 0),
        at(REALTIME, DEFAULT_START_NS + 10),
        at(REALTIME, DEFAULT_START_NS + 11),
        Wait::Clock(2, 10, 0),
        at(3, 10),
    ];
    let answer = polled(&mut s, &waits);
    let run = World::new().run(&s);
    let expected = [100, 101, 103, 104, 106, 107].map(clock_event);
    assert_eq!(events(&run, answer), expected);
}

#[test]
fn past_deadlines_fire_at_once() {
    let mut world = World::new();
    world.machine.advance(Duration::from_nanos(50));
    let mut s = Script::new();
    let past = polled(
        &mut s,
        &[
            at(MONOTONIC, 49),
            at(MONOTONIC, 50),
            at(MONOTONIC, 51),
            at(REALTIME, 0),
            after(0),
            after(1),
        ],
    );
    let then = now(&mut s);
    let run = world.run(&s);
    assert_eq!(events(&run, past), [100, 101, 103, 104].map(clock_event));
    assert_eq!(run.u64(then), UPTIME_NS + 50);
}

#[test]
fn huge_timeouts_saturate() {
    let mut world = World::new();
    world.machine.advance(Duration::from_nanos(50));
    let mut s = Script::new();
    let endless = polled(&mut s, &[after(u64::MAX), at(MONOTONIC, u64::MAX), after(u64::MAX - 1)]);
    let then = now(&mut s);
    let again = polled(&mut s, &[after(1)]);
    let run = world.run(&s);
    assert_eq!(events(&run, endless), [100, 101, 102].map(clock_event));
    assert_eq!(run.u64(then), u64::MAX);
    assert_eq!(events(&run, again), [clock_event(100)]);
}

#[test]
fn ready_descriptor_returns_without_advancing_time() {
    let mut world = World::new();
    world.stdin = b"abc".to_vec();
    let mut s = Script::new();
    let answers = [
        polled(&mut s, &[after(10), Wait::Write(1), after(0)]),
        polled(&mut s, &[after(10), Wait::Read(0)]),
        // A descriptor that is not open is an event, too.
        polled(&mut s, &[after(10), Wait::Read(77)]),
    ];
    let then = now(&mut s);
    let run = world.run(&s);
    let seen = answers.map(|answer| events(&run, answer));
    assert_eq!(seen[0], [(101, 0, 2, 0, false), clock_event(102)]);
    assert_eq!(seen[1], [(101, 0, 1, 3, false)]);
    assert_eq!(seen[2], [(101, Badf.code(), 1, 0, false)]);
    assert_eq!(run.u64(then), UPTIME_NS);
}

#[test]
fn poll_of_every_kind_of_descriptor() {
    let mut world = World::new();
    world.file("f", b"0123456789");
    world.dir("d");
    let mut s = Script::new();
    s.open("f", 0, BOTH); // 4
    s.open("f", 0, READ); // 5
    s.open("d", DIRECTORY, READ); // 6
    let (buf, n, out) = (s.room(4), s.u32(), s.u64());
    s.fd_read(4, scatter([buf]), n).ok();
    s.fd_seek(5, 100, SET, out).ok();
    let fds = [0, 1, 2, DIR, 4, 5, 6, 7, u32::MAX];
    let reads = polled(&mut s, &fds.map(Wait::Read));
    let writes = polled(&mut s, &fds.map(Wait::Write));
    let run = world.run(&s);
    let (badf, idle) = ((Badf.code(), 0, false), (0, 0, false));
    let expected = |answers: [(u16, u64, bool); 9], kind: u8| {
        let event = |(userdata, (error, nbytes, hangup))| (userdata, error, kind, nbytes, hangup);
        (100..).zip(answers).map(event).collect::<Vec<Event>>()
    };
    let at_end = (0, 0, true);
    let left = (0, 6, false);
    let answers = [at_end, badf, badf, idle, left, idle, idle, badf, badf];
    assert_eq!(events(&run, reads), expected(answers, 1));
    let answers = [badf, idle, idle, idle, idle, idle, idle, badf, badf];
    assert_eq!(events(&run, writes), expected(answers, 2));
}

#[test]
fn poll_of_stdin_reports_available_bytes() {
    let mut world = World::new();
    world.stdin = b"0123456789".to_vec();
    let mut s = Script::new();
    let (buf, n) = (s.room(7), s.u32());
    let before = polled(&mut s, &[Wait::Read(0)]);
    s.fd_read(0, scatter([buf]), n).ok();
    let between = polled(&mut s, &[Wait::Read(0)]);
    s.fd_read(0, scatter([buf]), n).ok();
    let after = polled(&mut s, &[Wait::Read(0)]);
    s.fd_close(0).ok();
    let closed = polled(&mut s, &[Wait::Read(0)]);
    let run = world.run(&s);
    let seen = [before, between, after, closed].map(|answer| events(&run, answer));
    assert_eq!(seen[0], [(100, 0, 1, 10, false)]);
    assert_eq!(seen[1], [(100, 0, 1, 3, false)]);
    assert_eq!(seen[2], [(100, 0, 1, 0, true)]);
    assert_eq!(seen[3], [(100, Badf.code(), 1, 0, false)]);
}

#[test]
fn one_bad_subscription_fails_the_call() {
    let mut s = Script::new();
    let bad = [
        Wait::Other(3),
        Wait::Other(255),
        Wait::Clock(4, 1, 0),
        Wait::Clock(u32::MAX, 1, 0),
        Wait::Clock(MONOTONIC, 1, 2),
        Wait::Clock(MONOTONIC, 1, u16::MAX),
    ];
    for bad in bad {
        for waits in [&[bad][..], &[after(5), bad], &[bad, Wait::Write(1)]] {
            poll(&mut s, waits).1.fails(Inval);
        }
    }
    poll(&mut s, &[]).1.fails(Inval);
    let then = now(&mut s);
    let run = World::new().run(&s);
    assert_eq!(run.u64(then), UPTIME_NS, "nothing waited");
}

#[test]
fn subscription_count_is_checked_before_pointers() {
    let mut s = Script::new();
    let out = s.u32();
    // With such a count, no pointer is checked.
    for count in [65_537, 1 << 31, u32::MAX] {
        s.poll_oneoff(0, 0, count, out).fails(Inval);
        s.poll_oneoff(u32::MAX, u32::MAX, count, u32::MAX).fails(Inval);
    }
    s.poll_oneoff(0, 0, 65_536, out).fails(belljar::Errno::Fault);
    let many = polled(&mut s, &[after(3); 500]);
    let run = World::new().run(&s);
    assert_eq!(events(&run, many), (100..600).map(clock_event).collect::<Vec<_>>());
}

/// All subscriptions are read before any event is written.
#[test]
fn events_may_overwrite_subscriptions() {
    let mut s = Script::new();
    let list = [after(3), Wait::Write(1), Wait::Write(9)];
    let bytes: Vec<u8> =
        (7..).zip(list).flat_map(|(i, wait)| encode(Snapshot::Preview1, i, wait)).collect();
    let room = s.room(u32::try_from(bytes.len()).unwrap());
    s.bytes_at(room.addr, &bytes);
    let count = s.u32();
    s.poll_oneoff(room, room, 3, count).ok();
    let run = World::new().run(&s);
    let answer = run.bytes(room.part(0, 64));
    assert_eq!(run.u32(count), 2);
    assert_eq!((answer[0], answer[10], answer[32], answer[42]), (8, 2, 9, 2));
    assert_eq!(run.bytes(room)[64..], bytes[64..]);
}

#[test]
fn sleep_ends_at_the_virtual_timeout() {
    let limits =
        |ns| Limits { virtual_timeout: Some(Duration::from_nanos(ns)), ..Limits::default() };
    for (sleeps, outcome, elapsed) in [
        (&[100][..], Outcome::Exited(0), 100),
        (&[40, 60], Outcome::Exited(0), 100),
        (&[101], Outcome::Limit(Limit::VirtualTimeout), 100),
        (&[99, 2], Outcome::Limit(Limit::VirtualTimeout), 100),
        (&[u64::MAX], Outcome::Limit(Limit::VirtualTimeout), 100),
    ] {
        let mut world = World::with(limits(100));
        let mut s = Script::new();
        for sleep in sleeps {
            polled(&mut s, &[after(*sleep)]);
        }
        assert_eq!(world.run_until(&s).outcome, outcome, "{sleeps:?}");
        assert_eq!(world.machine.elapsed(), Duration::from_nanos(elapsed));
        assert_eq!(world.machine.limits_hit().is_empty(), outcome == Outcome::Exited(0));
    }
}

#[test]
fn on_the_real_clock_sleep_takes_real_time_and_the_timeout_ends_it() {
    let mut s = Script::new();
    let sleep = polled(&mut s, &[after(2_000_000), after(u64::MAX)]);
    let mut world = World::confined(builder().clock(ClockConfig::Host));
    let run = world.run(&s);
    assert_eq!(events(&run, sleep), [clock_event(100)]);
    assert!(world.machine.elapsed() >= Duration::from_millis(2));

    let limits = Limits { timeout: Some(Duration::from_millis(30)), ..Limits::default() };
    let mut world = World::confined(builder().clock(ClockConfig::Host).limits(limits));
    let mut s = Script::new();
    polled(&mut s, &[after(3_600_000_000_000)]);
    assert_eq!(world.run_until(&s).outcome, Outcome::Limit(Limit::Timeout));
}

/// The descriptor of a subscription is looked up when the call is made.
#[test]
fn a_subscription_may_name_a_descriptor_that_was_renumbered() {
    let mut s = Script::new();
    let file: Word = s.open("f", CREAT, BOTH);
    s.write(file, "12345");
    let out = s.u64();
    s.fd_seek(file, 1, SET, out).ok();
    s.fd_renumber(file, 0).ok();
    let answer = polled(&mut s, &[Wait::Read(0), Wait::Write(0), Wait::Read(4)]);
    let run = World::new().run(&s);
    let badf = (102, Badf.code(), 1, 0, false);
    assert_eq!(events(&run, answer), [(100, 0, 1, 4, false), (101, 0, 2, 0, false), badf]);
}
