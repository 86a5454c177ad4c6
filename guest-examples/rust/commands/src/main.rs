//! Starts programs in all ways of `std::process`, and prints what became of them. It prints the same under belljar and,
//! built for the machine itself, on any POSIX system.

use std::error::Error;
use std::io::{Read as _, Write as _};

use belljar_guest::env;
use belljar_guest::process::{Command, ExitStatus, Output, Stdio, read_from, write_to};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result {
    outputs()?;
    environments()?;
    directories()?;
    streams()?;
    ends()?;
    errors();
    Ok(())
}

/// A shell that runs `script`.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn show(name: &str, output: &Output) {
    let Output { status, stdout, stderr } = output;
    let text = |bytes: &[u8]| match bytes.len() {
        0..100 => format!("{:?}", String::from_utf8_lossy(bytes)),
        length => format!("{length} bytes, the last are {:?}", &bytes[length - 4..]),
    };
    println!("{name}: {}, {}, {}", code(*status), text(stdout), text(stderr));
}

fn code(status: ExitStatus) -> String {
    format!("success {}, code {:?}", status.success(), status.code())
}

fn outputs() -> Result {
    show("both", &shell("printf out; printf err >&2; exit 3").output()?);
    show("nothing", &shell("").output()?);
    show("large code", &shell("exit 255").output()?);
    show("arguments", &Command::new("printf").args(["%s|", "", "a b", "\"'$x", "é"]).output()?);
    // More than a pipe holds, on both streams.
    let script = "i=0; while [ $i -lt 3000 ]; do
        echo 012345678901234567890123456789; echo 012345678901234567890123456789 >&2; i=$((i + 1)); done";
    show("long", &shell(script).output()?);
    println!("status: {}", code(shell("echo inherited; exit 1").status()?));
    Ok(())
}

fn environments() -> Result {
    let script = "echo $A, ${B-unset}, ${C-unset}";
    show("set", &shell(script).env("A", "1").env("C", "").env("B", "x=y").output()?);
    let mut command = shell(script);
    command.envs([("A", "1"), ("B", "2")]).env_remove("B").env("C", "3").env("C", "4");
    show("removed", &command.output()?);
    // A variable that was set before is cleared, too.
    let path = std::env::var_os("PATH").unwrap_or_default();
    show(
        "cleared",
        &shell(script).env("B", "1").env_clear().env("PATH", path).env("A", "2").output()?,
    );
    Ok(())
}

fn directories() -> Result {
    std::fs::create_dir_all("d/e")?;
    std::fs::write("d/f", "in d\n")?;
    show("in d", &Command::new("cat").arg("f").current_dir("d").output()?);
    show("in d/e", &Command::new("cat").arg("../f").current_dir("d/e").output()?);
    let before = env::current_dir()?;
    env::set_current_dir("d")?;
    println!("moved: {}", env::current_dir()? == before.join("d"));
    println!("read there: {:?}", std::fs::read_to_string("f")?);
    show("started there", &Command::new("cat").arg("f").output()?);
    env::set_current_dir("..")?;
    println!("back: {}", env::current_dir()? == before);
    println!("missing: {:?}", env::set_current_dir("none").map_err(|error| error.kind()));
    println!("a file: {:?}", env::set_current_dir("d/f").map_err(|error| error.kind()));
    let started = Command::new("cat").current_dir("none").output();
    println!("starts nowhere: {:?}", started.map_err(|error| error.kind()).is_err());
    Ok(())
}

fn streams() -> Result {
    let piped = || (Stdio::piped(), Stdio::piped());
    let (stdin, stdout) = piped();
    let mut child = Command::new("wc").arg("-c").stdin(stdin).stdout(stdout).spawn()?;
    child.stdin.as_mut().ok_or("no stdin")?.write_all(&[b'x'; 200_000])?;
    let output = child.wait_with_output()?;
    println!("counted: {}", String::from_utf8_lossy(&output.stdout).trim());

    let mut first = shell("echo 1; echo 2; echo 3").stdout(Stdio::piped()).spawn()?;
    let between = first.stdout.take().ok_or("no stdout")?;
    let second = Command::new("grep").arg("2").stdin(between).output()?;
    println!("first: {}", code(first.wait()?));
    show("second", &second);

    // What was not asked for is no pipe, and the default of `output` is no input.
    let mut child = shell("exit 0").spawn()?;
    println!(
        "pipes: {:?}",
        (child.stdin.is_some(), child.stdout.is_some(), child.stderr.is_some())
    );
    child.wait()?;
    show("no input", &Command::new("cat").output()?);
    show("null", &shell("cat; echo lost").stdin(Stdio::null()).stdout(Stdio::null()).output()?);
    show("shared", &shell("echo seen").stderr(Stdio::null()).output()?);

    let mut child =
        shell("cat; echo done >&2").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("no stdin")?.write_all(b"through\n")?;
    let mut said = String::new();
    child.stderr.take().ok_or("no stderr")?.read_to_string(&mut said)?;
    println!("said: {said:?}, {}", code(child.wait()?));

    // The reader ends first: writing fails, and does not end this program.
    let mut child = shell("exit 0").stdin(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().ok_or("no stdin")?;
    child.wait()?;
    let broken = (0..3).find_map(|_| stdin.write_all(&[0; 100_000]).err());
    println!("broken: {:?}", broken.map(|error| error.kind()));

    let written = shell("echo to a file").stdout(write_to("w")?).status()?;
    println!("written: {}", code(written));
    show("read", &Command::new("cat").stdin(read_from("w")?).output()?);
    println!("no file: {:?}", read_from("none").map_err(|error| error.kind()).err());
    Ok(())
}

fn ends() -> Result {
    let mut child = Command::new("sleep").arg("1000").spawn()?;
    println!("runs: {:?}", child.try_wait()?.is_none());
    child.kill()?;
    println!("killed: {}", code(child.wait()?));
    println!("again: {}", code(child.wait()?));
    println!("kill again: {:?}", child.kill().map_err(|error| error.kind()));
    println!("known: {:?}", child.try_wait()?.map(code));
    println!("signalled: {}", code(shell("kill -TERM $$").status()?));
    println!("other ids: {}", shell("").spawn()?.id() != shell("").spawn()?.id());
    // Children that nobody waits for.
    for _ in 0..20 {
        shell("exit 1").spawn()?;
    }
    println!("after them: {}", code(shell("exit 0").status()?));
    Ok(())
}

fn errors() {
    let kind = |result: std::io::Result<Output>| result.map(|_| ()).map_err(|error| error.kind());
    println!("no program: {:?}", kind(Command::new("no-such-program").output()));
    println!("no file: {:?}", kind(Command::new("./no-such-program").output()));
    println!("through a file: {:?}", kind(Command::new("d/f/program").output()));
    println!("NUL: {:?}", kind(Command::new("sh").arg("a\0b").output()));
    println!("a directory: {:?}", kind(Command::new("./d").output()));
}
