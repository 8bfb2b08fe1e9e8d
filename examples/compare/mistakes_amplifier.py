"""Mistakes with `amplifier`, each with its number; a type checker reports all or some of them."""

from dataclasses import dataclass

from amplifier import Agent, Agnet, Context, TextDelta, tool  # 1  # noqa: F401
from amplifier_core import HookRegistry


@dataclass
class User:
    name: str


@dataclass
class Shop:
    city: str


@tool(efect="pure")  # 2
def one() -> str: ...


@tool(effect="puer")  # 3
def two() -> str: ...


@tool
def of_shop(context: Context[Shop]) -> str:
    return context.deps.ctiy  # 4


agent = Agent("mock:demo", tools=[of_shop], deps=User)  # 5
plain = Agent("mock:demo")
counter = Agent("mock:demo", output=int)
Agent("mock:demo", instruction="Be brief.")  # 6
agent.run_sync("Hello?", deps=Shop("Oslo"))  # 7
agent.run_sync("Hello?")  # 8
number: int = plain.run_sync("Hello?").output  # 9
text: str = counter.run_sync("Hello?").output  # 10


async def note(event: str, data: dict[str, object]) -> None: ...


def hear(event: TextDelta, hooks: HookRegistry) -> str:
    hooks.register("tool:prre", note)  # 11
    return event.txt  # 12
