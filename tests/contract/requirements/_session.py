"""How a session is built, initialised, run and closed, and the plan it reads."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "SESS-1": Requirement(
        "spec 2.3.1",
        (
            "A session takes config, loader, session_id, parent_id, approval_system, "
            "display_system and is_resumed."
        ),
    ),
    "SESS-2": Requirement(
        "S3 Session Errors; spec 2.3.1",
        (
            "An empty or non-dict config, or one without orchestrator or context, raises a "
            "ValueError that says what is missing."
        ),
    ),
    "SESS-3": Requirement(
        "spec 2.3.1",
        "A session id is a fresh UUID unless one is given.",
    ),
    "SESS-4": Requirement(
        "spec 2.3.1; spec A.2",
        "The config is kept by reference, so later changes are visible in session and coordinator.",
    ),
    "SESS-5": Requirement(
        "S2 Overview; spec 2.3.1",
        (
            "The session makes its coordinator, passes on approval and display systems, and is the "
            "coordinator's `session`."
        ),
    ),
    "SESS-6": Requirement(
        "S2 parent_id; spec 2.3.1",
        (
            "Every event of a session carries session id and parent id, the latter None for a root "
            "session."
        ),
    ),
    "SESS-7": Requirement(
        "spec 2.3.2; spec 4.2 #50",
        "Status, loader, `initialized` and `is_resumed` are readable on the session.",
        reading="The two upstream classes differ; the union of their attributes is taken.",
    ),
    "SESS-8": Requirement(
        "spec 2.3.2",
        "A session accepts new attributes and replaced methods.",
    ),
    "SESS-9": Requirement(
        "spec 2.3.2; spec A.3",
        "A loader given to the session is the one it uses and the coordinator's loader.",
    ),
    "SESS-10": Requirement(
        "S2 session; spec 3.1; spec 4.2 #19",
        (
            "`_merge_configs` merges dicts recursively, replaces everything else, lists included, "
            "and leaves its inputs alone."
        ),
    ),
    "SESS-11": Requirement(
        "spec A.3",
        "A session can be built outside an event loop.",
    ),
    "SESS-12": Requirement(
        "spec 2.3.3",
        "`initialize` works once, and a repeated call does nothing.",
    ),
    "SESS-13": Requirement(
        "spec 2.3.3",
        "An `initialize` that failed can be tried again.",
    ),
    "SESS-14": Requirement(
        "S3 on_session_ready(); spec 2.3.3; spec 3.1",
        "Modules are loaded in the order orchestrator, context, providers, tools, hooks.",
    ),
    "SESS-15": Requirement(
        "spec 2.3.3",
        "Without a loader the session makes one and stores it on the coordinator.",
    ),
    "SESS-16": Requirement(
        "spec 2.3.3; spec 4.2 #24; architecture 4",
        (
            "A failing orchestrator or context stops initialisation with a RuntimeError that "
            "starts `Cannot initialize without`, its cause attached."
        ),
        reading="Upstream's exported class hides the cause; it is chained.",
    ),
    "SESS-17": Requirement(
        "spec 2.3.3",
        (
            "Failing providers, tools and hooks are logged as `Failed to load` with their id and "
            "do not stop the session."
        ),
    ),
    "SESS-18": Requirement(
        "spec 2.3.3; spec B",
        (
            "Each such failure emits `module:load_failed` with type, id, error, reason code and "
            "the instance id if there is one."
        ),
    ),
    "SESS-19": Requirement(
        "spec 2.3.3",
        "List entries that name no module are skipped.",
    ),
    "SESS-20": Requirement(
        "spec 2.3.3",
        (
            "Two providers of one module need an `instance_id` on all but one of them, else "
            "initialisation raises a ValueError."
        ),
    ),
    "SESS-21": Requirement(
        "spec 2.3.3; spec A.3",
        (
            "A provider with an `instance_id` is mounted under it, and whatever held its default "
            "name before stays there."
        ),
    ),
    "SESS-22": Requirement(
        "spec 2.3.3",
        (
            "A provider whose mount brings no new provider counts as failed and leaves the earlier "
            "providers and their order untouched."
        ),
    ),
    "SESS-23": Requirement(
        "spec 2.3.3; spec 3.3",
        (
            "The capability `provider.before_load` is awaited before each provider with a copy of "
            "its entry."
        ),
    ),
    "SESS-24": Requirement(
        "spec 2.3.3; spec 3.3",
        (
            "The capability `provider.load_failure` is awaited after a provider failed, and its "
            "own exception stops initialisation."
        ),
    ),
    "SESS-25": Requirement(
        "spec 2.3.3",
        (
            "Modules get a copy of their config section, so that writing to it does not change the "
            "mount plan."
        ),
        reading="Upstream hands out the plan's own dicts; a copy is taken.",
    ),
    "SESS-26": Requirement(
        "spec A.3",
        "A module error whose text cannot be produced is reported by its repr.",
    ),
    "SESS-27": Requirement(
        "S2 parent_id; S3 on_session_ready(); spec 3.2; spec B",
        (
            "A session with a parent emits `session:fork` at the end of initialisation to its own "
            "hooks, with parent and session id."
        ),
    ),
    "SESS-28": Requirement(
        "spec 2.3.3; spec 3.1",
        (
            "`session:fork` also carries the configured metadata, and the redacted config when "
            "`session.raw` is set."
        ),
    ),
    "SESS-29": Requirement(
        "S1 Common Events; spec 2.3.4; spec 4.2 #33",
        (
            "The first execute emits `session:start` with session id and parent id, or "
            "`session:resume` for a resumed session."
        ),
        reading=(
            "S1 says at creation and with config; it is emitted at the first execute, and the "
            "config has its own event."
        ),
    ),
    "SESS-30": Requirement(
        "spec 2.3.4; spec A.3",
        (
            "The start event is emitted once in a session's life, over several, concurrent and re-"
            "initialised executes."
        ),
    ),
    "SESS-31": Requirement(
        "spec 2.3.4; spec 3.1",
        "Start and resume carry `metadata` only when it is configured.",
    ),
    "SESS-32": Requirement(
        "spec 2.3.4; spec A.3; spec B",
        "With `session.raw` one `session:config` event carries the config with secrets redacted.",
        reading="Upstream repeats it on every execute; once is taken.",
    ),
    "SESS-33": Requirement(
        "S1 Orchestrator Contract / Protocol Definition; spec 2.3.4",
        (
            "The orchestrator is called by keyword with prompt, context, live providers and tools, "
            "and the hook registry."
        ),
    ),
    "SESS-34": Requirement(
        "spec 2.3.4; spec 4.2 #28",
        (
            "The orchestrator gets `coordinator` when its signature accepts it, and a loop written "
            "to the seed signature runs too."
        ),
        reading="Upstream always passes it and breaks seed-exact loops.",
    ),
    "SESS-35": Requirement(
        "S1 Orchestrator Contract / Protocol Definition; spec 2.3.2",
        "`execute` returns what the orchestrator returned.",
    ),
    "SESS-36": Requirement(
        "spec 2.3.2; spec 4.3",
        (
            "`execute` before `initialize` raises a RuntimeError saying `Session not initialized. "
            "Call initialize() first.`"
        ),
        reading="One upstream class initialises on demand; the error is taken.",
    ),
    "SESS-37": Requirement(
        "S3 Session Errors; spec 2.3.2",
        (
            "`execute` without orchestrator or context raises a RuntimeError that names what is "
            "not mounted."
        ),
    ),
    "SESS-38": Requirement(
        "spec 2.3.2; spec 4.3; spec 4.2 #43",
        "`execute` without providers raises the RuntimeError `No providers mounted`.",
        reading="Upstream's exported class passes an empty dict; the check is taken.",
    ),
    "SESS-39": Requirement(
        "architecture 4; spec 2.3.2; spec 4.3",
        (
            "An exception of the orchestrator leaves `execute` as the same object, with type and "
            "cause."
        ),
        reading="Upstream's exported class wraps it in a RuntimeError.",
    ),
    "SESS-40": Requirement(
        "spec 2.3.4",
        "The status becomes completed, or failed with the message in `last_error`.",
    ),
    "SESS-41": Requirement(
        "spec 2.3.4; spec B",
        (
            "When the token is cancelled the status becomes cancelled and `cancel:completed` tells "
            "whether it was immediate, with the error if one was raised."
        ),
    ),
    "SESS-42": Requirement(
        "spec 2.3.4",
        "The cancellation token is not reset between turns.",
    ),
    "SESS-43": Requirement(
        "spec 2.2.5",
        "Each execute starts a new turn for the injection budget.",
        reading="Upstream never resets it; the session does.",
    ),
    "SESS-44": Requirement(
        "spec 2.3.5; spec B",
        "`cleanup` emits `session:end` with session id and status before any cleanup runs.",
    ),
    "SESS-45": Requirement(
        "spec 2.3.2; spec C",
        "`session:end` is emitted once, and only if the session was initialised.",
    ),
    "SESS-46": Requirement(
        "S2 cleanup; spec 2.3.5; spec 4.2 #17",
        "`cleanup` runs the coordinator's cleanups and then, whatever they raise, the loader's.",
        reading="Upstream's exported class never cleans the loader up.",
    ),
    "SESS-47": Requirement(
        "spec 2.3.2",
        (
            "After `cleanup` the session is not initialised, refuses to execute, and can be "
            "initialised again."
        ),
    ),
    "SESS-48": Requirement(
        "spec 2.3.5; spec A.3",
        "Cleaning up a session that was never initialised runs the registered cleanups.",
    ),
    "SESS-49": Requirement(
        "spec 2.3.2; spec A.1",
        "A BaseException of a cleanup is raised again after everything ran.",
    ),
    "SESS-50": Requirement(
        "S2 cleanup; spec 2.3.5",
        "`async with` initialises, gives the session, cleans up and lets exceptions through.",
    ),
    "SESS-51": Requirement(
        "spec 4.3",
        "Awaited methods without a result give None.",
    ),
    "SESS-52": Requirement(
        "S2 Child Session Spawning; spec 3.2",
        (
            "A child built by hand with `parent_id` is an ordinary session with its own modules "
            "and conversation."
        ),
    ),
    "SESS-53": Requirement(
        "spec 2.3.6; spec 3.2",
        "Parent and child may share one loader.",
    ),
    "SESS-54": Requirement(
        "S1 Common Events",
        "`session:end` has the session's id, its status and stats: the number of its turns.",
    ),
    "PLAN-1": Requirement(
        "S2 config; spec 3.1",
        (
            "Orchestrator and context may be given as an id, or as a dict of module, source and "
            "config."
        ),
    ),
    "PLAN-2": Requirement(
        "spec 3.1",
        (
            "With the short form, source comes from `orchestrator_source` or `context_source` and "
            "config from the top-level section of that name."
        ),
    ),
    "PLAN-3": Requirement(
        "spec 2.3.3",
        "A dict form that names no module falls back to `loop-basic` or `context-simple`.",
    ),
    "PLAN-4": Requirement(
        "S1 Configuration; spec 3.1",
        (
            "Each provider, tool and hook entry gives its module, an optional source and the "
            "config its mount receives."
        ),
    ),
    "PLAN-5": Requirement(
        "S2 config; spec 3.1",
        "The agents section and unknown keys are passed through without being read.",
    ),
    "PLAN-6": Requirement(
        "S4 Kernel Responsibilities; spec 3.1",
        (
            "The kernel expands no variables and parses no source texts; both reach mount and "
            "resolver as written."
        ),
    ),
    "PLAN-7": Requirement(
        "spec 3.1",
        (
            "Agent overlays, list merging and source texts such as git or zip URLs are the "
            "application's business."
        ),
        reading="The foundation is that application: bundles are merged, sources are parsed there.",
    ),
    "PLAN-8": Requirement(
        "S1 Provider Contract / Configuration",
        (
            "Environment references in a plan are resolved by the application before the session "
            "is built."
        ),
        reading="The foundation does, when it compiles a bundle: `${NAME}`, `${NAME:default}`.",
    ),
}
