"""Research by several agents: a lead gives two questions to a researcher, both at the same time.

It prints what each sub-agent reports, the answer, and what all of them used of one budget.
"""

import asyncio

from amplifier import Agent, Budget, Done, ToolEnded, tool

NOTES = {"price": "Copper costs twice as much as in 2020.", "supply": "Two mines closed in 2025."}


@tool(effect="pure")
def search_notes(topic: str) -> str:
    """Search the notes for a topic."""
    return next((text for word, text in NOTES.items() if word in topic), "nothing found")


researcher = Agent(
    "mock:demo",
    instructions="Answer from the notes only.",
    tools=[search_notes],
    description="Answers a question from the notes.",
)
# The lead is scripted: it asks both questions in one step, then sums up.
LEAD = [
    {
        "tool_calls": [
            {"name": "task", "arguments": {"agent": "researcher", "prompt": question}}
            for question in ('Search the notes for "price"', 'Search the notes for "supply"')
        ]
    },
    "Copper is dear because supply fell.",
]
lead = Agent(
    {"module": "provider-mock", "config": {"script": LEAD}},
    instructions="Plan the research, delegate it, and sum up.",
    agents={"researcher": researcher},
)


async def main() -> None:
    budget = Budget(calls=20)
    async with lead.session(budget=budget) as session:
        async for event in session.stream("Why is copper dear?"):
            match event:
                case ToolEnded("task", output):
                    print("report:", output)
                case Done(output):
                    print("answer:", output)
                case _:
                    pass
    print(budget.used_calls, "model calls")


if __name__ == "__main__":
    asyncio.run(main())
