"""What the package costs: python python/bench.py, with the package installed."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable

import belljar


def measure(name: str, act: Callable[[], object], count: int) -> None:
    """Prints the median of seven rounds of `count` calls."""
    rounds = []
    for _ in range(7):
        begun = time.perf_counter()
        for _ in range(count):
            act()
        rounds.append((time.perf_counter() - begun) / count)
    print(f"{name:44} {sorted(rounds)[3] * 1e6:10.1f} µs")


def main() -> None:
    print(f"belljar {belljar.__version__}, Python {platform.python_version()}, {platform.machine()}")
    with belljar.Sandbox() as box:
        measure("fork of an empty sandbox", box.fork, 2000)
        for number in range(1000):
            box.write(f"/tmp/{number % 10}/{number}", b"x" * 10_000)
        measure("fork of a sandbox with 1000 files, 10 MB", box.fork, 2000)

        def fork_and_write() -> None:
            box.fork().write("/tmp/0/0", b"y")

        measure("fork, and write to a file of the fork", fork_and_write, 500)
        box.exec("true")
        measure("exec of `true`", lambda: box.exec("true"), 200)
        measure("fork, and exec of `true` in the fork", lambda: box.fork().exec("true"), 200)
    measure("run of `true`, with one file", lambda: belljar.run("true", files={"a": b"1"}), 50)
    measure("new sandbox", lambda: belljar.Sandbox().close(), 200)


if __name__ == "__main__":
    main()
