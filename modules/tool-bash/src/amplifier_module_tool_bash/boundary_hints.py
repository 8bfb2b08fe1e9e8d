"""What to tell the model about a command that failed because of its sandbox."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from amplifier_module_tool_bash.needs import GIT
from amplifier_module_tool_bash.reading import is_reading
from amplifier_sandbox.network.destinations import PACKAGES, registries
from amplifier_sandbox.network.proxy import NOT_ASKED_FOR

_READ_ONLY = re.compile(r"Read-only file system|EROFS")
_RUNS_GIT = re.compile(r"\bgit\s")
# Where nothing is mounted, a path outside is not read-only but denied.
_DENIED = re.compile(r"Operation not permitted|EPERM")
_IN_GIT = re.compile(r"\.git/|index\.lock")
_UNRESOLVED = re.compile(
    r"Could not resolve host|Temporary failure in name resolution|Name or service not known"
    r"|ENOTFOUND|EAI_AGAIN|Network is unreachable|ENETUNREACH"
)


_GIT_HINT = f'`{GIT}` is read-only. To commit, repeat it with write: ["{GIT}"] and a reason.'


def boundary_hint(
    refused: Mapping[str, str],
    said: str,
    command: str,
    protected: Sequence[str],
    *,
    denies: bool = False,
) -> str | None:
    """Return what the command ran into and what to ask for; None if it was not the sandbox.

    `said` is its output, and `protected` are the paths in the workspace that it could not write to.
    With `denies`, the sandbox is one that returns EPERM for what is outside.
    """
    if refused:
        return _of_network(refused)
    if _READ_ONLY.search(said) or (denies and _DENIED.search(said)):
        if _IN_GIT.search(said):
            return _GIT_HINT
        return (
            "It wrote outside of the workspace, which is read-only. If that is needed, repeat it "
            "with write: [the folder] and a reason."
        )
    if _UNRESOLVED.search(said):
        return (
            "It has no network. If it needs one, repeat it with network: [the domain] and a "
            "reason; it has to connect through the proxy that HTTPS_PROXY names."
        )
    # `git stash` fails without a word. Those that only look, such as `git diff --quiet`, may mean
    # something by their exit code.
    if not said.strip() and GIT in protected and _RUNS_GIT.search(command):
        return None if is_reading(command) else _GIT_HINT
    return None


def _of_network(refused: Mapping[str, str]) -> str:
    inward = [f"{place} ({why})" for place, why in refused.items() if why != NOT_ASKED_FOR]
    if inward:
        places = ", ".join(inward)
        return f"The sandbox did not connect to {places}; asking for it does not change that."
    hosts = dict.fromkeys(place.rpartition(":")[0] for place in refused)
    known = {each.host for each in registries()}
    wanted = [PACKAGES] if hosts.keys() <= known else list(hosts)
    asked = ", ".join(f'"{each}"' for each in wanted)
    return (
        f"The sandbox refused to connect to {', '.join(refused)}. If the command needs it, repeat "
        f"it with network: [{asked}] and a reason."
    )
