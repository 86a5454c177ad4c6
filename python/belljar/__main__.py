"""``python -m belljar``: the command `belljar`."""

import os
import subprocess
import sys

from ._toolchains import executable


def main() -> int:
    command = [os.fspath(executable()), *sys.argv[1:]]
    if os.name == "posix":
        # Signals, streams and the exit code are those of the command.
        os.execv(command[0], command)
    try:
        return subprocess.call(command)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
