"""A budget for each user, in dollars, which lasts through all sessions and a restart.

It prints how each request of two users ends, and what each of them has spent.
"""

import asyncio
import json
import tempfile
from pathlib import Path

from amplifier import Agent, Budget

LIMIT = "0.08"
# Dollars per million tokens. Models of vendors have known prices; the mock has none.
PRICES = {"mock": {"input": 3.0, "output": 15.0}}
LONG = "A long question. " * 600

agent = Agent({"module": "provider-mock", "config": {"mode": "echo", "max_output_tokens": 3000}})


class Budgets:
    """The budgets of all users, stored in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        states: dict[str, dict[str, object]] = {}
        if file.is_file():
            states = json.loads(file.read_text("utf-8"))
        self._budgets = {user: self._budget(state) for user, state in states.items()}

    def of(self, user: str) -> Budget:
        return self._budgets.setdefault(user, self._budget({}))

    def save(self) -> None:
        states = {user: budget.state for user, budget in self._budgets.items()}
        self._file.write_text(json.dumps(states), "utf-8")

    def _budget(self, state: dict[str, object]) -> Budget:
        return Budget(LIMIT, prices=PRICES, state=state)


async def ask(budgets: Budgets, user: str, prompt: str) -> None:
    done = await agent.run(prompt, budget=budgets.of(user))
    budgets.save()
    print(f"{user}: {done.stop_reason}, ${budgets.of(user).used_usd:.4f} of ${LIMIT}")


async def main(file: Path) -> None:
    budgets = Budgets(file)
    await ask(budgets, "ann", "Hello?")
    await ask(budgets, "bob", LONG)
    print("restart")
    budgets = Budgets(file)
    await ask(budgets, "ann", "Hello again?")
    await ask(budgets, "bob", LONG)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "budgets.json"))
