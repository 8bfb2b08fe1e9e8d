"""The capabilities by which modules reach the agents of a session."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "AGENT-1": Requirement(
        "S2 register_capability; S2 Examples / Capability Registration",
        "`agents.list` is an async function that returns the names of the configured agents.",
    ),
    "AGENT-2": Requirement(
        "S2 Examples / Capability Registration",
        (
            "`agents.get(agent_id)` is async and returns the configuration of an agent, and an "
            "empty one for a name that nobody has."
        ),
    ),
    "AGENT-3": Requirement(
        "S2 get_capability; S2 Examples / Capability Registration; S2 Capability System",
        (
            "`agents.spawn(agent_id, task)` is async, runs a child session with the agent's "
            "configuration and returns its answer."
        ),
        reading=(
            "One example passes settings and names the result a session id, the whole module "
            "passes the task and returns the answer; the latter is taken, `task` may be a keyword, "
            "and anything but a text is refused, because it does not say what to do."
        ),
    ),
    "AGENT-4": Requirement(
        "S2 Examples / Capability Registration",
        "`agents.spawn` raises ValueError for an agent that is not configured.",
    ),
    "AGENT-5": Requirement(
        "own tool-task",
        (
            "A spawned agent is inside the limits, the budget, the guards and the events of one "
            "that the tool `task` starts, in this process and with a `task.runner`."
        ),
    ),
    "AGENT-6": Requirement(
        "own tool-task",
        "In a session that is too deep for children, `agents.spawn` refuses with an error.",
    ),
    "AGENT-7": Requirement(
        "own tool-task",
        "A spawned agent that does not complete raises an error with what it has so far.",
    ),
}
