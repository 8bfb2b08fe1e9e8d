"""An MCP server in plain JSON-RPC that misbehaves as the file `plan.json` beside it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PLAN: dict[str, Any] = json.loads(Path("plan.json").read_text("utf-8"))


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def call(number: int, name: str, arguments: dict[str, Any]) -> None:
    """Do what the plan has for the tool: an answer, or something worse."""
    does: Any = PLAN.get("does", {}).get(name, "echo")
    words = {"echo": arguments, "environment": dict(os.environ)}
    results = {"twice": text("first"), "nonsense": {"content": "nonsense"}}
    if isinstance(does, dict):
        send(id=number, result=does)
    elif does in words:
        send(id=number, result=text(json.dumps(words[does])))
    elif does in results:
        send(id=number, result=results[does])
        send(id=number, result=text("second"))
    else:
        misbehave(does, number, arguments)


def misbehave(does: str, number: int, arguments: dict[str, Any]) -> None:
    if does == "write":
        try:
            Path(arguments["path"]).write_text("written", "utf-8")
            send(id=number, result=text("written"))
        except OSError as error:
            send(id=number, result=text(str(error), isError=True))
    elif does == "die":
        Path("died").write_text("1", "utf-8")
        os._exit(3)
    elif does == "hang":
        Path("hanging").write_text("1", "utf-8")
    elif does == "error":
        send(id=number, error={"code": -32000, "message": "out of paper"})
    elif does == "foreign":
        send(id=number + 1_000, result=text("not yours"))
    elif does == "change":
        PLAN["tools"] = PLAN["later"]
        send(method="notifications/tools/list_changed")
        send(id=number, result=text("changed"))
    elif does == "long":
        sys.stdout.write("x" * 20_000_000 + "\n")
        sys.stdout.flush()


def answer(message: dict[str, Any]) -> None:
    method, number = message.get("method"), message.get("id", 0)
    if method == "initialize":
        if PLAN.get("hangs_at_start"):
            time.sleep(600)
        send(
            id=number,
            result={
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "planned", "version": "1"},
            },
        )
    elif method == "tools/list":
        more = {"nextCursor": "again"} if PLAN.get("endless_list") else {}
        send(id=number, result={"tools": PLAN.get("tools", []), **more})
    elif method == "tools/call":
        call(number, message["params"]["name"], message["params"].get("arguments") or {})


def main() -> None:
    with Path("starts").open("a", encoding="utf-8") as starts:
        starts.write(json.dumps([os.getpid(), *sys.argv[1:]]) + "\n")
    for _ in range(PLAN.get("stderr_lines", 0)):
        sys.stderr.write("noise " * 100 + "\n")
    if PLAN.get("greets"):
        sys.stdout.write("Welcome to this server!\n")
    if PLAN.get("has_child"):
        subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; exec sleep 301"], start_new_session=True)
    for line in sys.stdin:
        answer(json.loads(line))
    if PLAN.get("hangs_at_end"):
        time.sleep(600)


main()
