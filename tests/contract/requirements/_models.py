"""The data models modules exchange, field by field."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "MODEL-1": Requirement(
        "S1 Tool Contract / Data Models; spec 1.3",
        (
            "A ToolResult has success, output, error and content with the published defaults, and "
            "ignores unknown keywords."
        ),
    ),
    "MODEL-2": Requirement(
        "S1 Orchestrator Contract / Hook Processing; spec 4.2 #2",
        "`ToolResult(is_error=True)` is a failure.",
        reading=(
            "Upstream ignores the seed's field and makes a denial a success; it is mapped to "
            "`success`."
        ),
    ),
    "MODEL-3": Requirement(
        "spec 1.3",
        "A failed ToolResult without output takes its error message as output.",
    ),
    "MODEL-4": Requirement(
        "S3 Core Models; spec 1.3",
        (
            "`str` of a ToolResult is its output or `Success`, and for a failure `Error:` with the "
            "message or `Failed`."
        ),
    ),
    "MODEL-5": Requirement(
        "S3 Core Models; spec 1.3",
        (
            "`get_serialized_output` gives dicts and lists as JSON, other output as text, and a "
            "word for an absent one, for failures as well."
        ),
    ),
    "MODEL-6": Requirement(
        "spec 1.3",
        (
            "Serialized output writes Decimal as text and refuses other foreign types with `is not "
            "JSON serializable`."
        ),
    ),
    "MODEL-7": Requirement(
        "spec 1.3",
        (
            "Serialized output loses control characters and lone surrogates but keeps tab, line "
            "feed and carriage return."
        ),
    ),
    "MODEL-8": Requirement(
        "spec 1.3",
        (
            "ToolResult content is None or a list of text and image blocks reduced to the "
            "published keys."
        ),
    ),
    "MODEL-9": Requirement(
        "spec 1.3",
        (
            "Content of another kind, image type, data or source is refused with the published "
            "messages."
        ),
    ),
    "MODEL-10": Requirement(
        "spec 1.3",
        (
            "A dump leaves `content` out when it is empty, assignments are validated, and "
            "`model_copy` validates its update."
        ),
    ),
    "MODEL-11": Requirement(
        "spec 1.3",
        "`safe_hook_presentation` replaces each image by a fixed text block.",
    ),
    "MODEL-12": Requirement(
        "S1 HookResult Actions; S3 Core Models; spec 1.3",
        (
            "A HookResult has the published fields and defaults, denying by default when approval "
            "times out."
        ),
    ),
    "MODEL-13": Requirement(
        "S3 Core Models; spec 1.3",
        "Actions, roles, approval defaults and message levels accept exactly the published words.",
    ),
    "MODEL-14": Requirement(
        "spec 1.3",
        "A HookResult ignores unknown keys.",
    ),
    "MODEL-15": Requirement(
        "spec 1.3",
        "A ContextInjection needs its content and has the published defaults.",
    ),
    "MODEL-16": Requirement(
        "spec 1.3",
        "A Pricing needs input and output prices, and a currency of three capital letters.",
    ),
    "MODEL-17": Requirement(
        "S3 Core Models; spec 1.3; spec 4.2 #44",
        (
            "A ModelInfo needs id, display name, context window and output limit, and takes "
            "capabilities, defaults and pricing."
        ),
    ),
    "MODEL-18": Requirement(
        "S3 Core Models; spec 1.3",
        (
            "A ConfigField needs id, display name and prompt, and has the published types and "
            "defaults."
        ),
    ),
    "MODEL-19": Requirement(
        "S3 Core Models; spec 1.3",
        "A ProviderInfo needs id and display name, and has empty lists and dicts as defaults.",
    ),
    "MODEL-20": Requirement(
        "S3 Core Models; spec 1.3",
        (
            "A ModuleInfo tells id, name, version, type, mount point and description, the type "
            "being one of six words."
        ),
    ),
    "MODEL-21": Requirement(
        "S3 Core Models; spec 1.3",
        "A SessionStatus starts running with the current time and all counters at zero.",
    ),
    "MODEL-22": Requirement(
        "spec 1.3; spec A.5",
        (
            "A cost is a Decimal: floats are refused, ints and numeric text are converted, and it "
            "dumps as text."
        ),
    ),
    "MODEL-23": Requirement(
        "spec 1.3; spec A.5",
        (
            "`SessionStatus.to_dict` is JSON-ready and leaves out None, and its schema shows the "
            "cost as text."
        ),
    ),
    "MODEL-24": Requirement(
        "S3 Trait Mapping; spec 1.10",
        (
            "An ApprovalRequest needs tool name, action and risk level, and refuses a timeout that "
            "is not positive."
        ),
    ),
    "MODEL-25": Requirement(
        "S3 Trait Mapping; spec 1.10",
        "An ApprovalResponse needs `approved` and remembers nothing by default.",
    ),
    "MODEL-26": Requirement(
        "S3 Rules for Modifying Shared Types",
        "Every model survives a JSON round trip unchanged.",
    ),
    "MSG-1": Requirement(
        "S3 Content Block Variants; spec 1.4",
        "The seven content blocks have the published fields, types and an optional visibility.",
    ),
    "MSG-2": Requirement(
        "S3 Message Models; spec 1.4",
        "A block is recognised by its `type`, and an unknown type is refused.",
    ),
    "MSG-3": Requirement(
        "S1 Provider Contract / Validation Checklist; spec 3.4",
        (
            "Extra fields, thinking signatures, redacted data, reasoning content and call ids "
            "survive a dump and reload."
        ),
    ),
    "MSG-4": Requirement(
        "S3 Message Models; spec 1.4",
        (
            "A Message has one of six roles and text or blocks as content, with name, tool call id "
            "and metadata optional."
        ),
    ),
    "MSG-5": Requirement(
        "S1 Message Format; spec 4.2 #29",
        "A Message with content None is accepted and holds an empty text.",
        reading="Upstream refuses None although the seed's format uses it.",
    ),
    "MSG-6": Requirement(
        "spec 3.4",
        (
            "A stored assistant message, with dumped blocks and its tool calls, makes a Message "
            "again with nothing lost."
        ),
    ),
    "MSG-7": Requirement(
        "S3 Message Models; spec 1.4",
        "A ToolSpec has name, parameters and an optional description, and lets extras ride along.",
    ),
    "MSG-8": Requirement(
        "S3 Message Models; spec 1.4",
        (
            "The three response formats are told apart by type, and the JSON schema one serializes "
            "its schema under `schema` and reads it back."
        ),
        reading="Upstream does not parse its own alias.",
    ),
    "MSG-9": Requirement(
        "S3 Message Models; spec 1.4",
        "A ChatRequest needs only messages, `stream` is False and everything else None.",
    ),
    "MSG-10": Requirement(
        "S1 Tool Contract / Data Models; spec 1.4",
        "A ToolCall has id, name and arguments.",
    ),
    "MSG-11": Requirement(
        "S1 Orchestrator Contract / Event Emission; spec 4.2 #3",
        "`ToolCall.input` reads the arguments.",
        reading=(
            "The seed's loop reads `input`, the model has `arguments`; a read-only alias serves "
            "both."
        ),
    ),
    "MSG-12": Requirement(
        "S1 Provider Contract / Validation Checklist; spec 1.4",
        (
            "Usage needs input, output and total tokens, the rest being optional and left out by "
            "`exclude_none`."
        ),
    ),
    "MSG-13": Requirement(
        "spec 1.4; spec 4.2 #51",
        "The cost in Usage is a Decimal on the attribute and text in a dump.",
        reading="One module's test wants a Decimal in the dump; text is taken.",
    ),
    "MSG-14": Requirement(
        "S3 Message Models; spec 1.4",
        "A Degradation tells requested, actual and reason.",
    ),
    "MSG-15": Requirement(
        "S1 Provider Contract / Validation Checklist; spec 1.4",
        (
            "A ChatResponse holds a list of blocks, refuses bare text, and has tool calls, usage, "
            "degradation, finish reason and metadata as options."
        ),
    ),
    "MSG-16": Requirement(
        "spec 1.4; spec 5.1 provider-openai",
        (
            "A provider can subclass ChatResponse and add fields typed with the streaming content "
            "classes."
        ),
    ),
    "MSG-17": Requirement(
        "S3 Streaming Content Models; spec 1.5",
        "The streaming content classes are dataclasses with the published fields and defaults.",
    ),
    "MSG-18": Requirement(
        "spec 1.5",
        (
            "`to_dict` of streaming content gives the published keys, never `raw`, and `error` "
            "only when there is one."
        ),
    ),
    "MSG-19": Requirement(
        "S3 Streaming Content Models; spec 1.5",
        "`ContentBlockType` has four members that equal their words.",
    ),
}
