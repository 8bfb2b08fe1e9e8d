"""The resolver as the kernel and the apps use it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amplifier_core import AmplifierSession, __version__
from amplifier_core.errors import (
    ModuleLoadError,
    ModuleNotFoundError,  # noqa: A004 - the name is fixed by the source contract
)
from amplifier_core.loader import ModuleLoader
from amplifier_core.module_sources import ModuleSource, ModuleSourceResolver
from amplifier_core.testing import create_test_coordinator
from amplifier_foundation.errors import SourceError
from amplifier_foundation.sources import (
    AmbiguousModuleError,
    DriftError,
    FetchError,
    KernelMismatchError,
    Lock,
    SourceResolver,
    UnpinnedError,
)
from contract.requirements import requirement

Resolvers = Callable[..., SourceResolver]
Locked = Callable[..., None]
Commit = Callable[[dict[str, str]], str]
PACKAGE = "amplifier_module_tool_echo"


@pytest.fixture
def on_disk(project: Path, module_code: str) -> Path:
    """A module in the project's own folder."""
    package = project / "modules" / "echo" / "src" / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(module_code, encoding="utf-8")
    return package.parents[1]


@pytest.fixture
def unloaded() -> Iterator[None]:
    """The module under test is not imported before, nor after."""
    sys.modules.pop(PACKAGE, None)
    yield
    sys.modules.pop(PACKAGE, None)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Install a distribution that declares a module, on an import path of this test."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])

    def install(distribution: str, module_id: str, code: str = "", requires: str = "") -> Path:
        package = f"package_of_{distribution.replace('-', '_')}"
        (site / package).mkdir()
        (site / package / "__init__.py").write_text(code, encoding="utf-8")
        metadata = site / f"{distribution.replace('-', '_')}-1.2.dist-info"
        metadata.mkdir()
        lines = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n{requires}\n"
        (metadata / "METADATA").write_text(lines, encoding="utf-8")
        entry = f"[amplifier.modules]\n{module_id} = {package}:mount\n"
        (metadata / "entry_points.txt").write_text(entry, encoding="utf-8")
        return site / package

    return install


def test_it_is_what_the_kernel_asks_for(resolver_with: Resolvers, on_disk: Path) -> None:
    resolver = resolver_with()

    assert isinstance(resolver, ModuleSourceResolver)
    assert isinstance(resolver.resolve("tool-echo", "./modules/echo"), ModuleSource)


@pytest.mark.usefixtures("unloaded")
async def test_the_source_in_a_mount_plan_is_loaded(
    echo_uri: str, resolver_with: Resolvers, locked: Locked
) -> None:
    locked("tool-echo", echo_uri)
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock"}],
        "tools": [{"module": "tool-echo", "source": echo_uri}],
    }
    session = AmplifierSession(plan)
    await session.coordinator.mount("module-source-resolver", resolver_with())
    async with session:
        assert "echo" in session.coordinator.get("tools")
        assert sys.modules[PACKAGE].__file__ == str(
            resolver_with().resolve("tool-echo", echo_uri).path / PACKAGE / "__init__.py"
        )


@requirement("SRC-10")
@pytest.mark.usefixtures("unloaded", "on_disk")
@pytest.mark.parametrize("kind", ["folder", "git", "archive", "package"])
async def test_each_kind_of_source_leads_to_a_path_that_is_imported(
    kind: str,
    echo_uri: str,
    archive: Callable[..., str],
    installed: Callable[..., Path],
    module_code: str,
    resolver_with: Resolvers,
    locked: Locked,
) -> None:
    installed("echo-package", "tool-echo", module_code)
    hint = {
        "folder": "./modules/echo",
        "git": echo_uri,
        "archive": archive([(f"{PACKAGE}/__init__.py", module_code)]),
        "package": "package:echo-package",
    }[kind]
    if kind in ("git", "archive"):
        locked("tool-echo", hint)
    resolver, coordinator = resolver_with(), create_test_coordinator()
    await coordinator.mount("module-source-resolver", resolver)

    await (await ModuleLoader(coordinator).load("tool-echo", source_hint=hint))(coordinator)

    assert "echo" in coordinator.get("tools")
    imported = "package_of_echo_package" if kind == "package" else PACKAGE
    code = Path(str(sys.modules[imported].__file__))
    assert code.is_relative_to(resolver.locate("tool-echo", hint).path)


