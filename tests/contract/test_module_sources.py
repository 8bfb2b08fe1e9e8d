"""Contract of module sources: the resolver, the path it leads to, and what is refused there."""

from __future__ import annotations

import inspect
import sys
from abc import ABC
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, ModuleLoader, module_sources
from amplifier_core.loader import ModuleValidationError, module_failure_reason
from amplifier_core.module_sources import (
    FileSystemModuleSource,
    ModuleLoadError,
    ModuleSource,
    ModuleSourceResolver,
)
from contract.doubles import Listener
from contract.installer import Installer, mounting, write_module
from contract.requirements import requirement

MOUNT = """
    async def mount(coordinator, config):
        coordinator.register_capability("mounted", (__name__, dict(config)))
"""


class Folder:
    """A source that is a local folder."""

    def __init__(self, path: Any) -> None:
        self.path = path

    def resolve(self) -> Path:
        """Give the folder, or raise what stands in its place."""
        if isinstance(self.path, Exception):
            raise self.path
        return self.path


class Resolver:
    """Answers with one source, or raises it, and keeps how it was asked."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        """Keep the question and answer it."""
        self.asked.append((module_id, {"source_hint": source_hint, "profile_hint": profile_hint}))
        if isinstance(self.source, Exception):
            raise self.source
        return self.source


def _loader(resolver: Any) -> tuple[ModuleLoader, ModuleCoordinator]:
    coordinator = ModuleCoordinator()
    _ = coordinator.mount("module-source-resolver", resolver)
    return ModuleLoader(coordinator), coordinator


async def _mount(resolver: Any, module_id: str, **kwargs: Any) -> Any:
    loader, coordinator = _loader(resolver)
    try:
        bound = await loader.load(module_id, **kwargs)
        await bound(coordinator)
    finally:
        loader.cleanup()
    return coordinator.get_capability("mounted")


@requirement("LOAD-9", "LOAD-11", "LOAD-12", "SRC-4", "SRC-6")
async def test_a_mounted_resolver_says_where_a_module_is(
    installed: Installer, tmp_path: Path
) -> None:
    resolver = Resolver(Folder(write_module(tmp_path, "tool-sourced", MOUNT)))
    hint = {"any": "shape"}

    mounted = await _mount(resolver, "tool-sourced", config={"n": 1}, source_hint=hint)
    await _mount(resolver, "tool-sourced", profile_source="the seed's name")

    assert mounted == ("amplifier_module_tool_sourced", {"n": 1})
    assert resolver.asked[0] == ("tool-sourced", {"source_hint": hint, "profile_hint": hint})
    assert resolver.asked[0][1]["source_hint"] is hint
    assert resolver.asked[1][1]["source_hint"] == "the seed's name"


@requirement("LOAD-11", "LAW-24")
async def test_a_resolver_with_the_seeds_signature_gets_the_one_hint_it_takes(
    installed: Installer, tmp_path: Path
) -> None:
    folder = Folder(write_module(tmp_path, "tool-seed", MOUNT))
    hints: list[Any] = []

    class SeedResolver:
        def resolve(self, module_id: str, profile_hint: Any = None) -> Folder:
            hints.append(profile_hint)
            return folder

    assert await _mount(SeedResolver(), "tool-seed", source_hint="here") is not None
    assert hints == ["here"]


@requirement("LOAD-10")
async def test_a_resolver_that_can_wait_is_waited_for(installed: Installer, tmp_path: Path) -> None:
    folder = Folder(write_module(tmp_path, "tool-async", MOUNT))

    class AsyncResolver(Resolver):
        async def async_resolve(self, module_id: str, **hints: Any) -> Folder:
            assert set(hints) == {"source_hint", "profile_hint"}
            return folder

    resolver = AsyncResolver(RuntimeError("not me"))

    assert await _mount(resolver, "tool-async") is not None
    assert resolver.asked == []


@requirement("LOAD-13", "SRC-3")
async def test_a_module_the_resolver_does_not_know_may_still_be_installed(
    installed: Installer,
) -> None:
    unknown = module_sources.ModuleNotFoundError("asked three registries for tool-x")
    loader, _ = _loader(Resolver(unknown))
    installed.add("tool-known", mounting("tools", object()))

    assert callable(await loader.load("tool-known"))
    with pytest.raises(module_sources.ModuleNotFoundError) as caught:
        await loader.load("tool-unknown")

    assert caught.value is unknown
    assert str(unknown) == "asked three registries for tool-x"


@requirement("LOAD-14")
@pytest.mark.parametrize("from_source", [True, False])
async def test_other_errors_of_resolver_and_source_are_not_hidden(
    installed: Installer, from_source: bool
) -> None:
    error = PermissionError("no entry")
    loader, _ = _loader(Resolver(Folder(error) if from_source else error))

    with pytest.raises(PermissionError) as caught:
        await loader.load("tool-guarded")

    assert caught.value is error


@requirement("SRC-8", "SRC-1")
async def test_an_answer_that_is_no_source_is_an_error_of_that_module(
    installed: Installer,
) -> None:
    plan = installed.basics(tools=[{"module": "tool-nowhere"}])

    class Confused(Resolver):
        def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
            if module_id == "tool-nowhere":
                return "not a source"
            raise module_sources.ModuleNotFoundError(module_id)

    session = AmplifierSession(plan)
    heard = Listener()
    session.coordinator.hooks.register("module:load_failed", heard)
    await session.coordinator.mount("module-source-resolver", Confused(None))

    await session.initialize()

    assert [data["module_id"] for _, data in heard.calls] == ["tool-nowhere"]


@requirement("LOAD-15")
async def test_the_import_path_is_extended_once_and_restored(
    installed: Installer, tmp_path: Path
) -> None:
    loader, _ = _loader(Resolver(Folder(write_module(tmp_path, "tool-path", MOUNT))))
    before = list(sys.path)

    await loader.load("tool-path")
    await loader.load("tool-path")
    assert sys.path.count(str(tmp_path)) == 1

    loader.cleanup()
    assert sys.path == before


@requirement("LOAD-16", "LOAD-20")
@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        ("unmountable", "mount = 'not callable'", "mount"),
        ("sync", "def mount(coordinator, config): ...", "async"),
        ("short", "async def mount(coordinator): ...", "2 parameters"),
    ],
)
async def test_a_module_that_breaks_its_contract_is_not_mounted(
    installed: Installer, tmp_path: Path, name: str, source: str, text: str
) -> None:
    module_id = f"tool-{name}"
    loader, _ = _loader(Resolver(Folder(write_module(tmp_path, module_id, source))))

    with pytest.raises(ModuleValidationError, match=text) as caught:
        await loader.load(module_id)
    loader.cleanup()

    assert f"Module '{module_id}' failed validation: " in str(caught.value)
    assert "Errors: mount_" in str(caught.value)
    assert module_failure_reason(caught.value) == "validation_failed"


@requirement("LOAD-17")
async def test_the_package_is_looked_for_in_three_places(
    installed: Installer, tmp_path: Path
) -> None:
    at_the_path = write_module(tmp_path / "a", "x", MOUNT, "amplifier_module_tool_at_path")
    other_name = write_module(tmp_path / "b", "x", MOUNT, "amplifier_module_tool_other_name")
    places = {
        "tool-at-path": at_the_path / "amplifier_module_tool_at_path",
        "tool-differently-named": other_name,
    }
    for module_id, place in places.items():
        assert await _mount(Resolver(Folder(place)), module_id) is not None

    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "missing"):
        loader, _ = _loader(Resolver(Folder(place)))
        with pytest.raises(ModuleValidationError, match="has no valid Python package at"):
            await loader.load("tool-nothing")


@requirement("LOAD-18")
async def test_an_unknown_type_is_refused_with_the_known_ones(
    installed: Installer, tmp_path: Path
) -> None:
    source = "__amplifier_module_type__ = 'gadget'\nasync def mount(coordinator, config): ..."
    loader, _ = _loader(Resolver(Folder(write_module(tmp_path, "tool-gadget", source))))

    with pytest.raises(ModuleValidationError, match="unknown type 'gadget'") as caught:
        await loader.load("tool-gadget")
    loader.cleanup()

    assert all(kind in str(caught.value) for kind in ("orchestrator", "provider", "resolver"))


@requirement("LOAD-30", "LOAD-32")
@pytest.mark.parametrize("transport", ["wasm", "grpc", "rust"])
async def test_another_transport_than_python_is_refused_in_plain_words(
    installed: Installer, tmp_path: Path, transport: str
) -> None:
    module_id = f"tool-{transport}"
    write_module(tmp_path, module_id, MOUNT)
    manifest = tmp_path / "amplifier.toml"
    manifest.write_text(f'[module]\ntransport = "{transport}"\n', encoding="utf-8")
    loader, _ = _loader(Resolver(Folder(tmp_path)))

    with pytest.raises(ModuleLoadError, match=transport) as caught:
        await loader.load(module_id)
    assert "only 'python' is supported" in str(caught.value)

    manifest.write_text('[module]\ntransport = "python"\n', encoding="utf-8")
    assert callable(await loader.load(module_id))
    loader.cleanup()


@requirement("LOAD-31")
async def test_an_id_that_moved_is_not_answered_with_the_old_code(
    installed: Installer, tmp_path: Path
) -> None:
    resolver = Resolver(Folder(write_module(tmp_path / "old", "tool-moved", MOUNT)))
    loader, _ = _loader(resolver)
    await loader.load("tool-moved")
    resolver.source = Folder(write_module(tmp_path / "new", "tool-moved", MOUNT))

    with pytest.raises(Exception, match="Refusing to load"):
        await loader.load("tool-moved")
    loader.cleanup()


@requirement("LIFE-11")
async def test_a_plain_ready_function_does_not_cost_a_sourced_module_its_life(
    installed: Installer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = "async def mount(coordinator, config): ...\ndef on_session_ready(coordinator): ..."
    loader, _ = _loader(Resolver(Folder(write_module(tmp_path, "tool-plainready", source))))

    bound = await loader.load("tool-plainready")
    loader.cleanup()

    assert not hasattr(bound, "__on_session_ready__")
    assert "must be async" in caplog.text


@requirement("VALID-13")
async def test_loading_a_sourced_module_does_not_mount_it_twice(
    installed: Installer, tmp_path: Path
) -> None:
    source = """
        mounts = []

        async def mount(coordinator, config):
            mounts.append(config)
            coordinator.register_capability("mounted", mounts)
    """
    resolver = Resolver(Folder(write_module(tmp_path, "tool-once", source)))

    mounts = await _mount(resolver, "tool-once", config={"api_key": "real"})

    assert mounts == [{"api_key": "real"}]


@requirement("SRC-1", "SRC-2")
def test_sources_and_resolvers_are_known_by_their_structure() -> None:
    class Own(ModuleSource):
        def resolve(self) -> Path:
            return Path()

    class Incomplete(ModuleSource, ABC):
        pass

    assert isinstance(Own(), ModuleSource)
    assert isinstance(Folder(Path()), ModuleSource)
    assert isinstance(Resolver(None), ModuleSourceResolver)
    assert not isinstance(object(), (ModuleSource, ModuleSourceResolver))
    with pytest.raises(TypeError):
        Incomplete()  # pyright: ignore[reportAbstractUsage] - on purpose


@requirement("SRC-3", "ERR-5")
@pytest.mark.parametrize("name", ["ModuleNotFoundError", "ModuleLoadError"])
def test_a_resolver_may_raise_the_source_errors_with_a_sentence(name: str) -> None:
    error: Exception = getattr(module_sources, name)("tool-x: asked the workspace and the index")

    assert isinstance(error, Exception)
    assert str(error) == "tool-x: asked the workspace and the index"


@requirement("SRC-7")
def test_a_filesystem_source_gives_copies() -> None:
    source = FileSystemModuleSource(["/a", "/b"])

    source.get_module_paths().append("/c")
    source.get_mention_mappings()["@x"] = "/x"

    assert source.get_module_paths() == ["/a", "/b"]
    assert source.get_mention_mappings() == {}
    assert FileSystemModuleSource().get_module_paths() == []
    assert not hasattr(source, "resolve")


@requirement("SRC-9")
def test_the_kernel_ships_no_sources_of_its_own() -> None:
    own = [
        name
        for name, member in inspect.getmembers(module_sources, inspect.isclass)
        if member.__module__ == module_sources.__name__
    ]

    assert sorted(own) == ["FileSystemModuleSource", "ModuleSource", "ModuleSourceResolver"]
