//! `args_*` and `environ_*`.

use super::interpreter::MEMORY_BYTES;
use super::script::Script;
use super::world::World;

#[test]
fn arguments_are_pointers_to_nul_terminated_strings() {
    let mut world = World::new();
    world.args = vec![b"one".to_vec(), Vec::new(), vec![0xff, 0xfe], b"cut\0off".to_vec()];
    let mut s = Script::new();
    let (count, size) = (s.u32(), s.u32());
    let (argv, buf) = (s.room(5 * 4), s.room(18));
    s.args_sizes_get(count, size).ok();
    s.args_get(argv, buf).ok();
    let run = world.run(&s);
    assert_eq!((run.u32(count), run.u32(size)), (5, 18));
    assert_eq!(run.bytes(buf), b"guest\0one\0\0\xff\xfe\0cut\0");
    let pointers: Vec<u32> = (0..5).map(|i| run.u32(argv.part(i * 4, 4)) - buf.addr).collect();
    assert_eq!(pointers, [0, 6, 10, 11, 14]);
}

#[test]
fn environment_keeps_the_order_in_which_variables_were_set() {
    let mut world = World::new();
    for (key, value) in [("B", "2"), ("A", "1"), ("EMPTY", ""), ("B", "3=4")] {
        world.env.push((key.to_owned(), value.to_owned()));
    }
    let mut s = Script::new();
    let (count, size) = (s.u32(), s.u32());
    let (environ, buf) = (s.room(3 * 4), s.room(17));
    s.environ_sizes_get(count, size).ok();
    s.environ_get(environ, buf).ok();
    let run = world.run(&s);
    assert_eq!((run.u32(count), run.u32(size)), (3, 17));
    assert_eq!(run.bytes(buf), b"B=3=4\0A=1\0EMPTY=\0");
    let pointers: Vec<u32> = (0..3).map(|i| run.u32(environ.part(i * 4, 4)) - buf.addr).collect();
    assert_eq!(pointers, [0, 6, 10]);
}

/// The host's environment is not passed on; a call that writes nothing accepts an empty buffer.
#[test]
fn without_variables_the_environment_is_empty() {
    let mut s = Script::new();
    let (count, size) = (s.u32(), s.u32());
    s.environ_sizes_get(count, size).ok();
    s.environ_get(MEMORY_BYTES, MEMORY_BYTES).ok();
    let run = World::new().run(&s);
    assert_eq!((run.u32(count), run.u32(size)), (0, 0));
}

#[test]
fn strings_may_end_where_memory_ends() {
    let mut world = World::new();
    world.env.push(("K".to_owned(), "v".to_owned()));
    let mut s = Script::new();
    let pointer = s.u32();
    let last = s.room_at(MEMORY_BYTES - 6, 6);
    s.args_get(pointer, last).ok();
    let run = world.run(&s);
    assert_eq!(run.bytes(last), b"guest\0");
    let mut s = Script::new();
    let pointer = s.u32();
    let last = s.room_at(MEMORY_BYTES - 4, 4);
    s.environ_get(pointer, last).ok();
    assert_eq!(world.run(&s).bytes(last), b"K=v\0");
}
