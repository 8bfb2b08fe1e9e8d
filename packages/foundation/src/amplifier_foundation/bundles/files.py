"""Bundle files: YAML, or Markdown that begins with YAML between two lines of dashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, cast

from amplifier_foundation.bundles.bundle import Agent, Bundle, Place, Written
from amplifier_foundation.config.documents import parse_document, read_text, suggestion
from amplifier_foundation.config.modules import SESSION_PARTS, long_form, module_list
from amplifier_foundation.config.written_sources import BUNDLE_FILES
from amplifier_foundation.errors import BundleError

__all__ = ["BUNDLE_FILES", "Document", "bundle_from", "includes_of", "read_document"]

_KEYS = (
    "bundle",
    "includes",
    "session",
    "providers",
    "tools",
    "hooks",
    "agents",
    "context",
    "spawn",
)
_PROFILE_KEYS = ("profile", "extends")
# Further keys of an agent's file, which can be loaded like any bundle.
_AGENT_KEYS = ("meta", "model_role", "provider_preferences")


class Document(NamedTuple):
    """A parsed file: its YAML, and the text below it."""

    path: Path
    front: dict[str, Any]
    body: str

    @property
    def name(self) -> str:
        """The name it gives itself, else that of its file or, for a `bundle.md`, its folder."""
        about = _mapping(self, "bundle") or _mapping(self, "meta")
        if self.path.name in BUNDLE_FILES:
            plain = self.path.parent.name
        else:
            plain = self.path.stem
        return str(about.get("name") or plain)

    @property
    def namespace_root(self) -> str:
        """The folder that references by its name are relative to; empty means its own."""
        return str(_mapping(self, "bundle").get("namespace_root") or "")


def read_document(path: Path, text: str | None = None) -> Document:
    """Parse the file of a bundle or an agent; `text` is its content, if it was read before."""
    if text is None:
        text = read_text(path, error=BundleError)
    front, body = parse_document(path, text, error=BundleError)
    return Document(path, front, body)


def bundle_from(document: Document, place: Place) -> Bundle:
    """Return the bundle of one file, without its includes.

    Raises:
        BundleError: it is a profile, or a section of it cannot be used.
    """
    _refuse_profile(document)
    about = _mapping(document, "bundle") or _mapping(document, "meta")
    return Bundle(
        name=document.name,
        version=str(about.get("version") or ""),
        description=str(about.get("description") or ""),
        path=document.path,
        session=_session(document),
        providers=_modules(document, "providers"),
        tools=_modules(document, "tools"),
        hooks=_modules(document, "hooks"),
        agents=_agents(document, place),
        context=tuple(Written(each, place) for each in _included(document, "context")),
        spawn=_mapping(document, "spawn"),
        instruction=Written(document.body, place) if document.body else None,
        notices=tuple(_unknown_keys(document)),
    )


def includes_of(document: Document) -> list[str]:
    """Return the references to the bundles that this one includes, in order."""
    found: list[str] = []
    for entry in _list(document, "includes"):
        named: Any = entry
        if isinstance(entry, dict):
            # A behavior is a bundle in the folder `behaviors`; some files use its own key for it.
            keys = cast("dict[str, Any]", entry)
            named = keys.get("bundle") or keys.get("behavior")
        if not isinstance(named, str):
            raise _wrong(document, "includes", "a list of `- bundle: <name, path or address>`")
        found.append(named.strip())
    return found


def _refuse_profile(document: Document) -> None:
    """Raise BundleError for a profile, an older format that would be read as an empty bundle."""
    keys = [key for key in _PROFILE_KEYS if key in document.front]
    if keys and "bundle" not in document.front:
        raise BundleError(
            f"`{document.path}` is a profile, not a bundle.",
            why=f"It has `{keys[0]}:`. Profiles are an older format that is not read.",
            fix="write it as a bundle: `bundle:` for `profile:`, and `includes:` for `extends:`",
        )


def _agents(document: Document, place: Place) -> dict[str, Agent]:
    # In an agent's own file, `agents` lists whom it may delegate to; it defines no agents.
    if "meta" in document.front:
        return {}
    section = _mapping(document, "agents")
    agents = {name: Agent(place, {}, reference=name) for name in _included(document, "agents")}
    for name, overlay in section.items():
        if name == "include":
            continue
        if not isinstance(overlay, dict):
            raise _wrong(document, f"agents.{name}", "keys and values")
        agents[name] = Agent(place, cast("dict[str, Any]", overlay))
    return agents


def _included(document: Document, section: str) -> list[str]:
    names: Any = _mapping(document, section).get("include") or []
    if not isinstance(names, list) or not all(isinstance(n, str) for n in cast("list[Any]", names)):
        raise _wrong(document, f"{section}.include", "a list of references")
    # `@` marks references in Markdown; authors write it here too, with the same meaning.
    return [name.removeprefix("@") for name in cast("list[str]", names)]


def _session(document: Document) -> dict[str, Any]:
    session = long_form(_mapping(document, "session"))
    for part in SESSION_PARTS:
        if not isinstance(session.get(part, {}), dict):
            raise _wrong(document, f"session.{part}", "the id of a module, or `module: <id>`")
    return session


def _modules(document: Document, section: str) -> list[dict[str, Any]]:
    entries = module_list(_list(document, section))
    if entries is None:
        raise _wrong(document, section, "a list of `- module: <id>`")
    return entries


def _mapping(document: Document, section: str) -> dict[str, Any]:
    found: Any = document.front.get(section) or {}
    if not isinstance(found, dict):
        raise _wrong(document, section, "keys and values")
    return cast("dict[str, Any]", found)


def _list(document: Document, section: str) -> list[Any]:
    found: Any = document.front.get(section) or []
    if not isinstance(found, list):
        raise _wrong(document, section, "a list")
    return cast("list[Any]", found)


def _wrong(document: Document, section: str, wanted: str) -> BundleError:
    return BundleError(f"`{section}` in `{document.path}` cannot be used.", why=f"It is {wanted}.")


def _unknown_keys(document: Document) -> list[str]:
    if "meta" in document.front:
        known = (*_KEYS, *_AGENT_KEYS)
    else:
        known = _KEYS
    return [
        f"`{key}` in `{document.path}` has no meaning.{suggestion(key, known)}"
        for key in document.front
        if key not in known
    ]
