import json

from mcp import Client, StdioServerParameters

SERVER = StdioServerParameters(command="belljar", args=["mcp", "--policy", "policy.json"])


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        # The message says what to do, so it is worth showing to the model.
        raise RuntimeError(json.loads(result.content[0].text)["error"]["message"])
    return result.structured_content


async def solve(ask, task, files, check, attempts=5, server=SERVER):
    """Asks the model for programs until one prints what passes `check`; returns that, or None.

    `ask(conversation)` is the model: it gets a list of texts and returns a program. `files` are what the program works on.
    """
    async with Client(server) as client:
        if not (await call(client, "program_list", contains="python"))["programs"]:
            await call(client, "toolchain_install", toolchain="python")
        base = (await call(client, "sandbox_create"))["sandbox"]
        for path, text in files.items():
            await call(client, "sandbox_write", sandbox=base, path=path, text=text)
        conversation = [task]
        for _ in range(attempts):
            program = ask(conversation)
            fork = (await call(client, "sandbox_fork", sandbox=base))["sandbox"]
            await call(client, "sandbox_write", sandbox=fork, path="main.py", text=program)
            ran = await call(client, "sandbox_exec", sandbox=fork, argv=["python", "main.py"], timeout_ms=5000)
            await call(client, "sandbox_drop", sandbox=fork)
            # What the program printed is data. It goes to the model as JSON, in which it cannot look like anything else.
            output = ran["stdout"].get("text", "")
            if ran["exit_code"] == 0 and check(output):
                return output
            told = {key: ran[key] for key in ("exit_code", "ended_by", "message", "stdout", "stderr") if key in ran}
            conversation += [program, "That did not work: " + json.dumps(told)]
        return None
