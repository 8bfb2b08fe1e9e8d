"""What the hook registry does with handlers, their answers and the data."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "HOOK-1": Requirement(
        "spec 2.1.1",
        (
            "A registry is built without arguments and carries exactly the eight published event "
            "names as class attributes."
        ),
    ),
    "HOOK-2": Requirement(
        "S1 Event Registration; spec 2.1.2",
        (
            "`register` takes event, handler, priority and name in that order, positionally or by "
            "keyword."
        ),
    ),
    "HOOK-3": Requirement(
        "spec 2.1.2",
        "`on` is the same method under a second name.",
    ),
    "HOOK-4": Requirement(
        "S1 Entry Point Pattern / mount(); spec 2.1.2",
        (
            "Registering returns a function without arguments that removes this one registration "
            "and may be called again without effect."
        ),
        reading=(
            "Upstream's remover takes away the newest registration of the name; ours takes away "
            "its own."
        ),
    ),
    "HOOK-5": Requirement(
        "S1 Event Registration; spec 2.1.2",
        (
            "Handlers with a lower priority run earlier, negative values included, and ties keep "
            "registration order."
        ),
    ),
    "HOOK-6": Requirement(
        "spec 2.1.2",
        "A priority that is not an integer is refused with a TypeError.",
    ),
    "HOOK-7": Requirement(
        "spec 2.1.2; spec 4.2 #47",
        (
            "A handler registered without a name is listed under a generated one that no other "
            "registration shares."
        ),
        reading="The form of the generated name is free.",
    ),
    "HOOK-8": Requirement(
        "spec 2.1.2",
        (
            "Registering something that cannot be called is accepted and shows up as a logged "
            "error when the event is emitted."
        ),
    ),
    "HOOK-9": Requirement(
        "spec 2.1.3",
        "`unregister` removes every registration that carries the name, on whatever event.",
        reading="Upstream removes only the newest registration of a name; all of them is taken.",
    ),
    "HOOK-10": Requirement(
        "spec 2.1.3",
        "Unregistering an unknown name does nothing.",
    ),
    "HOOK-11": Requirement(
        "spec 2.1.4",
        (
            "`list_handlers` of one event gives that event with its handler names in execution "
            "order, or an empty list."
        ),
    ),
    "HOOK-12": Requirement(
        "spec 2.1.4",
        (
            "`list_handlers` without an event gives every event ever registered, and an empty dict "
            "for a fresh registry."
        ),
    ),
    "HOOK-13": Requirement(
        "S2 session_id / Infrastructure Propagation; spec 2.1.5",
        (
            "Default fields are merged under the data of every emitted event, with the event's own "
            "keys winning and None values kept."
        ),
    ),
    "HOOK-14": Requirement(
        "spec 2.1.5",
        "Setting default fields replaces the earlier ones.",
    ),
    "HOOK-15": Requirement(
        "spec 2.1.6; spec A.1",
        "`emit` and `emit_and_collect` return real coroutines that can be made into tasks.",
    ),
    "HOOK-16": Requirement(
        "spec 2.1.6",
        (
            "Handlers added or removed while an event is being emitted take part only from the "
            "next emit on."
        ),
    ),
    "HOOK-17": Requirement(
        "spec 2.1.6",
        (
            "Without handlers the answer is `continue` with the data as given, neither defaults "
            "nor timestamp added."
        ),
    ),
    "HOOK-18": Requirement(
        "spec 4.2 #48",
        "`emit` answers with a HookResult even when nobody listens.",
        reading="Some comments expect None; a HookResult is returned.",
    ),
    "HOOK-19": Requirement(
        "spec 2.1.6; spec A.1",
        (
            "With handlers present the data carries a UTC timestamp ending in `+00:00` that the "
            "caller cannot override and that never goes backwards."
        ),
    ),
    "HOOK-20": Requirement(
        "S1 Protocol Definition; spec 2.1.6",
        (
            "A handler may be an async function, a plain function, a bound method or a callable "
            "object, and is called with the event name and the data."
        ),
    ),
    "HOOK-21": Requirement(
        "spec 2.1.10; spec A.1",
        "Handlers run on the caller's own event loop.",
    ),
    "HOOK-22": Requirement(
        "S1 Validation Checklist; S3 Hook Errors; spec 2.1.6",
        "A handler that raises is logged with event and handler name, and the next handler runs.",
        reading="S3 names hook exceptions; none reaches the caller, they are logged.",
    ),
    "HOOK-23": Requirement(
        "spec 2.1.6; spec A.1",
        "A handler that raises CancelledError by itself is skipped like any other failing handler.",
    ),
    "HOOK-24": Requirement(
        "spec 2.1.10",
        (
            "Cancelling the task that emits cancels the handler it is waiting for and the "
            "cancellation reaches the caller."
        ),
        reading=(
            "Upstream swallows every CancelledError; only one raised by the handler itself is "
            "swallowed here."
        ),
    ),
    "HOOK-25": Requirement(
        "spec 2.1.6",
        "A handler that returns None counts as `continue`.",
    ),
    "HOOK-26": Requirement(
        "spec 2.1.6",
        (
            "A handler may return a dict of HookResult fields, in which unknown keys are ignored "
            "and a missing action means `continue`."
        ),
    ),
    "HOOK-27": Requirement(
        "spec 2.1.6",
        (
            "Any other return value, or a dict with an invalid field, denies with the reason `Hook "
            "handler returned invalid response`."
        ),
    ),
    "HOOK-28": Requirement(
        "S1 HookResult Actions; spec 2.1.6",
        (
            "A denial ends the chain at once and is returned as the handler made it, with its "
            "data, reason and user message."
        ),
        reading="Only `denied_by` is added: the name of the handler.",
    ),
    "HOOK-29": Requirement(
        "S1 HookResult Actions; spec 2.1.6",
        "`modify` replaces the data the following handlers see, without merging.",
    ),
    "HOOK-30": Requirement(
        "spec 2.1.6",
        "`modify` without data changes nothing.",
    ),
    "HOOK-31": Requirement(
        "S1 Hook Processing; S2 Examples / Hook Result Processing; spec 2.1.6",
        "A modification surfaces as action `continue` whose data is the last modified dict.",
        reading=(
            "The seeds' orchestrators test for action `modify`; the registry never returns it, so "
            "callers read `data`."
        ),
    ),
    "HOOK-32": Requirement(
        "S1 HookResult Actions; spec 2.1.6",
        "The first `ask_user` answer is kept, later ones are dropped, and the chain goes on.",
    ),
    "HOOK-33": Requirement(
        "spec 2.1.6",
        (
            "The outcome of mixed answers is deny, else ask_user, else inject_context, else "
            "continue, whatever the order of handlers."
        ),
    ),
    "HOOK-34": Requirement(
        "spec 2.1.6",
        "The plain answer carries the data including defaults and timestamp.",
    ),
    "HOOK-35": Requirement(
        "spec 2.1.6",
        (
            "A single injection comes back whole, with its user message, and also as one entry of "
            "`context_injections`."
        ),
    ),
    "HOOK-36": Requirement(
        "spec 2.1.6",
        (
            "Several injections are merged into one text joined by blank lines in handler order, "
            "with the role of the first, its wish to suppress output, and the ephemeral and "
            "append flags of any."
        ),
    ),
    "HOOK-37": Requirement(
        "spec 2.1.6",
        (
            "`context_injections` lists each injection with its own role and flags, stamped with "
            "the registered handler name and the event."
        ),
    ),
    "HOOK-38": Requirement(
        "spec 2.1.6",
        (
            "A handler that fills `context_injections` itself is taken at its list, and the scalar "
            "text is then ignored."
        ),
    ),
    "HOOK-39": Requirement(
        "spec 2.1.6",
        "`context_injections` on an answer that does not inject is ignored.",
    ),
    "HOOK-40": Requirement(
        "architecture 4; spec 2.1.7",
        (
            "Every handler gets its own view, so that changing it in place reaches neither other "
            "handlers, nor the caller, nor the result."
        ),
    ),
    "HOOK-41": Requirement(
        "architecture 4; spec 2.1.7; spec A.1",
        (
            "Handlers see JSON-safe data in which Decimal and datetime are strings, tuples are "
            "lists and keys are strings."
        ),
    ),
    "HOOK-42": Requirement(
        "architecture 4; spec 2.1.7",
        (
            "What no handler changed comes back as the caller's own object, also after a `modify` "
            "that copied it unchanged."
        ),
        reading=(
            "Upstream returns copies throughout, which distorts tool results in two published "
            "loops."
        ),
    ),
    "HOOK-43": Requirement(
        "spec 2.1.7",
        (
            "Data that is not a dict is handed to handlers as it is, and the result's data is an "
            "empty dict."
        ),
    ),
    "HOOK-44": Requirement(
        "spec 2.1.7; spec A.1",
        "Data offering `model_dump` is dumped first, even when that method takes no arguments.",
    ),
    "HOOK-45": Requirement(
        "spec 2.1.7",
        "Data that contains itself is refused with a ValueError.",
    ),
    "HOOK-46": Requirement(
        "spec 2.1.8",
        (
            "`llm:request` opens a call with the explicit request id or a fresh one, and adds it "
            "to the data."
        ),
    ),
    "HOOK-47": Requirement(
        "spec 2.1.8",
        (
            "`llm:response` and `provider:error` carry the open call's id and close it; without an "
            "open call nothing is added."
        ),
    ),
    "HOOK-48": Requirement(
        "spec 2.1.8",
        (
            "`provider:retry` and `provider:throttle` carry the open id and keep the call open, "
            "adopting an explicit one."
        ),
    ),
    "HOOK-49": Requirement(
        "spec 2.1.8",
        (
            "Calls in separate asyncio tasks keep separate request ids, and events of other "
            "families are left alone."
        ),
    ),
    "HOOK-50": Requirement(
        "spec 2.1.9",
        (
            "`emit_and_collect` asks the handlers one after the other in priority order and "
            "returns the data each one gave, empty dicts included and None left out."
        ),
    ),
    "HOOK-51": Requirement(
        "spec 2.1.9",
        (
            "`emit_and_collect` bounds each handler by the timeout and skips those that time out "
            "or raise."
        ),
    ),
    "HOOK-52": Requirement(
        "spec 2.1.9",
        "`emit_and_collect` ignores actions, and adds neither defaults nor timestamp.",
    ),
    "HOOK-53": Requirement(
        "spec 2.1.9",
        (
            "In `emit_and_collect` a bare dict is read as HookResult fields, a timeout of None "
            "means no limit, and a negative one counts as zero."
        ),
        reading="Upstream raises on None and crashes on negative values.",
    ),
    "HOOK-54": Requirement(
        "spec 2.1.10; spec 5.1 hooks-approval",
        (
            "Handlers of one emit never overlap, concurrent emits interleave, and a handler may "
            "emit events itself."
        ),
    ),
    "HOOK-55": Requirement(
        "spec 8",
        (
            "A handler may hold state and be shared between events under one name, as one "
            "published module does for twenty of them."
        ),
    ),
    "HOOK-56": Requirement(
        "architecture 4 / Additions",
        (
            "A handler registered for `*` hears every event, in one priority order with the "
            "event's own handlers, and answers like any other."
        ),
    ),
    "HOOK-57": Requirement(
        "architecture 4 / Additions",
        "`trace` reports each answer with its handler, action and time, and only while asked to.",
    ),
    "HOOK-58": Requirement(
        "architecture 4 / Additions",
        "A denial names the handler that denied in `denied_by`, whatever the handler put there.",
    ),
    "HOOK-59": Requirement(
        "architecture 4 / Additions",
        (
            "A handler registered without a timeout is limited by a default of an hour, and one "
            "with `timeout=None` is not limited."
        ),
    ),
}
