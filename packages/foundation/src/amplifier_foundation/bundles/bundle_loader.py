"""Find a bundle by name, path or address, and compose it with all that it includes."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any, Protocol, cast

from amplifier_foundation import paths
from amplifier_foundation.bundles.agents import resolve_agent
from amplifier_foundation.bundles.bundle import Agent, Bundle, Missing, Place, Written, compose
from amplifier_foundation.bundles.files import (
    BUNDLE_FILES,
    Document,
    bundle_from,
    includes_of,
    read_document,
)
from amplifier_foundation.bundles.references import bundle_files, find, is_address, is_path
from amplifier_foundation.config.documents import suggestion
from amplifier_foundation.config.plain_files import is_file, require_own
from amplifier_foundation.config.project_files import (
    granted_text,
    is_of_project,
    refuse_untrusted,
)
from amplifier_foundation.config.written_sources import (
    SourceOrigin,
    bundle_root,
    origin_of,
    path_sources,
    with_absolute_sources,
)
from amplifier_foundation.errors import (
    BundleError,
    FoundationError,
    MissingBundleError,
    TrustError,
)
from amplifier_foundation.paths import cache, local_settings, project_settings
from amplifier_foundation.settings import Settings

_OURS = Path(__file__).resolve().parent.parent


class ChosenBundles:
    """Which bundles count as the project's: those it names too, wherever they come from.

    Otherwise a project could use a fetched bundle to set what its own files may not set.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_user = _named_in(settings, of_user=True)
        self._by_project = _named_in(settings, of_user=False)
        self._roots: list[Path] = []

    def is_of_project(self, path: Path) -> bool:
        """Return whether the content of a file counts as the project's."""
        if is_of_project(path, self._settings):
            return True
        if path.resolve().is_relative_to(_OURS) or self._is_users(path):
            return False
        return any(path.resolve().is_relative_to(root) for root in self._roots)

    def is_by_project(self, reference: str, place: Place) -> bool:
        """Return whether a reference is the project's: in its settings, or in a file of it."""
        # What the user names as well is the user's choice.
        if reference in self._by_user:
            return False
        # A place without a namespace is the command line, or the settings.
        in_file = bool(place.namespace) and self.is_of_project(place.file)
        return in_file or reference in self._by_project

    def refuse_ungranted(self, address: str, place: Place) -> bool:
        """Return whether the project wants an address fetched; raises TrustError if not granted."""
        by_project = self.is_by_project(address, place)
        if by_project:
            # Imported here because most sessions fetch nothing for a project.
            from amplifier_foundation.config.addresses import origins_in  # noqa: PLC0415
            from amplifier_foundation.config.project_values import refuse_ungranted  # noqa: PLC0415

            settings = self._settings
            refuse_ungranted(origins_in(address), settings.granted, settings.project)
        return by_project

    def note(self, found: Path, *, by_project: bool) -> None:
        """Record which file or folder a reference has led to."""
        if not by_project or self._is_users(found):
            return
        found = found.resolve()
        cache = paths.cache(self._settings.home).resolve()
        if found.is_relative_to(cache) and found != cache:
            # The whole fetched tree, because its files can include each other.
            self._roots.append(cache / found.relative_to(cache).parts[0])
        else:
            self._roots.append(found if found.is_dir() else found.parent)

    def _is_users(self, path: Path) -> bool:
        """Return whether a file is in the user's folder, and was not fetched there."""
        home = self._settings.home.resolve()
        real = path.resolve()
        return real.is_relative_to(home) and not real.is_relative_to(paths.cache(home))


def _named_in(settings: Settings, *, of_user: bool) -> set[str]:
    """Return the references to bundles in the user's settings, or in the project's."""
    found: set[str] = set()
    for layer in settings.layers:
        if (layer.scope == "user") is not of_user:
            continue
        about = cast("dict[str, Any]", layer.values.get("bundle") or {})
        sources = cast("dict[str, Any]", layer.values.get("sources") or {})
        named: list[Any] = [about.get("active"), *(about.get("app") or ())]
        named += (about.get("added") or {}).values()
        named += (sources.get("bundles") or {}).values()
        found.update(each for each in named if isinstance(each, str))
    return found


DEFAULT = Path(__file__).parent / "default" / "bundle.md"
GUARDS = DEFAULT.with_name("guards.yaml")  # the only include of the default bundle
_SHIPPED = (DEFAULT, GUARDS)


class BundleSource(Protocol):
    """Fetches bundles from elsewhere to this machine."""

    def fetch(self, uri: str) -> Path:
        """Return the local file or folder of an address; blocks."""
        ...


async def load_bundle(
    reference: str | Path, *, resolver: BundleSource | None = None, settings: Settings
) -> Bundle:
    """Return the bundle of that name, path or address, composed with all that it includes.

    Without a `resolver`, nothing is fetched and addresses are refused. An include, an agent or a
    context file that does not exist is left out, and listed in `missing`; one that exists and is
    not allowed, or is not what was pinned, is an error.

    Raises:
        BundleError: a file of it cannot be found, read or used.
        TrustError: a file of it is in a project that is not trusted.
    """
    return await _Loader(resolver, settings).load(str(reference))


