"""What each published module takes from the kernel, used exactly in that way."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "PUB-1": Requirement(
        "spec 5.1 loop-basic",
        "The names loop-basic imports are where it looks for them.",
    ),
    "PUB-2": Requirement(
        "spec 5.1 loop-basic",
        (
            "A loop can mount itself, process hook results, track its tools in the token and "
            "trigger the callbacks."
        ),
    ),
    "PUB-3": Requirement(
        "spec 5.1 loop-basic",
        "A loop needs no more of the registry than `emit` and the result fields it reads.",
    ),
    "PUB-4": Requirement(
        "spec 5.1 loop-basic",
        (
            "A loop reads name, description, input schema and execute of a tool, and the "
            "serialized output of its result."
        ),
    ),
    "PUB-5": Requirement(
        "spec 5.1 loop-streaming",
        (
            "The names loop-streaming imports are where it looks for them, and a ToolSpec carries "
            "native tool fields."
        ),
    ),
    "PUB-6": Requirement(
        "spec 5.1 loop-streaming",
        (
            "A loop can contribute its events, register `session.steer`, look up a capability "
            "lazily and keep a goal in the session state."
        ),
    ),
    "PUB-7": Requirement(
        "spec 5.1 loop-streaming",
        "A loop finds no `_tool_dispatch_contexts` on a new coordinator and can put its own there.",
    ),
    "PUB-8": Requirement(
        "spec 5.1 loop-streaming",
        "The goal tests of the streaming loop find `ProviderPreference`.",
        deferred="That name belongs to the foundation package.",
    ),
    "PUB-9": Requirement(
        "spec 5.1 loop-events",
        "A loop can work on `get_messages`, `should_compact` and `compact` of the context.",
    ),
    "PUB-10": Requirement(
        "spec 5.1 context-persistent",
        "A context can take session id and hooks from the coordinator by getattr and mount itself.",
    ),
    "PUB-11": Requirement(
        "spec 5.1 context-persistent",
        "The persistent context subclasses the simple one by its published import name.",
    ),
    "PUB-12": Requirement(
        "spec 5.1 tool-filesystem / tool-bash / tool-web",
        "A tool module reads capabilities, emits artifact events and mounts several tools by name.",
    ),
    "PUB-13": Requirement(
        "spec 5.1 tool-filesystem / tool-bash / tool-web",
        "A tool module may write into the config it receives, and returns an async cleanup.",
    ),
    "PUB-14": Requirement(
        "spec 5.1 provider-openai",
        "The names provider-openai imports are where it looks for them.",
    ),
    "PUB-15": Requirement(
        "spec 5.1 provider-openai",
        "A provider builds a RetryConfig by keyword, reads it back and retries with it.",
    ),
    "PUB-16": Requirement(
        "spec 5.1 provider-openai",
        (
            "A provider mounts by name, contributes its cost, looks up an engine capability, and "
            "mounts nothing without a key."
        ),
    ),
    "PUB-17": Requirement(
        "spec 5.1 hooks-approval",
        (
            "An approval hook registers a bound method early, offers a capability, reads the "
            "session state and emits from inside a handler."
        ),
    ),
    "PUB-18": Requirement(
        "spec 5.1 hooks-redaction",
        (
            "A redaction hook registers one handler under one name on twenty events and modifies "
            "by a scrubbed copy."
        ),
    ),
    "PUB-19": Requirement(
        "spec 5.1 App layers",
        (
            "An application builds sessions by keyword, mounts its resolver first and uses the "
            "registry, token, channels and state."
        ),
    ),
    "PUB-20": Requirement(
        "spec C",
        (
            "A plan with a loop, a context, a provider, a tool and redacting and approving hooks "
            "runs through an async resolver."
        ),
    ),
    "PUB-21": Requirement(
        "spec C",
        (
            "Cancelling a parent at once while the child's tool runs makes the child's token "
            "immediate, and both announce it."
        ),
    ),
    "PUB-22": Requirement(
        "spec C",
        "Cleaning up twice ends the session once, runs cleanups once and restores the import path.",
    ),
}
