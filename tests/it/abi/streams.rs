//! Standard input, output and error: their data, limits and errors.

use std::io::{self, Cursor, Read, Write};

use belljar::Errno::{Acces, Io, Nospc};
use belljar::{Input, Limit, Limits, Outcome};

use super::script::{Script, gather, scatter};
use super::world::{Run, World};

/// The call returns after the first read that returns bytes: it must not wait for more.
#[test]
fn standard_input_fills_one_buffer_at_a_time() {
    let mut world = World::new();
    world.stdin = b"0123456".to_vec();
    let mut s = Script::new();
    let (a, b) = (s.room(4), s.room(8));
    let n = [(); 4].map(|()| s.u32());
    s.fd_read(0, scatter([a.part(0, 0), a, b]), n[0]).ok();
    s.fd_read(0, scatter([b.part(0, 0)]), n[1]).ok();
    s.fd_read(0, scatter([b]), n[2]).ok();
    s.fd_read(0, scatter([b.part(4, 4)]), n[3]).ok();
    let run = world.run(&s);
    assert_eq!((run.bytes(a), run.bytes(b)), (&b"0123"[..], &b"456\xa5\xa5\xa5\xa5\xa5"[..]));
    assert_eq!(n.map(|n| run.u32(n)), [4, 0, 3, 0]);
}

#[test]
fn output_is_complete_and_in_order() {
    let mut s = Script::new();
    let n = s.u32();
    s.fd_write(1, gather(["one ", "", "two "]), n).ok();
    s.write(2, "this goes elsewhere");
    s.write(1, "three");
    let run = World::new().run(&s);
    assert_eq!(run.stdout, b"one two three");
    assert_eq!(run.u32(n), 8);
}

#[test]
fn past_the_output_limit_the_guest_ends() {
    for (writes, left) in
        [(&["0123", "456789", "x"][..], "0123456789"), (&["0123456789abc"], "0123456789")]
    {
        let mut world = World::with(Limits { output_bytes_max: 10, ..Limits::default() });
        let mut s = Script::new();
        for text in writes {
            s.write(1, text);
        }
        let run = world.run_until(&s);
        assert_eq!(run.outcome, Outcome::Limit(Limit::Output));
        assert_eq!(run.stdout, left.as_bytes());
        assert_eq!(world.machine.limits_hit(), [Limit::Output]);
    }
}

/// One limit covers both streams, and each run starts with all of it.
#[test]
fn output_limit_covers_both_streams() {
    let mut world = World::with(Limits { output_bytes_max: 10, ..Limits::default() });
    for _ in 0..2 {
        let mut s = Script::new();
        s.write(1, "0123");
        s.write(2, "0123");
        s.write(1, "012");
        let run = world.run_until(&s);
        assert_eq!(run.outcome, Outcome::Limit(Limit::Output));
        assert_eq!(run.stdout, b"012301");
    }
}

/// Accepts some bytes, then fails.
struct Failing(usize, io::ErrorKind);

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(self.1.into());
        }
        let count = bytes.len().min(self.0);
        self.0 -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Failing {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(self.1.into());
        }
        let count = buf.len().min(self.0);
        self.0 -= count;
        buf[..count].fill(b'x');
        Ok(count)
    }
}

fn run_with(
    s: &Script,
    stdin: impl Read + Send + 'static,
    stdout: impl Write + Send + 'static,
) -> Run {
    let stdin = Cursor::new(s.encode()).chain(stdin);
    let run = World::new().run_with(s, Input::Reader(Box::new(stdin)), Box::new(stdout));
    assert_eq!(run.outcome, Outcome::Exited(0));
    let faults = s.faults(&run.answers, &run.memory);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    run
}

#[test]
fn output_errors_of_the_host_become_errnos() {
    let kinds = [(io::ErrorKind::StorageFull, Nospc), (io::ErrorKind::Other, Io)];
    for (kind, errno) in kinds {
        let mut s = Script::new();
        let n = s.u32();
        // The accepted bytes are reported first, and the error by the next call.
        s.fd_write(1, gather(["12", "345"]), n).ok();
        let m = s.u32();
        s.fd_write(1, gather(["6", "7"]), m).fails(errno);
        s.write(2, "standard error is another stream");
        let run = run_with(&s, io::empty(), Failing(2, kind));
        assert_eq!(run.u32(n), 2);
        assert_eq!(run.stdout, b"12");
    }
}

#[test]
fn input_errors_of_the_host_become_errnos() {
    let mut s = Script::new();
    let (buf, n) = (s.room(8), s.u32());
    s.fd_read(0, scatter([buf]), n).ok();
    let (empty, none) = (s.room(8), s.u32());
    s.fd_read(0, scatter([empty]), none).fails(Acces);
    let run = run_with(&s, Failing(3, io::ErrorKind::PermissionDenied), io::sink());
    assert_eq!((run.bytes(buf), run.u32(n)), (&b"xxx\xa5\xa5\xa5\xa5\xa5"[..], 3));
}

/// Interrupts the first read.
struct Interrupted(bool);

impl Read for Interrupted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if !std::mem::replace(&mut self.0, true) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        buf[0] = b'!';
        Ok(1)
    }
}

#[test]
fn a_guest_never_sees_an_interrupted_read() {
    let mut s = Script::new();
    let (a, n) = (s.room(1), s.u32());
    s.fd_read(0, scatter([a]), n).ok();
    let run = run_with(&s, Interrupted(false), io::sink());
    assert_eq!(run.bytes(a), b"!");
}
