#!/usr/bin/env python3
"""Draws docs/terminal.svg, the picture of the README, from what belljar prints.

    docs/terminal.py [BELLJAR]            writes it
    docs/terminal.py --check [BELLJAR]    fails if it is another one
"""

import html
import os
import pathlib
import subprocess
import sys
import tempfile

COMMANDS = [
    "cat ports.json",
    "belljar run --quiet --diff jsonfmt ports.json",
    "cat ports.json    # the disk is as it was",
    "belljar sh --quiet -c 'sleep 86400; date'    # takes no time",
    "belljar verify sh -c 'sort ports.json; date'",
]
LINE, CHARACTER, MARGIN, COLUMNS = 20, 8.43, 24, 92

words = sys.argv[1:]
check = words[:1] == ["--check"]
belljar = pathlib.Path((words[check:] or ["target/debug/belljar"])[0]).resolve()
picture = pathlib.Path(__file__).with_suffix(".svg")

lines = []
with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
    pathlib.Path(folder, "ports.json").write_text('{"http":80,"https":443}\n')
    environment = os.environ | {"PATH": f"{belljar.parent}:{os.environ['PATH']}", "BELLJAR_HOME": home}
    for command in COMMANDS:
        lines.append(("command", command))
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1; {command}"], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL)
        for line in done.stdout.splitlines():
            if not line.startswith(("belljar: compiling ", "index ")):
                kinds = {"+": "added", "-": "removed", "@": "place"}
                lines.append((kinds.get(line[:1], "output"), line))

rows = []
for number, (kind, text) in enumerate(lines):
    while True:
        shown, text = text[:COLUMNS], text[COLUMNS:]
        prompt = '<tspan class="prompt">$ </tspan>' if kind == "command" else ""
        rows.append(f'{prompt}<tspan class="{kind}">{html.escape(shown)}</tspan>')
        kind = "output" if kind == "command" else kind
        if not text:
            break
width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), len(rows) * LINE + 2 * MARGIN
texts = "\n".join(
    f'<text x="{MARGIN}" y="{MARGIN + 14 + LINE * at}" xml:space="preserve">{row}</text>' for at, row in enumerate(rows))
drawn = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="A terminal with belljar">
<style>
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328; }}
.box {{ fill: #f6f8fa; stroke: #d1d9e0; }}
.command {{ font-weight: 600; }}
.prompt, .place {{ fill: #59636e; }}
.added {{ fill: #1a7f37; }}
.removed {{ fill: #d1242f; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #f0f6fc; }}
.box {{ fill: #151b23; stroke: #3d444d; }}
.prompt, .place {{ fill: #9198a1; }}
.added {{ fill: #3fb950; }}
.removed {{ fill: #f85149; }}
}}
</style>
<rect class="box" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>
{texts}
</svg>
"""
if not check:
    picture.write_text(drawn)
elif picture.read_text() != drawn:
    sys.exit("docs/terminal.svg is not what belljar prints now: run docs/terminal.py")
