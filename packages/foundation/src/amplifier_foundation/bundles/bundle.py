"""A bundle as read from its files, and the composition of two bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from amplifier_foundation.config.modules import merge, merge_modules
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.guards import lay_hooks, refuse_replacement

__all__ = ["Agent", "Bundle", "Missing", "Place", "Written", "compose"]

_LONGEST_WHY = 300


class Place(NamedTuple):
    """Where something was written: the file, and the root and name of the bundle it belongs to."""

    file: Path
    root: Path
    namespace: str

    @property
    def origin(self) -> str:
        """The file's name for a reader: `bundle:<name>/<path below the root>`."""
        if self.file.is_relative_to(self.root):
            file = self.file.relative_to(self.root)
        else:
            file = self.file
        return f"bundle:{self.namespace}/{file}"

    @property
    def told(self) -> str:
        """The file, to be added to an error message; empty for what the user named directly."""
        if self.namespace:
            return f" (named in `{self.file}`)"
        return ""


class Missing(NamedTuple):
    """Something that a bundle names and that does not exist; the bundle is used without it."""

    kind: str
    reference: str
    named_in: str
    why: str

    @classmethod
    def of(cls, kind: str, reference: str, place: Place, error: FoundationError) -> Missing:
        """Return what is missing according to an error."""
        # `__str__` already says that it is missing, with its name.
        message = error.message.replace(f"There is no `{reference}`.", "")
        why = " ".join(f"{message} {error.why}".split())
        if len(why) > _LONGEST_WHY:
            why = f"{why[:_LONGEST_WHY].rstrip()} …"
        return cls(kind, reference, place.origin, why)

    def __str__(self) -> str:
        return f"The {self.kind} `{self.reference}` of `{self.named_in}` is missing: {self.why}"


class Written(NamedTuple):
    """A text (an instruction, or a reference to a file) and where it was written.

    `found` is the local path of a reference by address, once it is fetched.
    """

    text: str
    place: Place
    found: Path | None = None


class Agent(NamedTuple):
    """An agent of a bundle: defined inline, or a reference to its file."""

    place: Place
    overlay: dict[str, Any]
    instruction: Written | None = None
    reference: str | None = None


class Bundle(NamedTuple):
    """The content of one bundle file, or of a file composed with all it includes.

    `namespaces` are the roots by name, for references such as `name:context/x.md`. `own` is the
    bundle without what a project's files set, None if they set nothing. `own_sources` are the
    folders that the user's own files name for modules. `has_default`: whether the shipped bundle
    is part of it. `notices` are for the user, and so is what is `missing`.
    A bundle is never modified: `compose` makes new ones.
    """

    name: str
    version: str = ""
    description: str = ""
    path: Path | None = None
    session: dict[str, Any] = {}
    providers: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = []
    hooks: list[dict[str, Any]] = []
    agents: dict[str, Agent] = {}
    context: tuple[Written, ...] = ()
    spawn: dict[str, Any] = {}
    instruction: Written | None = None
    namespaces: dict[str, Path] = {}
    own: Bundle | None = None
    own_sources: frozenset[Path] = frozenset()
    notices: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    has_default: bool = False


def compose(earlier: Bundle, later: Bundle) -> Bundle:
    """Return `earlier` overridden by `later`, by the rules in this folder's README.

    Raises:
        GuardError: one of them would replace a guard of the other without naming it.
    """
    if later.has_default and not earlier.has_default:
        # `lay_hooks` protects the guards of `earlier`; those of `default` also when it comes later.
        refuse_replacement(later.hooks, earlier.hooks, earlier.path)
    return later._replace(
        session=merge(earlier.session, later.session),
        providers=merge_modules(earlier.providers, later.providers),
        tools=merge_modules(earlier.tools, later.tools),
        hooks=lay_hooks(earlier.hooks, later.hooks, later.path),
        agents=earlier.agents | later.agents,
        context=tuple(dict.fromkeys((*earlier.context, *later.context))),
        spawn=merge(earlier.spawn, later.spawn),
        instruction=later.instruction or earlier.instruction,
        namespaces=earlier.namespaces | later.namespaces,
        own=_compose_own(earlier, later),
        notices=tuple(dict.fromkeys((*earlier.notices, *later.notices))),
        has_default=earlier.has_default or later.has_default,
    )


def _compose_own(earlier: Bundle, later: Bundle) -> Bundle | None:
    if earlier.own is None and later.own is None:
        return None
    return compose(earlier.own or earlier, later.own or later)
