"""The agent at work. The model is a list of answers here; put a call of yours in the place of `ask`."""

import asyncio
import os

from agent import solve
from mcp import StdioServerParameters

ANSWERS = iter([
    "while True: pass",
    "import os; os.remove('sales.csv'); raise SystemExit('what have I done')",
    "print(sum(int(line.split(',')[1]) for line in open('sales.csv') if line.startswith('north')))",
])


def ask(conversation):
    if len(conversation) > 1:
        print(conversation[-1][:90])
    program = next(ANSWERS)
    print("model:", program[:60])
    return program


# Belljar gets the variables of this process, so that its home and the settings of pip hold.
SERVER = StdioServerParameters(command="belljar", args=["mcp", "--policy", "policy.json"], env=dict(os.environ))
FILES = {"sales.csv": "region,units\nnorth,3\nsouth,4\nnorth,5\n"}
print("answer:", asyncio.run(solve(
    ask, "Print the units of the north in sales.csv.", FILES, lambda text: text.strip() == "8", server=SERVER)))
