//! `clock_*`, `random_get`, and the tick that ends spinning.

use std::time::Duration;

use belljar::Errno;
use belljar::kernel::clock::{DEFAULT_START_NS, SPIN_FREE_READS, SPIN_TICK_NS, UPTIME_NS};
use belljar::{ClockConfig, Limit, Limits, Outcome};

use super::flags::{MONOTONIC, REALTIME};
use super::script::{Script, Slot};
use super::world::{World, builder};

#[test]
fn virtual_clocks_start_at_their_configured_time() {
    let mut s = Script::new();
    let times = [(); 4].map(|()| s.u64());
    let resolutions = [(); 4].map(|()| s.u64());
    for (id, (time, resolution)) in (0_u32..).zip(times.into_iter().zip(resolutions)) {
        s.clock_time_get(id, u64::MAX, time).ok();
        s.clock_res_get(id, resolution).ok();
    }
    let start_ns = 123;
    let clock = ClockConfig::Paused { start_ns };
    let worlds = [(World::new(), DEFAULT_START_NS), (World::confined(builder().clock(clock)), 123)];
    for (mut world, start) in worlds {
        let run = world.run(&s);
        assert_eq!(times.map(|time| run.u64(time)), [start, UPTIME_NS, 0, 0]);
        assert_eq!(resolutions.map(|resolution| run.u64(resolution)), [1; 4]);
    }
}

#[test]
fn unknown_clock_ids_are_invalid() {
    let mut s = Script::new();
    let out = s.u64();
    for id in [4, 256, 1 << 31, u32::MAX] {
        s.clock_time_get(id, 0, out).fails(Errno::Inval);
        s.clock_res_get(id, out).fails(Errno::Inval);
    }
    World::new().run(&s);
}

/// Reads of a clock, each into its own memory.
fn reads(s: &mut Script, count: u64, id: u32) -> Vec<Slot> {
    (0..count)
        .map(|_| {
            let time = s.u64();
            s.clock_time_get(id, 0, time).ok();
            time
        })
        .collect()
}

#[test]
fn a_guest_that_spins_sees_time_pass() {
    for (id, start) in [(REALTIME, DEFAULT_START_NS), (MONOTONIC, UPTIME_NS), (2, 0), (3, 0)] {
        let mut s = Script::new();
        let times = reads(&mut s, SPIN_FREE_READS + 3, id);
        let run = World::new().run(&s);
        let seen: Vec<u64> = times.iter().map(|time| run.u64(*time)).collect();
        let (free, ticks) = seen.split_at(SPIN_FREE_READS as usize);
        assert!(free.iter().all(|time| *time == start));
        let expected: Vec<u64> = (1..=3).map(|tick| start + tick * SPIN_TICK_NS).collect();
        assert_eq!(ticks, expected);
    }
}

#[test]
fn other_calls_reset_the_count_of_clock_reads() {
    let mut s = Script::new();
    let mut times = reads(&mut s, SPIN_FREE_READS, MONOTONIC);
    s.sched_yield().ok();
    times.extend(reads(&mut s, SPIN_FREE_READS, MONOTONIC));
    s.fd_close(99).fails(Errno::Badf);
    times.extend(reads(&mut s, SPIN_FREE_READS, REALTIME));
    let out = s.u64();
    s.clock_res_get(0, out).ok();
    times.extend(reads(&mut s, 1, MONOTONIC));
    let mut world = World::new();
    world.run(&s);
    assert_eq!(world.machine.elapsed(), Duration::ZERO);
}

/// A failed read returns no time to the guest, so it does not count.
#[test]
fn reads_of_an_unknown_clock_are_not_counted_as_spinning() {
    let mut s = Script::new();
    let out = s.u64();
    for _ in 0..SPIN_FREE_READS * 2 {
        s.clock_time_get(9, 0, out).fails(Errno::Inval);
    }
    reads(&mut s, 1, MONOTONIC);
    let mut world = World::new();
    world.run(&s);
    assert_eq!(world.machine.elapsed(), Duration::ZERO);
}

#[test]
fn a_guest_that_spins_reaches_the_virtual_timeout() {
    let timeout = Duration::from_nanos(SPIN_TICK_NS * 2 + 1);
    let mut world = World::with(Limits { virtual_timeout: Some(timeout), ..Limits::default() });
    let mut s = Script::new();
    reads(&mut s, SPIN_FREE_READS + 10, MONOTONIC);
    let run = world.run_until(&s);
    assert_eq!(run.outcome, Outcome::Limit(Limit::VirtualTimeout));
    assert_eq!(world.machine.limits_hit(), [Limit::VirtualTimeout]);
    assert_eq!(world.machine.elapsed(), timeout, "it stops there, not a tick later");
}

#[test]
fn real_clock_advances_by_itself() {
    let mut s = Script::new();
    let wall = reads(&mut s, 1, REALTIME)[0];
    let times = reads(&mut s, SPIN_FREE_READS + 2, MONOTONIC);
    let run = World::confined(builder().clock(ClockConfig::Host)).run(&s);
    assert!(run.u64(wall) > 1_700_000_000_000_000_000);
    let seen: Vec<u64> = times.iter().map(|time| run.u64(*time)).collect();
    assert!(seen.is_sorted(), "{seen:?}");
}

fn random(world: &mut World, lens: &[u32]) -> Vec<u8> {
    let mut s = Script::new();
    let rooms: Vec<Slot> = lens.iter().map(|len| s.room(*len)).collect();
    for room in &rooms {
        s.random_get(*room).ok();
    }
    let run = world.run(&s);
    rooms.iter().flat_map(|room| run.bytes(*room).to_vec()).collect()
}

#[test]
fn random_bytes_depend_on_the_seed_only() {
    let seeded = |seed| World::confined(builder().seed(seed));
    let whole = random(&mut seeded(7), &[64]);
    assert_eq!(random(&mut seeded(7), &[64]), whole);
    assert_ne!(random(&mut seeded(8), &[64]), whole);
    // RFC 8439, appendix A.1, test vector 1.
    let expected = [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90];
    assert_eq!(random(&mut World::new(), &[8]), expected);
}

/// The random bytes do not depend on the sizes of the requests, nor on which process of the machine asks.
#[test]
fn random_stream_continues_across_calls_and_processes() {
    let seeded = || World::confined(builder().seed(7));
    let whole = random(&mut seeded(), &[64]);
    let mut world = seeded();
    let halves = [random(&mut world, &[32]), random(&mut world, &[0, 32])];
    assert_eq!(halves.concat(), whole);
    assert_eq!(random(&mut seeded(), &[1, 2, 4, 57]), whole);
}
