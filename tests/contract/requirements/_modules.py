"""What tools, providers, loops and contexts owe, and what ours do."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "TOOL-1": Requirement(
        "S1 Tool Contract / Protocol Definition",
        "A tool has a name, a description and an async `execute` that takes a dict.",
    ),
    "TOOL-2": Requirement(
        "S1 Tool Contract / execute() Method",
        (
            "A tool answers with a ToolResult and reports bad input and failures as "
            "`success=False` instead of raising."
        ),
    ),
    "TOOL-3": Requirement(
        "spec 1.10; spec 3.5",
        "`input_schema` is optional for a tool and an empty dict by default.",
    ),
    "TOOL-4": Requirement(
        "S1 Tool Contract / Tool Schema; spec 3.5",
        (
            "A tool may offer its JSON schema by `get_schema`, which the loop uses when there is "
            "no `input_schema`."
        ),
        reading=(
            "No published loop reads `get_schema`; ours do as a fallback. The coordinator leaves "
            "the tool as it is, and the validator warns that published loops need `input_schema`."
        ),
    ),
    "TOOL-5": Requirement(
        "S1 Tool Contract / mount()",
        (
            "A tool module mounts at `tools` under its name and may return the tool, a cleanup or "
            "None."
        ),
    ),
    "TOOL-6": Requirement(
        "S1 Tool Contract / Name and Description",
        "A tool name is unique among the mounted ones.",
    ),
    "PROV-1": Requirement(
        "S1 Provider Contract / Protocol Definition; S3 Trait Mapping",
        "A provider has a name, `get_info`, `list_models`, `complete` and `parse_tool_calls`.",
    ),
    "PROV-2": Requirement(
        "S1 Provider Contract / Validation Checklist; spec 3.4",
        "`complete` takes a ChatRequest and keywords and gives a ChatResponse with usage.",
    ),
    "PROV-3": Requirement(
        "spec 3.4",
        "`get_info` gives the context window and output limit that contexts budget by.",
    ),
    "PROV-4": Requirement(
        "S1 Provider Contract / mount()",
        "A provider module mounts at `providers` under its name.",
    ),
    "PROV-5": Requirement(
        "own provider-mock",
        (
            "The mock provider runs without a key and answers in scripted, echo, tool-calling and "
            "replaying modes."
        ),
    ),
    "PROV-6": Requirement(
        "own provider-mock",
        "The mock provider passes the validator and the behavioural suite for providers.",
    ),
    "PROV-7": Requirement(
        "spec 3.4",
        "Content blocks of every kind can be sent back to the provider that made them.",
    ),
    "PROV-8": Requirement(
        "spec 3.4 / Token streaming; own provider-mock",
        (
            "A streaming provider emits `llm:stream_*` events with one request id per call, blocks "
            "and deltas counted from zero, and an abort only after a delta."
        ),
    ),
    "PROV-9": Requirement(
        "spec 3.4 / Events emitted by providers; own provider-mock",
        (
            "A provider emits `llm:request` and `llm:response` around each call, the usage with "
            "its normative keys."
        ),
    ),
    "PROV-10": Requirement(
        "S1 Provider Contract / Validation Checklist; spec 3.4",
        (
            "Providers repair tool call sequences, map roles and continue truncated answers for "
            "their vendor."
        ),
        reading=(
            "The specification says that a truncated answer may be continued; ours is returned "
            "with the finish reason `length`, and the loop ends the turn as truncated."
        ),
    ),
    "PROV-11": Requirement(
        "spec 3.4 / Usage and cost; own provider-mock",
        "A provider reports its running cost on the channel `session.cost`, as text.",
    ),
    "PROV-12": Requirement(
        "spec 3.4 / Usage and cost",
        "An application sums the cost of a session over its children.",
        reading="The foundation sums up the records of a session and its children.",
    ),
    "ORCH-1": Requirement(
        "S1 Orchestrator Contract / Protocol Definition",
        (
            "A loop offers async `execute(prompt, context, providers, tools, hooks)` and returns "
            "the final text."
        ),
    ),
    "ORCH-2": Requirement(
        "S1 Orchestrator Contract / Execution Flow",
        (
            "The loop stores the prompt, asks the provider, stores the answer, runs the tools it "
            "asked for, stores their results, and repeats until no tool is asked for."
        ),
    ),
    "ORCH-3": Requirement(
        "S1 Orchestrator Contract / Event Emission; spec 3.7",
        (
            "The loop emits provider:request, provider:response, tool:pre and tool:post around the "
            "calls."
        ),
    ),
    "ORCH-4": Requirement(
        "S1 Tool Contract / Observability; spec 3.7",
        "A tool that fails is announced by `tool:error`, and the turn continues.",
    ),
    "ORCH-5": Requirement(
        "S1 Common Events; spec 3.7; spec 4.2 #4",
        (
            "`tool:pre` carries tool name and input, and `tool:post` the result as both `result` "
            "and `tool_result`."
        ),
        reading="Seed and published loops use different keys; both are sent.",
    ),
    "ORCH-6": Requirement(
        "spec 3.7; S1 Common Events",
        (
            "The loop emits `prompt:submit` with the prompt, and a denial ends the turn with the "
            "reason."
        ),
    ),
    "ORCH-7": Requirement(
        "spec 3.7",
        (
            "Every way out of the loop ends with `execution:end` after `execution:start`, and "
            "`orchestrator:complete` tells turn count and status."
        ),
        reading="No published loop complies; ours does.",
    ),
    "ORCH-8": Requirement(
        "S1 Orchestrator Contract / Hook Processing",
        "A denied tool is never executed, and the model is told the reason.",
    ),
    "ORCH-9": Requirement(
        "S1 Orchestrator Contract / Hook Processing; S2 Examples / Hook Result Processing",
        "A hook's change to the tool input is what the tool gets.",
        reading="No published loop applies it; ours does.",
    ),
    "ORCH-10": Requirement(
        "S1 Orchestrator Contract / Hook Processing; S2 Ephemeral Injection Handling",
        (
            "Injected text reaches the context, and ephemeral text only the current request, glued "
            "to the last tool result when asked for."
        ),
    ),
    "ORCH-11": Requirement(
        "S1 Orchestrator Contract / Hook Processing",
        "A tool whose approval is refused is not executed.",
    ),
    "ORCH-12": Requirement(
        "spec 2.1.7; spec C",
        (
            "The model sees the tool's serialized output unless a hook changed it, and the changed "
            "result when one did."
        ),
    ),
    "ORCH-13": Requirement(
        "S1 Orchestrator Contract / Context Management; spec 3.4",
        (
            "Messages are fetched by `get_messages_for_request` with the provider, and tool "
            "results are stored with their call id."
        ),
        reading="S2's examples use `get_messages`; the context contract's method is taken.",
    ),
    "ORCH-14": Requirement(
        "S1 Orchestrator Contract / Provider Selection; spec 3.4",
        "The configured default provider is used, else the one with the lowest priority.",
    ),
    "ORCH-15": Requirement(
        "S1 Orchestrator Contract / Validation Checklist; own loop-basic",
        (
            "Iterations are limited, to 50 by default, and the last one is a call without tools "
            "that asks for an answer."
        ),
    ),
    "ORCH-16": Requirement(
        "S1 Orchestrator Contract / Validation Checklist; spec 3.7",
        "A provider error is announced by `provider:error` and reaches the caller.",
    ),
    "ORCH-17": Requirement(
        "spec 3.7; own loop-basic",
        "Tools of one answer run in parallel and their results are stored in call order.",
    ),
    "ORCH-18": Requirement(
        "own loop-basic",
        (
            "A history with orphaned tool calls or results is repaired before every request and "
            "the repair is announced."
        ),
    ),
    "ORCH-19": Requirement(
        "architecture 4 / Cancellation; own loop-basic",
        "A cancelled turn leaves a history in which every tool call has its result.",
    ),
    "ORCH-20": Requirement(
        "spec 5.1 loop-basic",
        "The loop works without a coordinator.",
    ),
    "ORCH-21": Requirement(
        "S1 Orchestrator Contract / Observability; own loop-basic",
        "The loop module passes the validator and the behavioural suite for orchestrators.",
    ),
    "ORCH-22": Requirement(
        "S1 Orchestrator Contract / Validation Checklist",
        "A loop supports streaming through async generators.",
    ),
    "ORCH-23": Requirement(
        "S1 Orchestrator Contract / Purpose",
        "Event-driven loops run complex workflows.",
        reading=(
            "Hooks lead the steps: `tool:selecting` may deny or change the tool of a call, "
            "`tool:selected` reports the choice, and `tool:pre` is about the tool that runs."
        ),
    ),
    "CTX-1": Requirement(
        "S1 Context Contract / Protocol Definition",
        (
            "A context offers add_message, get_messages_for_request, get_messages, set_messages "
            "and clear, all async."
        ),
    ),
    "CTX-2": Requirement(
        "S1 Context Contract / add_message()",
        "A message without a role is refused with a ValueError.",
    ),
    "CTX-3": Requirement(
        "S1 Context Contract / get_messages()",
        "Both readers return lists whose change does not reach the store, and never None.",
    ),
    "CTX-4": Requirement(
        "S1 Context Contract / set_messages()",
        "`set_messages` replaces the history for a resumed session.",
    ),
    "CTX-5": Requirement(
        "S1 Context Contract / clear()",
        "`clear` empties the history.",
    ),
    "CTX-6": Requirement(
        "S1 Context Contract / get_messages_for_request(); spec 3.6",
        (
            "The budget is the explicit one, else the provider's window minus its output limit "
            "minus 1000, else the configured maximum."
        ),
    ),
    "CTX-7": Requirement(
        "S1 Context Contract / Non-Destructive Compaction; spec 4.2 #31",
        "Compaction gives a view and leaves the stored history as it was.",
        reading="The same seed's example overwrites the history; its rule is taken.",
    ),
    "CTX-8": Requirement(
        "S1 Context Contract / Tool Pair Preservation",
        "Compaction never separates a tool call from its result.",
    ),
    "CTX-9": Requirement(
        "S1 Context Contract / Validation Checklist; spec 3.6",
        "Compaction keeps system messages and the order of the conversation.",
    ),
    "CTX-10": Requirement(
        "own context-simple",
        "What is returned for a request fits the budget.",
    ),
    "CTX-11": Requirement(
        "S1 Context Contract / Observability; spec 4.2 #32",
        (
            "Compaction is announced before and after with message and token counts, and by "
            "`context:compaction`."
        ),
    ),
    "CTX-12": Requirement(
        "S1 Message Format; spec 4.2 #30",
        (
            "Tool calls in the stored form of the seed and in that of the published loops are both "
            "understood."
        ),
        reading="The shapes differ; only the id is relied on.",
    ),
    "CTX-13": Requirement(
        "S1 Context Contract / Validation Checklist",
        "Concurrent additions lose nothing.",
    ),
    "CTX-14": Requirement(
        "S1 Context Contract / Validation Checklist",
        "Maximum and threshold are configurable.",
    ),
    "CTX-15": Requirement(
        "S1 Context Contract / Validation Checklist; own context-simple",
        "The context module passes the validator and the behavioural suite for contexts.",
    ),
    "CTX-16": Requirement(
        "spec 5.1 loop-events",
        (
            "The context offers `should_compact` and `compact` for loops that ask for them, and "
            "neither touches the stored history."
        ),
    ),
    "CTX-17": Requirement(
        "S1 Context Contract / set_messages(); spec 3.6",
        "A file-backed context that loaded its own file ignores `set_messages`.",
    ),
    "CTX-18": Requirement(
        "S1 Context Contract / Compaction Strategies",
        "Contexts may summarise or score messages.",
    ),
    "CTX-19": Requirement(
        "spec 3.6",
        "A context may take a system prompt factory.",
    ),
}
