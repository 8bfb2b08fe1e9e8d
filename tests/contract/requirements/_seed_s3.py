"""The code blocks and tables of the document Core Contracts, each by its first line."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "STHREE-9": Requirement(
        "S3 Naming Convention, line 9",
        (
            "Data models are pydantic models, interfaces are protocols, words are literals, and "
            "tagged unions are distinguished by `type`."
        ),
    ),
    "STHREE-25": Requirement(
        "S3 Trait Mapping, line 25",
        "Each protocol of `interfaces` demands exactly the members that the table lists for it.",
        reading="A tool's members are those of S1; `get_spec` is the other language's.",
    ),
    "STHREE-37": Requirement(
        "S3 Core Models, line 37; S3 Message Models, line 57",
        "Each enumeration of words accepts exactly the words of its row.",
    ),
    "STHREE-94": Requirement(
        "S3 Behavioral Type Mapping, line 94",
        (
            "The five engine types are exported at the top level with the methods that their rows "
            "list, and the config is a plain dict."
        ),
        reading="The `Rust*` aliases are not kept (API-5).",
    ),
    "STHREE-131": Requirement(
        "S3 Hook Errors, line 131",
        "Whatever a handler raises, a timeout of its own included, is logged and not raised.",
        reading="The table gives TimeoutError for a timeout; none reaches the emitter.",
    ),
    "STHREE-140": Requirement(
        "S3 Rust-Only Error Types, line 140",
        "A tool error is a ToolResult with success False and a dict as error.",
    ),
    "STHREE-147": Requirement(
        "S3 Python-Only Types, line 147",
        "Each Python-only type is importable from the file of its row.",
        reading="The row `cli`: the command line is a package of its own, `amplifier_cli`.",
    ),
    "STHREE-163": Requirement(
        "S3:163 mount(coordinator, config)",
        (
            "`mount` is an async function of a module that takes coordinator and config and may "
            "return None or a cleanup."
        ),
    ),
    "STHREE-175": Requirement(
        "S3 mount(coordinator, config), line 175",
        (
            "Whatever kind of callable a mount returns is its cleanup, for hook modules too: a "
            "partial, a method of a builtin, an object with `__call__`."
        ),
    ),
    "STHREE-183": Requirement(
        "S3:183 mount(coordinator, config)",
        "The canonical cleanup is an async closure, awaited when the session is torn down.",
    ),
    "STHREE-198": Requirement(
        "S3:198 on_session_ready(coordinator)",
        "`on_session_ready` is an async function of a module that takes the coordinator alone.",
    ),
    "STHREE-211": Requirement(
        "S3 on_session_ready() Contract, line 211; S3 Dispatch ordering, line 217",
        "Within a kind, ready callbacks run in the order in which the plan names the modules.",
    ),
    "STHREE-234": Requirement(
        "S3:234 on_session_ready: before",
        "A global of a module is shared by all sessions of the process, which is the fault shown.",
        reading=(
            'The block is the anti-pattern. `get("tools", {})` passes a dict as the name: `get` '
            "has no default, and the call is refused."
        ),
    ),
    "STHREE-246": Requirement(
        "S3:246 on_session_ready: after",
        "What a ready callback registers as a capability belongs to its own session.",
    ),
    "STHREE-266": Requirement(
        "S3:266 on_session_ready: canonical use",
        "A ready callback subscribes to the events of the core and to all that modules declared.",
    ),
    "STHREE-308": Requirement(
        "S3 Rules for Modifying Shared Types, line 308",
        "The content of a tool result dumps to the same JSON that it was made of.",
    ),
}