@pytest.mark.attack("U1")
@pytest.mark.usefixtures("unloaded")
async def test_a_refused_module_is_not_looked_for_elsewhere(
    resolver_with: Resolvers, installed: Callable[..., Path], module_code: str
) -> None:
    installed("echo-squatter", "tool-echo", module_code)
    coordinator = create_test_coordinator()
    await coordinator.mount("module-source-resolver", resolver_with())

    with pytest.raises(UnpinnedError) as refused:
        await ModuleLoader(coordinator).load("tool-echo", source_hint="git+https://localhost/o/r@x")

    assert isinstance(refused.value, ModuleLoadError)
    assert isinstance(refused.value, SourceError)
    assert refused.value.module_id == "tool-echo"


async def test_an_installed_module_is_taken_by_its_entry_point_without_a_copy(
    resolver_with: Resolvers, installed: Callable[..., Path], module_code: str
) -> None:
    package = installed("echo-installed", "tool-echo-installed", module_code)
    coordinator = create_test_coordinator()
    resolver = resolver_with()
    await coordinator.mount("module-source-resolver", resolver)

    await (await ModuleLoader(coordinator).load("tool-echo-installed"))(coordinator)

    assert "echo" in coordinator.get("tools")
    located = resolver.locate("tool-echo-installed", "echo_installed")
    assert (located.path, located.version) == (package, "1.2")
    assert str(located.source) == "package:echo-installed"
    assert "tool-echo-installed" in resolver.installed_ids()


def test_a_module_nobody_has_is_not_found(resolver_with: Resolvers) -> None:
    with pytest.raises(ModuleNotFoundError, match="tool-nowhere"):
        resolver_with().resolve("tool-nowhere")
    with pytest.raises(FetchError, match=r"install -c \S+/constraints.txt nowhere"):
        resolver_with().resolve("tool-nowhere", "package:nowhere")


@pytest.mark.attack("U4")
def test_a_module_that_two_distributions_claim_is_refused_by_both_their_names(
    resolver_with: Resolvers, installed: Callable[..., Path]
) -> None:
    installed("honest-echo", "tool-claimed")
    installed("squatting-echo", "tool-claimed")

    with pytest.raises(AmbiguousModuleError, match="honest-echo and squatting-echo") as refused:
        resolver_with().resolve("tool-claimed")

    assert refused.value.distributions == ("honest-echo", "squatting-echo")
    assert refused.value.reason_code == "invalid_entry_point"
    with pytest.raises(AmbiguousModuleError):
        resolver_with().resolve("tool-claimed", "package:honest-echo")


@pytest.mark.attack("U4")
async def test_a_squatter_of_a_real_module_stops_its_loading(
    resolver_with: Resolvers, installed: Callable[..., Path]
) -> None:
    installed("squatting-bash", "tool-bash", "raise RuntimeError('it ran')")
    coordinator = create_test_coordinator()
    await coordinator.mount("module-source-resolver", resolver_with())

    with pytest.raises(ModuleLoadError, match="amplifier-module-tool-bash and squatting-bash"):
        await ModuleLoader(coordinator).load("tool-bash")


def test_a_distribution_that_does_not_declare_the_module_is_refused(
    resolver_with: Resolvers, installed: Callable[..., Path]
) -> None:
    installed("honest-echo", "tool-claimed")

    with pytest.raises(FetchError, match="declared by honest-echo"):
        resolver_with().resolve("tool-claimed", "package:other-echo")


