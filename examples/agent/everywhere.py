"""One agent in four places: in this process, in a browser, on workers that die, and in a replay.

python examples/agent/everywhere.py run       in this process
python examples/agent/everywhere.py serve     then open http://127.0.0.1:8000
python examples/agent/everywhere.py durable   its worker is killed, and another one continues
python examples/agent/everywhere.py replay    a recorded session, with other instructions
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import fastapi
import uvicorn
from fastapi.responses import HTMLResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from shop import MODEL, TOOLS, Shop, agent

from amplifier import Agent, Done, TextDelta, ToolEnded, ToolStarted
from amplifier.testing import replay

PROMPT = "Please find order 7."
PAGE = """<!doctype html><title>Shop</title><p id=answer></p><script>
const stream = new EventSource("/stream");
stream.onmessage = (event) => { answer.textContent += JSON.parse(event.data); };
stream.addEventListener("done", () => { stream.close(); document.title = "Done"; });
</script>"""
app = fastapi.FastAPI()


@app.get("/", response_class=HTMLResponse)
def page() -> str:
    return PAGE


@app.get("/stream", response_class=EventSourceResponse)
async def stream() -> AsyncIterator[ServerSentEvent]:
    opening = agent.session(deps=Shop("ledger"))
    async with opening as session, aclosing(session.stream(PROMPT)) as events:
        async for event in events:
            match event:
                case TextDelta(text):
                    yield ServerSentEvent(data=text)
                case ToolStarted(name):
                    yield ServerSentEvent(data=f"({name}) ")
                case Done(stop_reason=reason):
                    yield ServerSentEvent(event="done", data=reason)
                case _:
                    pass


async def work(database: str) -> None:
    async with agent.durable(database) as durable, durable.worker():
        await asyncio.Event().wait()


def start_worker(database: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "work", database])


async def durably(folder: Path) -> None:
    database = f"sqlite:///{folder / 'shop.sqlite'}"
    async with agent.durable(database) as durable:
        turn = await durable.submit("orders", PROMPT, deps=Shop(str(folder / "ledger")))
        first = start_worker(database)
        async for event in turn.stream():
            if isinstance(event, ToolEnded):
                break
        first.kill()
        print("killed the worker after the tool call")
        second = start_worker(database)
        print((await turn.result()).output)
        second.terminate()
        second.wait()


async def replayed(folder: Path) -> None:
    async with agent.session("orders", store=folder, deps=Shop("ledger")) as session:
        await session.run(PROMPT)
    print(await replay(folder, "orders", agent=agent))
    changed = Agent(MODEL, instructions="You work in a library.", tools=TOOLS, deps=Shop)
    result = await replay(folder, "orders", agent=changed)
    print(result.first)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        match sys.argv[1:]:
            case ["run"]:
                print(agent.run_sync(PROMPT, deps=Shop("ledger")).output)
            case ["serve", *port]:
                uvicorn.run(app, port=int(port[0]) if port else 8000)
            case ["durable"]:
                asyncio.run(durably(Path(name)))
            case ["replay"]:
                asyncio.run(replayed(Path(name)))
            case ["work", database]:
                asyncio.run(work(database))
            case _:
                print(__doc__)
