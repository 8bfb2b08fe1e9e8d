"""Mistakes with pydantic-ai, each with its number; a type checker reports all or some of them."""

from dataclasses import dataclass

from pydantic_ai import Agent, Agnet, RunContext, TextPartDelta  # 1  # noqa: F401
from pydantic_ai.capabilities import Hooks


@dataclass
class User:
    name: str


@dataclass
class Shop:
    city: str


agent = Agent("test", deps_type=User)
plain = Agent("test")
counter = Agent("test", output_type=int)
hooks = Hooks[User]()


@agent.tool_plain(timeot=2)  # 2
def one() -> str: ...


@agent.tool_plain(docstring_format="gogle")  # 3
def two() -> str: ...


def of_shop(context: RunContext[Shop]) -> str:
    return context.deps.ctiy  # 4


agent.tool(of_shop)  # 5
Agent("test", instruction="Be brief.")  # 6
agent.run_sync("Hello?", deps=Shop("Oslo"))  # 7
agent.run_sync("Hello?")  # 8
number: int = plain.run_sync("Hello?").output  # 9
text: str = counter.run_sync("Hello?").output  # 10


def hear(event: TextPartDelta) -> str:
    print(hooks.on.befor_tool_execute)  # 11
    return event.contnet_delta  # 12
