"""Agents of a bundle, from their files to the overlays that a mount plan carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from amplifier_foundation.bundles.bundle import Agent, Bundle, Place, Written
from amplifier_foundation.bundles.files import Document
from amplifier_foundation.bundles.mentions import Texts
from amplifier_foundation.bundles.references import agent_files, find, plain_files
from amplifier_foundation.config.modules import merge_modules
from amplifier_foundation.errors import BundleError, MissingBundleError

__all__ = ["agent_overlays", "resolve_agent"]

_DELEGATES = frozenset({"tool-task", "tool-delegate"})

Read = Callable[[Path], Document]


def resolve_agent(agent: Agent, namespaces: Mapping[str, Path], read: Read) -> Agent:
    """Return an agent with its instruction, read from the file that has it.

    Raises:
        MissingBundleError: a reference to an agent leads to no file.
        BundleError: the file of its instruction does not exist.
    """
    if agent.reference is not None:
        return _from_file(agent.reference, agent.place, namespaces, read)
    overlay = dict(agent.overlay)
    system = cast("dict[str, Any]", overlay.pop("system", None) or {})
    told = overlay.pop("instructions", None) or overlay.pop("instruction", None)
    told = told or system.get("instruction")
    if isinstance(told, str):
        instruction = _told(told, agent.place, namespaces, read)
        return agent._replace(overlay=overlay, instruction=instruction)
    return agent._replace(overlay=overlay)


def agent_overlays(
    bundle: Bundle, tools: list[dict[str, Any]], texts: Texts
) -> dict[str, dict[str, Any]]:
    """Return each agent by name: its description, instruction, and what differs from its parent.

    An agent has its own tools and those of its parent's `tools` that the bundle's `spawn` allows.
    """
    handed_down = _handed_down(bundle.spawn, tools)
    overlays: dict[str, dict[str, Any]] = {}
    for name, agent in bundle.agents.items():
        overlay = dict(agent.overlay)
        parts = texts.of(agent.instruction)
        if parts:
            overlay["system"] = {"instruction": "\n\n".join(part.text for part in parts)}
        _settle_tools(name, overlay, tools, handed_down)
        overlays[name] = overlay
    return overlays


def _from_file(reference: str, place: Place, namespaces: Mapping[str, Path], read: Read) -> Agent:
    path = find(reference, place, namespaces, agent_files)
    if path is None:
        raise MissingBundleError(f"There is no such agent{place.told}.")
    document = read(path)
    name, colon, _ = reference.partition(":")
    if not colon or name == place.namespace:
        root = place.root
    else:
        root = namespaces[name]
    own = Place(path, root, name if colon else place.namespace)
    about = cast("dict[str, Any]", document.front.get("meta") or {})
    rest = {key: value for key, value in document.front.items() if key != "meta"}
    overlay: dict[str, Any] = {**about, **rest}
    overlay.pop("name", None)
    return Agent(own, overlay, Written(document.body, own) if document.body else None)


def _told(told: str, place: Place, namespaces: Mapping[str, Path], read: Read) -> Written:
    """Return an instruction that is given inline, or the text of the file that it names."""
    # A reference to a file has no white space; a sentence has.
    if "\n" in told or " " in told:
        return Written(told, place)
    path = find(told, place, namespaces, plain_files)
    if path is None:
        raise BundleError(f"There is no file `{told}`, named in `{place.file}`.")
    return Written(read(path).body, place._replace(file=path))


def _handed_down(spawn: dict[str, Any], tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools that children inherit: those in `tools`, without `exclude_tools`."""
    only = spawn.get("tools")
    but = spawn.get("exclude_tools") or ()
    return [
        entry
        for entry in tools
        if entry["module"] not in but and (only is None or entry["module"] in only)
    ]


def _settle_tools(
    name: str,
    overlay: dict[str, Any],
    tools: list[dict[str, Any]],
    handed_down: list[dict[str, Any]],
) -> None:
    own = overlay.get("tools")
    may_ask = overlay.get("agents", "all")
    if not (may_ask in ("all", "none") or isinstance(may_ask, list | dict)):
        why = "It is `all`, `none` or a list of agents."
        raise BundleError(f"`agents` of the agent `{name}` cannot be used.", why=why)
    # An explicit empty list means no tools; a missing one inherits the parent's.
    if own == []:
        return
    settled = merge_modules(handed_down, own or [])
    if may_ask == "none":
        settled = [entry for entry in settled if entry["module"] not in _DELEGATES]
    if settled != tools or own:
        overlay["tools"] = settled
        # A tool that delegates may exclude inherited tools, but not those an agent names itself.
        overlay["own_tools"] = [entry["module"] for entry in own or ()]
