"""Every code block of the module contracts (S1): what it shows, and how it is read.

The number of an ID is the line at which the block starts.
"""

from __future__ import annotations

from contract.requirements._model import Requirement

_VALIDATES = "The command checks the structure of the module `{}` in its folder and succeeds."
_PROJECT = "The entry point of the group `amplifier.modules` makes `{0}` the mount of `{1}`."
_EVENTS = "A module contributes the names of its own events to `observability.events`."
_PLACEHOLDER = "`...` is a placeholder: a test gives what it stands for."


def _shows(
    line: int, section: str, says: str, reading: str | None = None
) -> tuple[str, Requirement]:
    return f"SONE-{line}", Requirement(f"S1:{line} {section}", says, reading)


_README = (
    _shows(
        50,
        "Quick Start Pattern",
        "A module is a class, a mount function that mounts and may return it, and an entry point.",
        "`category` stands for a mount point and is not one; the class takes its configuration.",
    ),
    _shows(
        96,
        "Validation",
        "The command checks a module without `--type`.",
        "The type of `my-module` is inferred from what it mounts.",
    ),
)
_TOOL = (
    _shows(151, "Protocol Definition", "The Tool protocol: name, description, execute."),
    _shows(185, "ToolCall (Input)", "A ToolCall has an id, a name and arguments."),
    _shows(196, "ToolResult (Output)", "A ToolResult has success, output and error."),
    _shows(
        209,
        "mount() Function",
        "A tool's mount mounts it at `tools` under a name and may return it.",
        "The name it is mounted under and its own name differ: the model calls it by its own.",
    ),
    _shows(226, "pyproject.toml", _PROJECT.format("my_tool:mount", "my-tool")),
    _shows(
        239,
        "Name and Description",
        "Name and description of a tool may be properties.",
        "S1:209 mounts it as `my-tool`: the model calls a tool by its own name, `my_tool`.",
    ),
    _shows(258, "execute() Method", "A tool reports bad input and failures as results."),
    _shows(
        288,
        "Tool Schema",
        "A tool may give its input schema by `get_schema`, and loops show it to the model.",
        "Published loops read `input_schema`; ours take either, and the validator warns.",
    ),
    _shows(313, "Configuration", "A plan names a tool's module, source and configuration."),
    _shows(331, "Observability", _EVENTS),
    _shows(384, "Testing", "A tool is tested by calling it; `TestCoordinator` can be imported."),
    _shows(
        401,
        "MockTool for Testing Orchestrators",
        "A MockTool takes name, description and return value, counts calls and keeps the input.",
        _PLACEHOLDER,
    ),
    _shows(419, "Quick Validation Command", _VALIDATES.format("my-tool")),
)
_PROVIDER = (
    _shows(
        481,
        "Protocol Definition",
        "The Provider protocol: name, get_info, list_models, complete, parse_tool_calls.",
    ),
    _shows(
        504,
        "mount() Function",
        "A provider's mount returns None without a key, else mounts it and returns a cleanup.",
    ),
    _shows(530, "pyproject.toml", _PROJECT.format("my_provider:mount", "my-provider")),
    _shows(
        541,
        "Configuration",
        "A plan names a provider's module, source and configuration, with its key as a variable.",
        "The app replaces `${MY_API_KEY}`; the kernel reads no environment for a module.",
    ),
    _shows(559, "Observability", _EVENTS),
    _shows(607, "Testing", "A test mounts a provider on a coordinator and finds it by its name."),
    _shows(625, "Quick Validation Command", _VALIDATES.format("my-provider")),
)
_HOOK = (
    _shows(
        693, "Protocol Definition", "The HookHandler protocol: an async call of event and data."
    ),
    _shows(724, "HookResult Actions", "A HookResult observes, denies, injects or asks the user."),
    _shows(
        754,
        "mount() Function",
        "A hook's mount registers handlers with priorities and returns one cleanup for them.",
    ),
    _shows(782, "pyproject.toml", _PROJECT.format("my_hook:mount", "my-hook")),
    _shows(
        793, "Event Registration", "A handler is registered by keyword, and unregistered by a call."
    ),
    _shows(831, "Configuration", "A plan names a hook's module, source and configuration."),
    _shows(850, "Observability", _EVENTS),
    _shows(
        901,
        "Testing",
        "A handler is tested by calling it, a hook module on a `TestCoordinator`.",
        "The class is also called `MockCoordinator`, its name in the published kernel.",
    ),
    _shows(929, "EventRecorder for Testing", "An EventRecorder keeps events as name and data."),
    _shows(947, "Quick Validation Command", _VALIDATES.format("my-hook")),
)
_ORCHESTRATOR = (
    _shows(
        1001,
        "Protocol Definition",
        "The Orchestrator protocol: execute with prompt, context, providers, tools and hooks.",
        "The kernel also passes `coordinator`, to a loop whose signature takes it.",
    ),
    _shows(
        1034,
        "Execution Flow",
        "A turn asks the model until it calls no tool, with events and memory in a fixed order.",
        "`provider.complete(messages)` is a ChatRequest with the messages of the context.",
    ),
    _shows(
        1066,
        "mount() Function",
        "An orchestrator's mount mounts it and may return it.",
        '`mount("session", x, name="orchestrator")` is another name of `mount("orchestrator", x)`.',
    ),
    _shows(1083, "pyproject.toml", _PROJECT.format("my_orchestrator:mount", "my-orchestrator")),
    _shows(
        1096,
        "Event Emission",
        "A loop announces model calls and tool calls before and after, with these data.",
        (
            "`tool_call.input` is another name of `arguments`; `tool_result` of `result`. Our "
            "loops leave `messages` out of `provider:request`: see READINGS.md."
        ),
    ),
    _shows(
        1134,
        "Hook Processing",
        "A loop denies, replaces data, injects or asks, as the answer to `tool:pre` says.",
        "`ToolResult(is_error=True)` means `success=False`. The registry gives `continue` with the "
        "changed data where the block tests for `modify`: a loop takes the data either way.",
    ),
    _shows(1164, "Context Management", "A loop adds messages to the context and asks it for them."),
    _shows(1186, "Provider Selection", "A loop chooses among providers by their names."),
    _shows(1201, "Configuration", "A plan names its orchestrator and its context by their ids."),
    _shows(1217, "Observability", _EVENTS),
    _shows(
        1273,
        "Testing",
        "An orchestrator is tested with doubles of everything that it is given.",
        "`MockProvider` is used without an import; the testing kit has one.",
    ),
    _shows(
        1304,
        "ScriptedOrchestrator for Testing",
        "A ScriptedOrchestrator gives its responses in turn.",
        _PLACEHOLDER,
    ),
    _shows(1318, "Quick Validation Command", _VALIDATES.format("my-orchestrator")),
)
_CONTEXT = (
    _shows(
        1372,
        "Protocol Definition",
        "The ContextManager protocol: add, get for a request, get, set and clear messages.",
    ),
    _shows(
        1419,
        "Message Format",
        "Messages are dicts with a role, content, and the calls or the call they belong to.",
        "Content may be None beside tool calls; loops store `{id, tool, arguments}`, contexts take "
        "both shapes.",
    ),
    _shows(
        1465,
        "mount() Function",
        "A context's mount mounts it with its limits and may return it.",
        '`mount("session", x, name="context")` is another name of `mount("context", x)`.',
    ),
    _shows(1485, "pyproject.toml", _PROJECT.format("my_context:mount", "my-context")),
    _shows(1498, "add_message()", "A context refuses a message without a role."),
    _shows(
        1516,
        "get_messages_for_request()",
        "A context fits a request into the explicit budget, else the provider's, else its own.",
        "Its compaction changes the history, which S1:1639 forbids; there the view is a copy.",
    ),
    _shows(1569, "get_messages()", "A context returns a copy of all messages."),
    _shows(1579, "set_messages()", "A context takes the messages of a resumed session."),
    _shows(
        1590,
        "set_messages()",
        "A context with a file of its own keeps its history when a session is resumed.",
    ),
    _shows(1622, "clear()", "A context forgets its messages and their tokens."),
    _shows(
        1639,
        "Non-Destructive Compaction",
        "A request gets a compacted view, and the full history stays as it is.",
    ),
    _shows(
        1674,
        "Non-Destructive Compaction",
        "A context compacts a copy and always returns the full history.",
    ),
    _shows(
        1699,
        "Tool Pair Preservation",
        "Compaction keeps tool calls and their results together, and is announced with counts.",
        "It changes the stored history, which S1:1639 forbids; our contexts compact a view.",
    ),
    _shows(
        1759,
        "Simple Truncation",
        "The newest messages are kept, from a place that splits no tool pair.",
        "As S1:1699: on a copy, not on the history.",
    ),
    _shows(
        1772,
        "Summarization",
        "Old messages are replaced by a summary.",
        "As S1:1699: on a copy, not on the history.",
    ),
    _shows(
        1788,
        "Importance-Based",
        "The most important messages are kept.",
        "As S1:1699: on a copy, not on the history.",
    ),
    _shows(1803, "Configuration", "A plan names its context by its id."),
    _shows(1819, "Observability", _EVENTS),
    _shows(
        1873,
        "Testing",
        "A context stores, compacts without orphaned results, clears and resumes.",
        _PLACEHOLDER,
    ),
    _shows(
        1956, "MockContextManager for Testing", "A MockContextManager shows its messages to tests."
    ),
    _shows(1973, "Quick Validation Command", _VALIDATES.format("my-context")),
)
_SOURCES = (
    _shows(2007, "ModuleSource Protocol", "The ModuleSource protocol: resolve to a directory."),
    _shows(
        2038,
        "ModuleSourceResolver Protocol",
        "The ModuleSourceResolver protocol: resolve an id and a hint to a source.",
        "The published name of the hint is `source_hint`; a resolver may take either.",
    ),
    _shows(
        2077,
        "Module Loader API",
        "A loader asks the mounted resolver, and discovers directly when there is none.",
        "`profile_source` is another name of `source_hint`.",
    ),
    _shows(
        2124,
        "Mounting a Custom Resolver",
        "A resolver that is mounted without awaiting is used by the loader.",
        "`AmplifierModuleLoader` is `ModuleLoader`.",
    ),
    _shows(2163, "ModuleNotFoundError", "A module that nobody knows is named in an error."),
    _shows(
        2179, "ModuleLoadError", "A module that is found and cannot be used raises ModuleLoadError."
    ),
    _shows(
        2212,
        "Example: Custom Resolver",
        "A resolver answers by overrides, then by the hint, then by a default.",
    ),
)

REQUIREMENTS: dict[str, Requirement] = dict(
    (*_README, *_TOOL, *_PROVIDER, *_HOOK, *_ORCHESTRATOR, *_CONTEXT, *_SOURCES)
)
