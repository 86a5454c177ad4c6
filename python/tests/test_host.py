"""Functions of Python that programs call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import belljar
from belljar import Sandbox


def ask(box: Sandbox, operation: str, params: object | None = None) -> Any:
    """The answer that the program `ask` gets."""
    args = [] if params is None else [json.dumps(params)]
    return box.exec("ask", operation, *args).json()


def test_program_gets_the_answer_of_a_function(guests: Path) -> None:
    asked: list[Any] = []

    def embed(params: Any) -> Any:
        asked.append(params)
        return [len(params["text"]), None, {"ü": 1.5}]

    with Sandbox(toolchains=[guests], host={"memory.embed": embed}) as box:
        assert ask(box, "memory.embed", {"text": "hello"}) == {"ok": [5, None, {"ü": 1.5}]}
        assert ask(box.fork(), "memory.embed", {"text": ""})["ok"][0] == 0
        assert asked == [{"text": "hello"}, {"text": ""}]
        assert ask(box, "other.call")["error"]["kind"] == "unsupported"


def test_exception_of_a_function_is_the_answer(guests: Path) -> None:
    def fails(params: Any) -> Any:
        raise KeyError("no such thing")

    with Sandbox(toolchains=[guests], host={"db.query": fails, "db.bad": lambda params: object()}) as box:
        assert ask(box, "db.query")["error"]["message"] == "db.query: KeyError: 'no such thing'"
        assert "not JSON serializable" in ask(box, "db.bad")["error"]["message"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_exception_that_is_no_error_ends_the_program_and_is_raised(guests: Path, error: BaseException) -> None:
    def fails(params: Any) -> Any:
        raise error

    with Sandbox(toolchains=[guests], host={"db.query": fails}) as box:
        with pytest.raises(type(error)):
            box.sh("ask db.query; while :; do :; done")
        with pytest.raises(type(error)):
            box.host_call("db.query")
        assert box.sh("echo goes on").text == "goes on\n"


def test_tools_are_listed_and_called_by_name(guests: Path) -> None:
    def add(a: int, b: float = 1.0) -> float:
        """Adds two numbers."""
        return a + b

    with Sandbox(toolchains=[guests], tools=[add, belljar.Tool(lambda: "now", "clock", "Tells the time")]) as box:
        tools = {tool["name"]: tool for tool in ask(box, "tool.list")["ok"]}
        assert tools["add"]["description"] == "Adds two numbers."
        assert tools["add"]["input_schema"] == {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "number"}},
            "required": ["a"],
        }
        assert ask(box, "tool.call", {"name": "add", "args": {"a": 2}}) == {"ok": 3.0}
        assert ask(box, "tool.call", {"name": "clock"}) == {"ok": "now"}
        assert "missing" in ask(box, "tool.call", {"name": "add", "args": {"b": 2}})["error"]["message"]
        assert "unknown tool" in ask(box, "tool.call", {"name": "none"})["error"]["message"]


def test_callback_cannot_use_the_sandbox_of_its_program(guests: Path) -> None:
    boxes: list[Sandbox] = []

    def call(params: Any) -> Any:
        return boxes[params["index"]].sh("echo inner").text

    with Sandbox(toolchains=[guests], host={"db.query": call}) as box:
        boxes += [box, box.fork()]
        assert "SandboxBusy" in ask(box, "db.query", {"index": 0})["error"]["message"]
        assert ask(box, "db.query", {"index": 1}) == {"ok": "inner\n"}


def test_policy_blocks_commands_and_result_is_kept(guests: Path) -> None:
    policy = {"version": 1, "deny": ["rm *"]}
    with Sandbox(toolchains=[guests], policy=policy) as box:
        assert box.host_call("process.exec", {"command": "rm -r /tmp"})["status"] == "blocked"
        assert box.host_call("process.exec", {"command": "echo hi"})["stdout"] == "hi\n"
        ask(box, "runtime.set_result", {"value": {"score": 5}})
        assert box.host_result == {"score": 5}
    with pytest.raises(belljar.InvalidArgument, match="policy"):
        Sandbox(policy={"wrong": 1})


def test_run_has_functions_too(guests: Path) -> None:
    done = belljar.run(guests / "ask.wasm", ["db.query"], host={"db.query": lambda params: 7})
    assert done.json() == {"ok": 7}
