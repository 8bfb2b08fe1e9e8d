"""What the coordinator owns, hands out, routes and tears down."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "COORD-1": Requirement(
        "spec 2.2.1",
        (
            "A coordinator without a session has an empty id, no parent, an empty config and no "
            "session."
        ),
    ),
    "COORD-2": Requirement(
        "S2 Properties; spec 2.2.1",
        (
            "Session, session id, parent id and config are read from the session, the config being "
            "the very object the session was given."
        ),
    ),
    "COORD-3": Requirement(
        "spec 2.2.1; spec A.1",
        "A config object that offers `model_dump` is tolerated.",
    ),
    "COORD-4": Requirement(
        "spec 2.2.1; spec 5.1 loop-streaming",
        (
            "A coordinator can be subclassed and takes attributes modules invent, none of which "
            "exist beforehand."
        ),
    ),
    "COORD-5": Requirement(
        "S2 Properties; spec 2.2.2",
        "Identity, hooks, cancellation and channels are read-only attributes.",
    ),
    "COORD-6": Requirement(
        "S2 mount_points; spec 2.2.2",
        (
            "`mount_points` is a live dict with the six published slots, whose hooks entry is "
            "`coordinator.hooks`, and it may be mutated or replaced."
        ),
    ),
    "COORD-7": Requirement(
        "spec 2.2.2",
        (
            "Loader, approval system and display system default to None, `session_state` to an "
            "empty dict, and all four are assignable."
        ),
    ),
    "COORD-8": Requirement(
        "S2 config; spec 2.2.2",
        (
            "The two injection limits are read live from the session section of the config and are "
            "None when absent."
        ),
    ),
    "COORD-9": Requirement(
        "S2 mount; spec 2.2.3",
        (
            "Mounting at an unknown point, at `hooks`, or at a named point without a name raises a "
            "ValueError that says which."
        ),
    ),
    "COORD-10": Requirement(
        "S2 mount; spec 2.2.3",
        "A named point takes the name given, else the module's own `name`, which must be a string.",
    ),
    "COORD-11": Requirement(
        "S2 mount; spec 2.2.3",
        "A single slot holds one module, ignores the name and is overwritten by the next mount.",
    ),
    "COORD-12": Requirement(
        "S2 mount; spec 4.2 #13",
        "Replacing a mounted orchestrator logs a warning.",
        reading="Upstream replaces silently; the seed's warning is taken.",
    ),
    "COORD-13": Requirement(
        "S2 mount; spec 2.2.3",
        "A second module of the same name replaces the first in a named slot.",
    ),
    "COORD-14": Requirement(
        "S4 Mounting a Custom Resolver; spec 4.2 #21",
        (
            "Mounting takes effect at the call, so that a call nobody awaits still mounts, and it "
            "can be awaited."
        ),
        reading=(
            "S4 shows mount without await, S2 declares it async; the work is done eagerly and an "
            "awaitable is returned."
        ),
    ),
    "COORD-15": Requirement(
        "S1 Orchestrator Contract / mount(); S1 Context Contract / mount(); spec 4.2 #1",
        (
            "The point `session` with the name `orchestrator` or `context` is accepted as an alias "
            "of those two slots."
        ),
        reading=(
            "S1 mounts loops and contexts at `session`, S2 at their own slots; the slots are "
            "canonical and the other form is an alias."
        ),
    ),
    "COORD-16": Requirement(
        "S2 unmount; spec 2.2.3",
        (
            "Unmounting empties a single slot or removes the named entry, ignoring one that is not "
            "there."
        ),
    ),
    "COORD-17": Requirement(
        "S2 unmount; spec 2.2.3",
        (
            "Unmounting from an unknown point, or without the name a named point needs, raises a "
            "ValueError."
        ),
    ),
    "COORD-18": Requirement(
        "S2 unmount",
        "Unmounting runs no cleanup.",
    ),
    "COORD-19": Requirement(
        "S2 get; spec 2.2.3",
        (
            "`get` returns the single module, the live dict of a named point, the named module or "
            "None, and the hook registry for `hooks`."
        ),
    ),
    "COORD-20": Requirement(
        "S2 get; spec 2.2.3",
        "`get` of an unknown point raises a ValueError that names it.",
    ),
    "COORD-21": Requirement(
        "S1 Provider Contract / Testing; spec 4.2 #6",
        "`get_mounted` answers with the dict of a named point or the object of a single one.",
        reading="Only the seeds use this method; it is kept for them.",
    ),
    "COORD-22": Requirement(
        "S2 register_capability; S2 get_capability",
        (
            "A capability is any value under a free name, the latest registration wins, and an "
            "unknown name gives None."
        ),
    ),
    "COORD-23": Requirement(
        "S2 register_cleanup; S3 mount(); spec 2.2.4",
        "Registering None or something that cannot be called as a cleanup is ignored.",
    ),
    "COORD-24": Requirement(
        "S2 cleanup; S3 mount()",
        (
            "Cleanups run without arguments in reverse order of registration, plain and async ones "
            "alike, and a coroutine returned by a plain one is awaited."
        ),
    ),
    "COORD-25": Requirement(
        "S2 cleanup; spec 2.2.4",
        "A cleanup that raises is logged as `Error during cleanup` and the others still run.",
    ),
    "COORD-26": Requirement(
        "spec 2.2.4; spec A.1",
        (
            "CancelledError, KeyboardInterrupt or SystemExit from a cleanup is raised again after "
            "all cleanups ran."
        ),
    ),
    "COORD-27": Requirement(
        "spec 2.2.4",
        "A second `cleanup` does not run the same functions again.",
        reading="Upstream runs everything again; the list is emptied.",
    ),
    "COORD-28": Requirement(
        "S2 register_cleanup; spec 4.2 #18",
        "A cleanup that is both registered and returned from mount runs once.",
        reading="The seed's own example registers it twice; equal callables count once.",
    ),
    "COORD-29": Requirement(
        "S2 reset_turn; spec 2.2.5",
        "`reset_turn` sets the count of injected tokens back to zero.",
    ),
    "COORD-30": Requirement(
        "spec 2.2.5",
        (
            "`request_cancel` moves the token to graceful or immediate, and neither emits an event "
            "nor runs callbacks."
        ),
    ),
    "COORD-31": Requirement(
        "spec 2.2.5",
        (
            "`to_dict` tells tool, provider and capability names and whether orchestrator, "
            "context, approval and display are there."
        ),
    ),
    "COORD-32": Requirement(
        "spec 4.2 #10; spec 4.2 #11",
        (
            "The methods and properties are the union of the seed's tables and what published "
            "modules use."
        ),
        reading="The seed announces twelve methods and lists eleven.",
    ),
    "COORD-33": Requirement(
        "S2 session_id; spec 4.2 #12",
        (
            "A coordinator built for a session stamps session id and parent id on every event by "
            "itself."
        ),
        reading="Upstream leaves that to the session; both do it.",
    ),
    "COORD-34": Requirement(
        "S2 Context Injection Processing; spec 2.2.6",
        (
            "A lasting injection is added to the mounted context with its role and metadata naming "
            "source, hook, event and a UTC timestamp."
        ),
    ),
    "COORD-35": Requirement(
        "spec 2.2.6",
        "Injection metadata also tells the requested role and that the text was persisted.",
    ),
    "COORD-36": Requirement(
        "S2 Ephemeral Injection Handling; spec 2.2.6",
        (
            "An ephemeral injection is not stored and comes back as `inject_context` for the "
            "current request only."
        ),
    ),
    "COORD-37": Requirement(
        "spec 2.2.6",
        (
            "Injected text loses control characters and lone surrogates but keeps tabs and line "
            "breaks."
        ),
    ),
    "COORD-38": Requirement(
        "S2 Budget Enforcement; spec 2.2.6; spec 4.2 #15",
        (
            "An injection longer than the size limit raises a ValueError naming the limit, and "
            "nothing is stored or counted."
        ),
        reading="The seed compares even when no limit is set; None means unlimited.",
    ),
    "COORD-39": Requirement(
        "S2 Budget Enforcement; spec 2.2.6; spec 4.2 #16",
        "Exceeding the turn's token budget logs a warning and injects all the same.",
        reading="Other documents give default limits; without configuration there is none.",
    ),
    "COORD-40": Requirement(
        "S2 reset_turn; spec 2.2.6",
        (
            "Every injection, ephemeral ones included, adds a quarter of its length to the count "
            "of the turn."
        ),
    ),
    "COORD-41": Requirement(
        "spec 2.2.6; spec A.2",
        (
            "The context's `add_message` may be plain or async, its exceptions reach the caller, "
            "and without a context nothing is stored."
        ),
    ),
    "COORD-42": Requirement(
        "spec 2.2.6",
        (
            "With several injections each one keeps its own role, hook name and lifetime, and one "
            "that is too long stops them all."
        ),
    ),
    "COORD-43": Requirement(
        "spec 2.2.6",
        (
            "After processing, lasting injections are gone from the result, which becomes "
            "`continue` when none is left and keeps data, reason and user message."
        ),
    ),
    "COORD-44": Requirement(
        "spec 2.2.6",
        "Results that continue, deny or modify come back as the same object.",
    ),
    "COORD-45": Requirement(
        "S2 Subsystem Routing; spec 2.2.6",
        (
            "A user message goes to the display system with its level and a source starting with "
            "`hook:`."
        ),
    ),
    "COORD-46": Requirement(
        "S2 Subsystem Requirements; spec 2.2.6",
        (
            "Without a display system, or with one that raises, the text of a user message is "
            "logged at its level and nothing fails."
        ),
    ),
    "COORD-47": Requirement(
        "S2 Processing Flow; spec 2.2.6",
        "`suppress_output` changes nothing but a log line, which comes for every action.",
    ),
    "COORD-48": Requirement(
        "S2 Approval Request Processing; spec 2.2.6",
        (
            "An approval is asked with prompt, options, timeout and default by keyword, falling "
            "back to a stock prompt and Allow/Deny."
        ),
        reading="The published kernel passes them by position; S2:967 shows keywords.",
    ),
    "COORD-49": Requirement(
        "S2 Approval Request Processing; spec 4.2 #14",
        (
            "Only the allow family of answers continues; anything else denies with a reason that "
            "starts `User denied:`."
        ),
        reading="The seed lets anything but Deny pass; failing closed is taken.",
    ),
    "COORD-50": Requirement(
        "S2 Subsystem Requirements; spec 2.2.6",
        "Without an approval system a request is denied with `No approval system available`.",
    ),
    "COORD-51": Requirement(
        "spec 2.2.6; spec A.2",
        (
            "An approval that times out follows the result's default, and the denial's reason "
            "mentions the timeout."
        ),
    ),
    "COORD-52": Requirement(
        "spec 2.2.6",
        (
            "Other exceptions of the approval system reach the caller, and an answer that is not a "
            "string is a TypeError."
        ),
    ),
    "COORD-53": Requirement(
        "S2:816 Processing Flow",
        "A request for approval shows the result's user message before it asks.",
        reading="The published kernel drops it; S2 routes every user message to the display.",
    ),
    "COORD-54": Requirement(
        "spec 2.2.6",
        "A long prompt is cut in the denial's reason.",
    ),
    "COORD-55": Requirement(
        "spec 2.2.6; spec A.2",
        "A plain dict in place of a HookResult raises an AttributeError.",
    ),
    "COORD-56": Requirement(
        "spec 2.2.6",
        "Hook results may be processed concurrently without losing counts.",
    ),
    "COORD-57": Requirement(
        "S2 Overview",
        "All modules of a session receive the same coordinator.",
    ),
    "COORD-58": Requirement(
        "spec 1.11",
        (
            "The approval timeout error and the approval and display protocols are importable and "
            "structural."
        ),
    ),
    "COORD-59": Requirement(
        "spec 4.2 #46",
        "A granted `Allow always` is not remembered by the kernel.",
        reading="Some documents promise memory; that is left to the application.",
    ),
}