def test_an_installed_module_that_changed_since_it_was_pinned_is_refused(
    resolver_with: Resolvers, installed: Callable[..., Path], locked: Locked
) -> None:
    package = installed("echo-pinned", "tool-pinned", "x = 1\n")
    locked("tool-pinned")
    assert resolver_with().locate("tool-pinned").pin is not None
    (package / "__init__.py").write_text("x = 2\n", encoding="utf-8")

    with pytest.raises(DriftError, match="amplifier module lock"):
        resolver_with().resolve("tool-pinned")


def test_a_module_on_disk_may_change_until_it_is_pinned(
    resolver_with: Resolvers, on_disk: Path, locked: Locked, project: Path
) -> None:
    code = on_disk / "src" / PACKAGE / "__init__.py"
    code.write_text("x = 1\n", encoding="utf-8")
    assert resolver_with().resolve("tool-echo", "./modules/echo").path == on_disk
    locked("tool-echo", "./modules/echo")
    text = (project / "amplifier.lock").read_text(encoding="utf-8")
    code.write_text("x = 2\n", encoding="utf-8")

    with pytest.raises(DriftError):
        resolver_with().resolve("tool-echo", "./modules/echo")

    assert json.loads(text)["modules"]["tool-echo"]["source"] == "./modules/echo"
    assert str(project) not in text
    locked("tool-echo", "./modules/echo")
    assert resolver_with().resolve("tool-echo", on_disk.as_uri()).path == on_disk


def test_a_path_that_is_not_there_is_said_and_nothing_else_stands_in(
    resolver_with: Resolvers,
) -> None:
    with pytest.raises(FetchError, match="nowhere"):
        resolver_with().resolve("tool-bash", "./nowhere")


@pytest.mark.attack("U1")
def test_a_plan_that_drops_the_source_of_a_pinned_module_is_refused(
    echo_uri: str, resolver_with: Resolvers, locked: Locked
) -> None:
    locked("tool-echo", echo_uri)

    with pytest.raises(DriftError, match="not installed"):
        resolver_with().resolve("tool-echo")


def test_the_persons_own_choice_of_a_source_wins(resolver_with: Resolvers, on_disk: Path) -> None:
    resolver = resolver_with(overrides={"tool-echo": "./modules/echo"})

    assert resolver.resolve("tool-echo", "git+https://localhost/o/r@main").path == on_disk


@pytest.mark.parametrize(
    ("project_file", "required"),
    [
        ('[tool.amplifier]\nrequires_kernel = ">=2.0.3"\n', ">=2.0.3"),
        ('[project]\ndependencies = ["amplifier-core==2.0.2+another"]\n', "==2.0.2+another"),
        ('[project]\ndependencies = ["amplifier-core (<0.0.1)"]\n', "<0.0.1"),
        (
            '[project]\ndependencies = ["x", "Amplifier_Core >=99,<100; python_version>\'3\'"]\n',
            ">=99,<100",
        ),
    ],
)
def test_a_module_for_another_kernel_is_refused_before_it_is_imported(
    resolver_with: Resolvers, on_disk: Path, project_file: str, required: str
) -> None:
    (on_disk / "pyproject.toml").write_text(project_file, encoding="utf-8")
    (on_disk / "src" / PACKAGE / "__init__.py").write_text("raise RuntimeError", encoding="utf-8")

    with pytest.raises(KernelMismatchError) as refused:
        resolver_with().resolve("tool-echo", "./modules/echo")

    assert refused.value.required == required
    assert refused.value.contract == __version__.partition("+")[0]
    assert "install" not in refused.value.fix


@pytest.mark.parametrize(
    "project_file",
    [
        '[tool.amplifier]\nrequires_kernel = ">=1.5.3,<=2.0.2"\n',
        '[project]\ndependencies = ["amplifier-core==2.0.2"]\n',
        '[project]\ndependencies = ["amplifier-core~=2.0.2"]\n',
        f'[project]\ndependencies = ["amplifier-core=={__version__}"]\n',
        '[project]\ndependencies = ["amplifier-core"]\n',
        '[project]\ndependencies = ["amplifier-core @ git+https://h/o/r@main"]\n',
        "[project]\n",
    ],
)
def test_a_module_for_this_kernel_passes(
    resolver_with: Resolvers, on_disk: Path, project_file: str
) -> None:
    (on_disk / "pyproject.toml").write_text(project_file, encoding="utf-8")

    assert resolver_with().resolve("tool-echo", "./modules/echo").path == on_disk