def default_bundle(settings: Settings) -> Bundle:
    """Return the bundle that is used when none is chosen."""
    loader = _Loader(None, settings)
    return compose(loader.read(GUARDS), loader.read(DEFAULT))


def known_bundles(settings: Settings) -> dict[str, str]:
    """Return the locations of the bundles that the user, or a trusted project, has named.

    `default` is not among them: it comes with this package, and the name is reserved.
    """
    folders = [settings.home / "bundles"]
    if settings.trusted:
        # First, so that the user's bundle of the same name wins.
        folders.insert(0, settings.project / ".amplifier" / "bundles")
    known: dict[str, str] = {}
    for folder in folders:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            known[path.stem if path.is_file() else path.name] = str(path)
    known |= settings.get("bundle.added") or {}
    known |= settings.get("sources.bundles") or {}
    return known


class _Loader:
    """The state of one load: the bundles found so far, by name and by file."""

    def __init__(self, resolver: BundleSource | None, settings: Settings) -> None:
        self._resolver = resolver
        self._settings = settings
        self._chosen = ChosenBundles(settings)
        self._namespaces: dict[str, Path] = {}
        self._documents: dict[Path, Document] = {}
        self._composed: dict[Path, Bundle] = {}
        self._own_sources: set[Path] = set()
        self._missing: dict[Missing, None] = {}

    async def load(self, reference: str) -> Bundle:
        project = self._settings.project
        here = Place(project / "asked for", project, "")
        bundle = await self._compose(await self._locate(reference, here), ())
        agents = self._agents(bundle)
        context = await self._context(bundle)
        of_user = {
            name: agent
            for name, agent in agents.items()
            if not self._chosen.is_of_project(agent.place.file)
        }
        own = bundle.own
        if own is not None or len(of_user) < len(agents):
            own = (own or bundle)._replace(agents=of_user)
        return bundle._replace(
            namespaces=dict(self._namespaces),
            agents=agents,
            context=context,
            own=own,
            own_sources=frozenset(self._own_sources),
            missing=tuple(self._missing),
        )

    def read(self, path: Path) -> Bundle:
        """Return the bundle of one file without its includes, and register its name."""
        document = self._document(path)
        place = self._place(document)
        self._namespaces.setdefault(place.namespace, place.root)
        self._namespaces.setdefault(document.name, _own_root(document, place))
        of_project = self._chosen.is_of_project(path)
        return bundle_from(document, place)._replace(
            namespaces=dict(self._namespaces),
            own=Bundle(document.name) if of_project else None,
            has_default=path == DEFAULT,
        )

    async def _compose(self, path: Path, above: tuple[Path, ...]) -> Bundle:
        if path in above:
            chain = " -> ".join(str(each) for each in (*above[above.index(path) :], path))
            raise MissingBundleError(f"`{path}` includes itself.", why=f"{chain}.")
        if path not in self._composed:
            own = self.read(path)
            document = self._document(path)
            place = self._place(document)
            parts: list[Bundle] = []
            for each in includes_of(document):
                try:
                    found = await self._locate(each, place)
                    parts.append(await self._compose(found, (*above, path)))
                except FoundationError as error:
                    self._leave_out("include", each, place, error)
            self._composed[path] = reduce(compose, [*parts, own])
        return self._composed[path]

    def _leave_out(self, kind: str, reference: str, place: Place, error: FoundationError) -> None:
        """Record what does not exist, and raise any other error again."""
        if not error.is_missing:
            raise error
        self._missing[Missing.of(kind, reference, place, error)] = None

    def _agents(self, bundle: Bundle) -> dict[str, Agent]:
        agents: dict[str, Agent] = {}
        for name, agent in bundle.agents.items():
            try:
                agents[name] = resolve_agent(agent, self._namespaces, self._document)
            except FoundationError as error:
                self._leave_out("agent", name, agent.place, error)
        return agents

    async def _context(self, bundle: Bundle) -> tuple[Written, ...]:
        """Return the context files of a bundle; those named by address are fetched."""
        context: list[Written] = []
        for each in bundle.context:
            if not is_address(each.text):
                context.append(each)
                continue
            try:
                context.append(each._replace(found=await self._addressed(each.text, each.place)))
            except FoundationError as error:
                self._leave_out("context file", each.text, each.place, error)
        return tuple(context)

    async def _addressed(self, address: str, place: Place) -> Path:
        """Fetch an address, unless it is the project's and was not granted."""
        by_project = self._chosen.refuse_ungranted(address, place)
        found = await self._fetch(address)
        self._chosen.note(found, by_project=by_project)
        return found

    def _document(self, path: Path) -> Document:
        if path not in self._documents:
            self._documents[path] = self._read_file(path)
        return self._documents[path]

    def _read_file(self, path: Path) -> Document:
        if path in _SHIPPED:
            # Read at every start, so the checks are skipped: these files are part of the program.
            return read_document(path, path.read_text(encoding="utf-8"))
        refuse_untrusted(path, self._settings)
        document = read_document(path, granted_text(path, self._settings, error=BundleError))
        front = with_absolute_sources(document.front, self._origin(path))
        if self._is_users(path):
            # Folders that the user's own files name need no grant, even inside the project.
            self._own_sources |= set(path_sources(front))
        return document._replace(front=front)

    def _is_users(self, path: Path) -> bool:
        """Return whether a file is in the user's own folder, and was not fetched."""
        home = self._settings.home.resolve()
        real = path.resolve()
        return real.is_relative_to(home) and not real.is_relative_to(cache(home))

    def _origin(self, path: Path) -> SourceOrigin:
        """Return what sources in a file are relative to; a project's may not lead out of it."""
        settings = self._settings
        if is_of_project(path, settings):
            project = settings.project
        else:
            project = None
        return origin_of(path.resolve(), settings.home, project)

    def _place(self, document: Document) -> Place:
        """Return the place of a file; its root is the nearest folder above that has a bundle."""
        path = document.path
        root = bundle_root(path, self._settings.home)
        for name in BUNDLE_FILES:
            if (root / name).is_file():
                return Place(path, root, self._document(root / name).name)
        return Place(path, path.parent, document.name)

    async def _locate(self, reference: str, place: Place) -> Path:
        if is_address(reference):
            found = await self._addressed(reference, place)
        elif is_path(reference):
            found = _from(place.file.parent, reference)
            self._chosen.note(found, by_project=self._chosen.is_by_project(reference, place))
        elif ":" in reference:
            name = reference.partition(":")[0]
            if name not in self._namespaces:
                self.read(await self._named(name, place))
            return self._existing(
                find(reference, place, self._namespaces, bundle_files), reference, place
            )
        else:
            return await self._named(reference, place)
        files = (each for each in bundle_files(found, found) if is_file(each))
        return self._existing(next(files, None), reference, place)

    def _existing(self, path: Path | None, reference: str, place: Place) -> Path:
        if path is None:
            raise MissingBundleError(f"There is no bundle `{reference}`{place.told}.")
        return path.resolve()

    async def _fetch(self, address: str) -> Path:
        if self._resolver is None:
            why = "No source was given for it."
            raise MissingBundleError(f"`{address}` was not fetched.", why=why)
        import asyncio  # noqa: PLC0415 - bundles on this machine are loaded without waiting

        return await asyncio.to_thread(self._resolver.fetch, address)

    async def _named(self, name: str, place: Place) -> Path:
        # Before all other names: nothing may put another bundle, without guards, in its place.
        if name == "default":
            return DEFAULT
        if name in self._namespaces:
            root = self._namespaces[name]
            for file in BUNDLE_FILES:
                if is_file(root / file):
                    return root / file
        known = known_bundles(self._settings)
        if name not in known:
            withheld = self._withheld(name)
            # An untrusted folder may define the name, so it cannot be left out as missing.
            error = BundleError if withheld else MissingBundleError
            raise error(
                f"There is no bundle `{name}`{place.told}.",
                why=f"Known: {', '.join(['default', *known])}."
                f"{suggestion(name, list(known))}{withheld}",
                fix="amplifier bundle list",
            )
        if is_path(known[name]):
            # Checked before links are followed: another user's link would lead to their files.
            require_own(_from(place.file.parent, known[name], follow=False), BundleError)
        return await self._locate(known[name], place)

    def _withheld(self, name: str) -> str:
        """Return what an error about an unknown name adds in a folder that is not trusted.

        Raises:
            TrustError: the folder has a bundle of that name.
        """
        project = self._settings.project
        if self._settings.trusted:
            return ""
        file = project / ".amplifier" / "bundles" / name
        if any(is_file(each) for each in bundle_files(file, file)):
            raise TrustError(
                f"The bundle `{name}` is not used.",
                why=f"It is in `{project}`, which is not trusted.",
                fix="amplifier trust grant",
            )
        files = (project_settings(project), local_settings(project))
        if any(is_file(each) and is_of_project(each, self._settings) for each in files):
            return " This folder, which is not trusted, may have it (amplifier trust grant)."
        return ""


def _from(folder: Path, path: str, *, follow: bool = True) -> Path:
    found = folder / Path(path).expanduser()
    return found.resolve() if follow else found


def _own_root(document: Document, place: Place) -> Path:
    """Return the root of references by a bundle's name: `namespace_root`, else its own folder."""
    root = (document.path.parent / document.namespace_root).resolve()
    # With `namespace_root: /`, a bundle could show any file of the user's to a model.
    if document.namespace_root and not root.is_relative_to(place.root.resolve()):
        raise BundleError(
            f"`namespace_root` in `{document.path}` cannot be used.",
            why=f"It leads out of the bundle at `{place.root}`.",
        )
    return root
