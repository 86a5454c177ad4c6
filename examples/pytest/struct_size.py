"""Asks the C compiler how large types are."""

import pathlib
import subprocess

PROBE = '#include <stdio.h>\n#include <stdint.h>\n{declaration}\nint main(void) {{ printf("%zu\\n", sizeof({name})); }}\n'


def size_of(name: str, declaration: str = "") -> int:
    """The size of the type `name` in bytes. Writes a program to the current directory, compiles and runs it."""
    pathlib.Path("probe.c").write_text(PROBE.format(declaration=declaration, name=name))
    subprocess.run(["cc", "-o", "probe", "probe.c"], check=True, capture_output=True)
    return int(subprocess.check_output(["./probe"]))