def test_the_range_of_an_installed_module_is_what_it_requires(
    resolver_with: Resolvers, installed: Callable[..., Path]
) -> None:
    installed("echo-old", "tool-old", requires="Requires-Dist: amplifier-core<0.0.1")

    with pytest.raises(KernelMismatchError):
        resolver_with().resolve("tool-old")


@pytest.mark.parametrize("text", ["[project", '[tool.amplifier]\nrequires_kernel = "new"\n'])
def test_metadata_that_cannot_be_read_is_said(
    resolver_with: Resolvers, on_disk: Path, text: str
) -> None:
    (on_disk / "pyproject.toml").write_text(text, encoding="utf-8")

    with pytest.raises(SourceError):
        resolver_with().resolve("tool-echo", "./modules/echo")


def test_a_fetched_package_without_a_folder_of_its_own_is_refused(
    repository: Path, commit: Commit, resolver_with: Resolvers, module_code: str
) -> None:
    commit({"__init__.py": module_code})

    with pytest.raises(FetchError, match="no name"):
        resolver_with().pin("tool-echo", f"git+file://{repository}@main")


def test_a_bundle_is_pinned_once_and_then_fetched_as_it_was(
    repository: Path, commit: Commit, resolver_with: Resolvers, project: Path
) -> None:
    commit({"bundles/dev.md": "first", "context/x.md": "x"})
    uri = f"git+file://{repository}@main#subdirectory=bundles/dev.md"
    with pytest.raises(UnpinnedError):
        resolver_with().fetch(uri)
    pinning = resolver_with(pinning=True)
    assert pinning.fetch(uri).read_text(encoding="utf-8") == "first"
    pinning.lock.write()
    commit({"bundles/dev.md": "second"})

    bundle = resolver_with().fetch(uri)

    assert bundle.read_text(encoding="utf-8") == "first"
    assert (bundle.parents[1] / "context" / "x.md").is_file()
    assert list(Lock.read(project / "amplifier.lock").bundles) == [uri]
    bundle.chmod(0o644)
    bundle.write_text("other", encoding="utf-8")
    with pytest.raises(DriftError):
        resolver_with().fetch(uri)
    assert resolver_with(pinning=True).fetch(uri).read_text(encoding="utf-8") == "first"


def test_a_bundle_on_disk_or_in_a_package_is_where_it_is(
    resolver_with: Resolvers, project: Path, installed: Callable[..., Path]
) -> None:
    (project / "bundle.md").write_text("x", encoding="utf-8")
    package = installed("some-bundle", "tool-some")
    package.rename(package.with_name("some_bundle"))

    assert resolver_with().fetch("./bundle.md") == project / "bundle.md"
    assert resolver_with().fetch("package:some-bundle") == package.with_name("some_bundle")
    with pytest.raises(FetchError, match="nowhere"):
        resolver_with().fetch("package:nowhere")


@pytest.mark.attack("U2")
def test_a_module_that_comes_inside_a_fetched_bundle_is_looked_at_too(
    repository: Path, commit: Commit, resolver_with: Resolvers, module_code: str
) -> None:
    code = f"import os\nos.system('true')\n{module_code}"
    commit({"bundle.md": "x", f"modules/echo/{PACKAGE}/__init__.py": code})
    resolver = resolver_with(pinning=True)
    module = resolver.fetch(f"git+file://{repository}@main") / "modules" / "echo"

    hints = resolver.hints("tool-echo", str(module))

    assert hints is not None
    assert [hint.kind for hint in hints] == ["import-time process"]
    resolver.pin("tool-echo", str(module))
    assert resolver.resolve("tool-echo", str(module)).path == module
