"""The code blocks of the document Coordinator API up to its last method, each by its first line."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "STWO-37": Requirement(
        "S2:37 ModuleCoordinator",
        (
            "A session makes the coordinator, and a module's mount reads ids and other modules "
            "from it, offers a capability and returns its cleanup."
        ),
    ),
    "STWO-79": Requirement(
        "S2:79 Properties",
        (
            "A mount reads ids, the session's settings and the providers from the properties "
            "and registers a hook."
        ),
    ),
    "STWO-102": Requirement(
        "S2:102 session",
        "`session` is a read-only property: the session that made this coordinator.",
    ),
    "STWO-109": Requirement(
        "S2:109 session",
        (
            "A module spawns a child session from its parent's merged config, with its own "
            "session id as lineage."
        ),
    ),
    "STWO-136": Requirement(
        "S2:136 session_id",
        "`session_id` is a read-only property: the id of the session.",
    ),
    "STWO-143": Requirement(
        "S2:143 session_id",
        "A module correlates logs with the session id, which every hook event carries too.",
    ),
    "STWO-164": Requirement(
        "S2:164 parent_id",
        (
            "`parent_id` is a read-only property: the id of the parent session, None for a root "
            "session."
        ),
    ),
    "STWO-171": Requirement(
        "S2:171 parent_id",
        "A module can tell a child session from a root session while it mounts.",
    ),
    "STWO-188": Requirement(
        "S2:188 config",
        "`config` is a read-only property: the very mount plan that the session was given.",
    ),
    "STWO-197": Requirement(
        "S2:197 config",
        (
            "A mount plan has the shown sections, and a session with it reads the two injection "
            "limits and passes `agents` through."
        ),
        reading=(
            "A hook is called `hook-linter` here and `hooks-...` elsewhere: a module id is free "
            "text. `{...}` stands for a config of the module's own."
        ),
    ),
    "STWO-221": Requirement(
        "S2:221 config",
        (
            "A mount gets its own config as an argument and reads the rest of the plan from the "
            "coordinator."
        ),
    ),
    "STWO-241": Requirement(
        "S2:241 loader",
        "`loader` is a property: the module loader, there as soon as the coordinator is.",
        reading="The seed calls it read-only; published code assigns it, so it can be assigned.",
    ),
    "STWO-248": Requirement(
        "S2:248 loader",
        (
            "A module loads and mounts another one through `coordinator.loader` and registers "
            "its cleanup."
        ),
    ),
    "STWO-267": Requirement(
        "S2:267 hooks",
        "`hooks` is a read-only property: the hook registry of the session.",
    ),
    "STWO-274": Requirement(
        "S2:274 hooks",
        (
            "A module registers a hook by keyword, emits an event of its own and unregisters "
            "with its cleanup."
        ),
    ),
    "STWO-299": Requirement(
        "S2:299 mount_points",
        "`mount_points` is a property: the dict of all mount points.",
        reading="The seed calls it read-only; published tests replace it, so it can be assigned.",
    ),
    "STWO-308": Requirement(
        "S2:308 mount_points",
        "The mount points are the six shown: single, named, built-in and optional ones.",
    ),
    "STWO-319": Requirement(
        "S2:319 mount_points",
        "A module can look through the mount points and refuse to mount without an orchestrator.",
    ),
    "STWO-361": Requirement(
        "S2:361 Methods",
        (
            "A module mounts its tool, offers a capability, reads another module and registers "
            "and returns its cleanup."
        ),
        reading="The cleanup is both registered and returned; it runs once.",
    ),
    "STWO-386": Requirement(
        "S2:386 mount",
        "`mount` is async and takes a mount point, a module and an optional name.",
        reading="S4:142 calls it without await: the coroutine takes effect at the call.",
    ),
    "STWO-407": Requirement(
        "S2:407 mount",
        "Single slots are replaced, named slots take a name or the module's own.",
    ),
    "STWO-443": Requirement(
        "S2:443 unmount",
        "`unmount` is async and takes a mount point and an optional name.",
    ),
    "STWO-461": Requirement(
        "S2:461 unmount",
        (
            "Unmounting empties a single slot or removes a named module, so that a provider can "
            "be exchanged."
        ),
    ),
    "STWO-481": Requirement(
        "S2:481 get",
        "`get` takes a mount point and an optional name.",
    ),
    "STWO-499": Requirement(
        "S2:499 get",
        "`get` returns a single module, the dict of a named slot, one named module, or None.",
    ),
    "STWO-521": Requirement(
        "S2:521 get",
        "What `get` returns has the shown types.",
    ),
    "STWO-538": Requirement(
        "S2:538 register_cleanup",
        "`register_cleanup` takes `cleanup_fn`, a callable.",
    ),
    "STWO-552": Requirement(
        "S2:552 register_cleanup",
        (
            "Plain and async cleanups are registered, also by a mount that returns its cleanup "
            "as well."
        ),
    ),
    "STWO-586": Requirement(
        "S2:586 register_capability",
        "`register_capability` takes name and value.",
    ),
    "STWO-602": Requirement(
        "S2:602 register_capability",
        "Functions and plain values are registered as capabilities under dotted names.",
    ),
    "STWO-627": Requirement(
        "S2:627 get_capability",
        "`get_capability` takes a name and returns a value or None.",
    ),
    "STWO-639": Requirement(
        "S2:639 get_capability",
        "A module checks for a capability before it uses it, and does without when there is none.",
        reading=(
            "Here `agents.spawn` takes an agent and a task; S2:1073 passes a dict of settings. "
            "A capability is what its module registered."
        ),
    ),
    "STWO-668": Requirement(
        "S2:668 register_contributor",
        "`register_contributor` takes channel, name and callback.",
    ),
    "STWO-688": Requirement(
        "S2:688 register_contributor",
        (
            "Contributors are registered by keyword, plain or async, and one that returns None "
            "is left out."
        ),
    ),
    "STWO-735": Requirement(
        "S2:735 collect_contributions",
        "`collect_contributions` is async, takes a channel and returns a list.",
    ),
    "STWO-747": Requirement(
        "S2:747 collect_contributions",
        "A consumer flattens collected lists and merges collected dicts.",
    ),
    "STWO-781": Requirement(
        "S2:781 process_hook_result",
        "`process_hook_result` is async and takes result, event and an optional hook name.",
    ),
    "STWO-799": Requirement(
        "S2:799 process_hook_result",
        "A denial by a hook becomes a PermissionError in the orchestrator.",
    ),
    "STWO-794": Requirement(
        "S2:794 process_hook_result, parameters",
        (
            "An injection's metadata names the hook it came from: the name it was registered "
            "under, else the name that the orchestrator gives."
        ),
        reading=(
            "The seed has the argument only. The registry knows which handler injected, and loops "
            "pass their own name or that of a tool, so the handler's name is the better audit."
        ),
    ),
    "STWO-816": Requirement(
        "S2:816 process_hook_result, processing flow",
        "A user message goes to the display system whatever the action, `ask_user` included.",
    ),
    "STWO-817": Requirement(
        "S2:817 process_hook_result, processing flow; S2:926 subsystem routing",
        "A request to suppress output is logged with hook and event, whatever the action.",
    ),
    "STWO-821": Requirement(
        "S2:821 process_hook_result, subsystem requirements",
        "Without subsystems the text of a user message is logged, and a question is denied.",
    ),
    "STWO-828": Requirement(
        "S2:828 cleanup",
        "`cleanup` is async and takes nothing.",
    ),
    "STWO-836": Requirement(
        "S2:836 cleanup",
        "Leaving a session calls the coordinator's cleanup, which can also be called by hand.",
    ),
    "STWO-855": Requirement(
        "S2:855 cleanup",
        "Cleanups run in reverse order of their registration.",
    ),
    "STWO-872": Requirement(
        "S2:872 reset_turn",
        "`reset_turn` is a plain method and takes nothing.",
    ),
    "STWO-880": Requirement(
        "S2:880 reset_turn",
        "An orchestrator resets the turn, and injections after that count against the budget.",
        reading=(
            "`provider.complete(messages)` is short for a ChatRequest, and S1 uses "
            "`get_messages_for_request`."
        ),
    ),
}
