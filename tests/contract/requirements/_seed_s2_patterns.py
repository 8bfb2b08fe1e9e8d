"""The code blocks of the document Coordinator API after its methods, each by its first line."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "STWO-903": Requirement(
        "S2:903 Hook Result Processing",
        (
            "A result other than `continue` is processed by the coordinator, and a denial stops "
            "the operation."
        ),
    ),
    "STWO-931": Requirement(
        "S2:931 Hook Result Processing",
        (
            "An injection is checked against the size limit, counted against the budget and "
            "stored with its provenance unless it is ephemeral."
        ),
        reading=(
            "The shown comparison fails without limits: None means unlimited. The timestamp is "
            "in UTC."
        ),
    ),
    "STWO-960": Requirement(
        "S2:960 Hook Result Processing",
        (
            "A question goes to the approval system by keyword, and its answer becomes "
            "`continue` or `deny`."
        ),
        reading=(
            "The seed lets every answer but `Deny` pass; only the allow family of answers does."
        ),
    ),
    "STWO-985": Requirement(
        "S2:985 Hook Result Processing",
        (
            "The orchestrator appends an ephemeral injection to the current request, to the "
            "last tool result or as a message."
        ),
        reading=(
            '`messages[-1]["content"] += ...` changes what the context handed out; a context '
            "hands out copies. `provider.complete(messages)` is short for a ChatRequest."
        ),
    ),
    "STWO-1016": Requirement(
        "S2:1016 Capability System",
        "A module registers functions of its tool as capabilities.",
    ),
    "STWO-1027": Requirement(
        "S2:1027 Capability System",
        "A module uses a capability if it is there, else a fallback.",
    ),
    "STWO-1055": Requirement(
        "S2:1055 Capability System",
        "Capabilities are grouped in namespaces by dotted names, functions and values alike.",
    ),
    "STWO-1073": Requirement(
        "S2:1073 Capability System",
        "A capability is read under a type of the caller's and called with it.",
        reading=(
            "Here `agents.spawn` takes an agent and a dict of settings; S2:639 and S2:1200 pass "
            "a task."
        ),
    ),
    "STWO-1089": Requirement(
        "S2:1089 Capability System",
        "Capabilities contributed to a channel are merged to one dict.",
    ),
    "STWO-1121": Requirement(
        "S2:1121 Examples",
        (
            "A module imports HookResult from `amplifier_core.models` and returns its cleanup "
            "from mount."
        ),
    ),
    "STWO-1135": Requirement(
        "S2:1135 Basic Module Mounting",
        "A tool module creates, mounts and cleans up its tool.",
        reading="The cleanup is both registered and returned; it runs once.",
    ),
    "STWO-1162": Requirement(
        "S2:1162 Multi-Module Access",
        (
            "A hook module reads context and tools, refuses to mount without a context, and "
            "adds messages from its hook."
        ),
    ),
    "STWO-1200": Requirement(
        "S2:1200 Capability Registration",
        "A module offers to list, get and spawn the agents of its config, each in a child session.",
        reading="Here `agents.spawn` takes an agent and a task; S2:1073 passes a dict of settings.",
    ),
    "STWO-1248": Requirement(
        "S2:1248 Hook Result Processing",
        (
            "An orchestrator runs a tool between `tool:pre` and `tool:post` and acts on "
            "denials, changes and injections."
        ),
        reading=(
            "The registry surfaces a change as `continue` with changed data (HOOK-31); the shown "
            "test for `modify` is for registries that surface it as an action. Other documents "
            "call `tool_result` `result`; the event carries what the orchestrator puts in."
        ),
    ),
    "STWO-1299": Requirement(
        "S2:1299 Contribution Channel",
        "A module contributes the names of its events by keyword.",
    ),
    "STWO-1318": Requirement(
        "S2:1318 Contribution Channel",
        "A consumer collects, flattens, sorts and counts the events of all modules.",
    ),
    "STWO-1343": Requirement(
        "S2:1343 Child Session Spawning",
        (
            "A child session has its parent's modules, an id of its own and the parent's id, "
            "and is cleaned up on exit."
        ),
    ),
}
