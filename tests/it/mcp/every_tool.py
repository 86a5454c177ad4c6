"""Drives every tool of `belljar mcp` with the Python client.

    every_tool.py MODE COMMAND...          over standard input and output
    every_tool.py MODE URL TOKEN           over HTTP

MODE is that of `mcp.Client`: `auto` for the newest version of the protocol, `legacy` for the handshake. The policy has the
folder `project` with a.txt, which may be applied. Prints `tools: ` and the names of the tools that were called.
"""

import asyncio
import json
import os
import sys

import httpx2 as httpx
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

MODE, FIRST, *REST = sys.argv[1:]
# The settings of belljar, and those of pip, with which it installs.
PASSED = ("BELLJAR_", "PIP_", "PATH", "HOME", "HTTP_PROXY", "HTTPS_PROXY", "SSL_CERT")
ENV = {name: value for name, value in os.environ.items() if name.upper().startswith(PASSED)}
called = set()
questions = []
agrees = True


async def asked(_context, params):
    questions.append(params.message)
    return ElicitResult(action="accept", content={"write": True}) if agrees else ElicitResult(action="decline")


def target():
    if FIRST.startswith("http"):
        return streamable_http_client(FIRST, http_client=httpx.AsyncClient(headers={"Authorization": f"Bearer {REST[0]}"}))
    return StdioServerParameters(command=FIRST, args=REST, env=ENV)


async def call(client, name, **arguments):
    called.add(name)
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def refused(client, name, kind, **arguments):
    result = await client.call_tool(name, arguments)
    assert result.is_error, result
    error = json.loads(result.content[0].text)["error"]
    assert error["kind"] == kind, error
    return error["message"]


async def main():
    global agrees
    async with Client(target(), mode=MODE, elicitation_callback=asked) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for tool in tools.values():
            assert tool.title and tool.description and tool.annotations.read_only_hint is not None, tool
            assert tool.input_schema["additionalProperties"] is False, tool
            assert tool.output_schema["type"] == "object", tool
        made = await call(client, "sandbox_create", id="box", folders=[{"folder": "project"}], env={"MODE": "fast"})
        assert made["sandbox"] == "box" and made["start_dir"] == "/worktree", made
        ran = await call(client, "sandbox_exec", sandbox="box", command="cat a.txt; echo $MODE; echo oops >&2; exit 3")
        assert ran["stdout"]["text"] == "of the host\nfast\n" and ran["stderr"]["text"] == "oops\n", ran
        assert ran["exit_code"] == 3 and ran["ended_by"] == "exit" and ran["stdout"]["trust"] == "untrusted", ran
        sorted_ = await call(client, "sandbox_exec", sandbox="box", argv=["sort", "-r"], stdin="a\nc\nb\n")
        assert sorted_["stdout"]["text"] == "c\nb\na\n", sorted_

        long = await call(client, "sandbox_exec", sandbox="box", argv=["seq", "20000"], max_bytes=1000)
        text, offset = long["stdout"]["text"], long["stdout"]["next_offset"]
        while offset is not None:
            more = await call(client, "sandbox_output", sandbox="box", output=long["output"], offset=offset, max_bytes=65536)
            text, offset = text + more["text"], more.get("next_offset")
        assert text == "".join(f"{n}\n" for n in range(1, 20001))

        await call(client, "sandbox_write", sandbox="box", path="new/dir/b.txt", text="näïve\n")
        await call(client, "sandbox_write", sandbox="box", path="new/dir/b.txt", text_base64="/w==", append=True)
        read = await call(client, "sandbox_read", sandbox="box", path="new/dir/b.txt", offset=7)
        assert read["base64"] == "Cv8=" and read["total_bytes"] == 9, read
        listed = await call(client, "sandbox_ls", sandbox="box", path="new")
        assert listed["entries"] == [{"name": "dir", "type": "directory", "size": 0}], listed

        fork = await call(client, "sandbox_fork", sandbox="box", id="attempt")
        assert fork == {"sandbox": "attempt", "origin": "box"}, fork
        await call(client, "sandbox_exec", sandbox="attempt", command="rm -r *; echo only > one.txt")
        compared = await call(client, "sandbox_compare", before="box", after="attempt")
        assert {change["kind"] for change in compared["changes"]} >= {"added", "deleted"}, compared
        await call(client, "sandbox_drop", sandbox="attempt")
        await refused(client, "sandbox_read", "not_found", sandbox="attempt", path="one.txt")

        await call(client, "sandbox_exec", sandbox="box", command="rm new/dir/b.txt; echo changed >> a.txt; mkdir .git; echo x > .git/config")
        diff = await call(client, "sandbox_diff", sandbox="box")
        assert "+changed" in diff["patch"]["text"] and diff["sensitive"], diff
        agrees = False
        message = await refused(client, "sandbox_apply", "consent", sandbox="box")
        assert "did not agree" in message, message
        agrees = True
        applied = await call(client, "sandbox_apply", sandbox="box")
        assert applied["total_changes"] == len(diff["changes"]), (applied, diff)
        assert len(questions) == 2 and "a.txt modified" in questions[1] and "may run or obey" in questions[1], questions
        assert (await call(client, "sandbox_diff", sandbox="box"))["total_changes"] == 0

        boxes = await call(client, "sandbox_list")
        assert [box["sandbox"] for box in boxes["sandboxes"]] == ["box"] and boxes["folders"][0]["may_apply"], boxes
        programs = await call(client, "program_list", contains="grep")
        assert "grep" in [program["name"] for program in programs["programs"]], programs
        if "toolchain_install" in tools:
            installed = await call(client, "toolchain_install", toolchain=programs["installable"][0])
            assert installed["programs"], installed

        progress = []

        async def told(done, _total, message):
            progress.append((done, message))

        ended = await client.call_tool(
            "sandbox_exec", {"sandbox": "box", "command": "echo lost > lost; while :; do :; done", "timeout_ms": 2500},
            progress_callback=told)
        called.add("sandbox_exec")
        assert ended.structured_content["ended_by"] == "timeout" and ended.structured_content["undone"], ended
        assert progress and "running for" in progress[0][1], progress
        await refused(client, "sandbox_read", "not_found", sandbox="box", path="lost")

        try:
            async with asyncio.timeout(1):
                await client.call_tool("sandbox_exec", {"sandbox": "box", "command": "while :; do :; done"})
            raise AssertionError("it was not cancelled")
        except TimeoutError:
            pass
        # The sandbox is free again long before the time limit of the program.
        async with asyncio.timeout(20):
            assert (await call(client, "sandbox_exec", sandbox="box", argv=["true"]))["exit_code"] == 0

        parallel = [call(client, "sandbox_exec", sandbox="box", command=f"echo {n} >> log") for n in range(8)]
        assert {it["exit_code"] for it in await asyncio.gather(*parallel)} == {0}
        log = await call(client, "sandbox_exec", sandbox="box", command="sort -n log | tr '\\n' ' '")
        assert log["stdout"]["text"] == "0 1 2 3 4 5 6 7 ", log
        missed = set(tools) - called
        assert not missed, f"not called: {missed}"
        await call(client, "sandbox_drop", sandbox="box")
        print("protocol:", client.session.protocol_version)
        print("tools:", " ".join(sorted(called)))


asyncio.run(main())
