"""Libraries of modules: named when they are missing, installed only on request, ours never."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from amplifier_foundation import library_install
from amplifier_foundation.library_install import LibraryInstallError, install_libraries
from amplifier_foundation.sources import SourceResolver
from amplifier_foundation.sources.errors import ModuleSourceError
from amplifier_foundation.sources.libraries import (
    MissingLibrariesError,
    environment_folder,
    library_folders,
    recorded_requirements,
    required_libraries,
)

Resolvers = Callable[..., SourceResolver]
PACKAGE = "amplifier_module_tool_echo"


@pytest.fixture(autouse=True)
def import_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An import path of this test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("colourful_lib", None)
    importlib.invalidate_caches()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Offer distributions in a folder that pip takes for the user's only index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")

    def offer(name: str, version: str, requires: str = "") -> None:
        package = name.replace("-", "_")
        info = f"{package}-{version}.dist-info"
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        if requires:
            about += f"Requires-Dist: {requires}\n"
        files = {
            f"{package}/__init__.py": f"VERSION = '{version}'\n",
            f"{info}/METADATA": about,
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{each},,\n" for each in (*files, f"{info}/RECORD"))
        path = folder / f"{package}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for each, text in (files | {f"{info}/RECORD": record}).items():
                wheel.writestr(each, text)

    return offer


def project_with(folder: Path, *dependencies: str, name: str = "tool-echo") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    listed = ", ".join(f"'{each}'" for each in dependencies)
    text = f"[project]\nname = '{name}'\ndependencies = [{listed}]\n"
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def module_with(folder: Path, code: str, *dependencies: str) -> str:
    package = project_with(folder, *dependencies) / PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text(code, encoding="utf-8")
    return str(folder)


def test_what_comes_with_the_product_or_is_for_elsewhere_is_not_required(tmp_path: Path) -> None:
    folder = project_with(
        tmp_path / "a",
        "amplifier-core>=1.0",
        "amplifier_foundation @ git+https://host/x",
        "Amplifier-Bundle_Own @ git+https://host/y",
        'winonly; sys_platform == "win32"',
        "colourful-lib>=1",
    )

    found = required_libraries(folder, ["amplifier-bundle-own"])

    assert [str(each) for each in found] == ["colourful-lib>=1"]


def test_an_option_of_an_installer_is_not_a_requirement(tmp_path: Path) -> None:
    with pytest.raises(ModuleSourceError, match="is not a requirement"):
        required_libraries(project_with(tmp_path / "a", "--index-url=https://host"))


def test_a_module_without_its_libraries_is_refused_with_the_command_that_installs_them(
    resolver_with: Resolvers, tmp_path: Path, module_code: str
) -> None:
    source = module_with(tmp_path / "echo", module_code, "colourful-lib>=1")
    resolver = resolver_with()
    resolver.bundle = "my bundle"

    with pytest.raises(MissingLibrariesError) as error:
        resolver.resolve("tool-echo", source)

    assert error.value.message == "`tool-echo` is not loaded: it requires `colourful-lib`."
    assert error.value.fix == "amplifier module install tool-echo -b 'my bundle'"
    assert [str(each) for each in resolver.libraries("tool-echo", source)] == ["colourful-lib>=1"]


@pytest.mark.slow
def test_installed_libraries_are_at_the_end_of_the_import_path_of_who_needs_them(
    resolver_with: Resolvers,
    tmp_path: Path,
    home: Path,
    module_code: str,
    wheels: Callable[..., None],
) -> None:
    wheels("colourful-lib", "1.5", requires="amplifier-core>=1.0")
    source = module_with(tmp_path / "echo", module_code, "colourful-lib>=1")
    resolver = resolver_with()
    before = list(sys.path)

    installed = install_libraries(home, {"tool-echo": resolver.libraries("tool-echo", source)})

    assert installed == ["colourful-lib 1.5"]
    assert sys.path == before
    resolver_with().resolve("tool-echo", source)
    assert sys.path == [*before, *map(str, library_folders(home))]
    assert importlib.import_module("colourful_lib").VERSION == "1.5"
    assert (home / "libraries").stat().st_mode & 0o077 == 0


@pytest.mark.slow
@pytest.mark.attack("U2")
def test_no_library_replaces_what_comes_with_the_product(
    home: Path, wheels: Callable[..., None]
) -> None:
    wheels("colourful-lib", "1.5")
    wheels("amplifier-core", "9.0")
    wheels("greedy-lib", "1.0", requires="amplifier-core>=3")
    wheels("packaging", "99.0")
    install_libraries(home, {"tool-one": [Requirement("colourful-lib")]})

    for wanted in ("greedy-lib", "packaging>=99"):
        with pytest.raises(LibraryInstallError) as error:
            install_libraries(home, {"tool-two": [Requirement(wanted)]})
        assert error.value.why
        assert "\n" not in error.value.why

    (folder,) = library_folders(home)
    assert (folder / "colourful_lib").is_dir()
    assert [each.name for each in (home / "libraries").iterdir()] == [sys.implementation.cache_tag]


@pytest.mark.slow
def test_the_libraries_of_all_modules_are_resolved_together(
    home: Path, wheels: Callable[..., None]
) -> None:
    for version in ("1.5", "2.0"):
        wheels("colourful-lib", version)
    install_libraries(home, {"tool-one": [Requirement("colourful-lib")]})

    installed = install_libraries(home, {"tool-two": [Requirement("colourful-lib<2")]})

    assert installed == ["colourful-lib 1.5"]


def test_a_library_at_an_address_is_not_installed(home: Path) -> None:
    with pytest.raises(LibraryInstallError, match="no hash is recorded"):
        install_libraries(home, {"tool-one": [Requirement("x @ git+https://host/x")]})
    assert not (home / "libraries").exists()


@pytest.mark.attack("C1")
def test_an_installer_gets_no_keys_and_nothing_of_the_current_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, object] = {}

    def run(command: list[str], **given: object) -> subprocess.CompletedProcess[str]:
        seen.update(given, command=command)
        return subprocess.CompletedProcess(command, 1, "", "ERROR: one\nERROR: two\n")

    monkeypatch.setenv("ACME_API_KEY", "secret-of-acme")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example.com")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", run)

    with pytest.raises(LibraryInstallError, match="ERROR: two"):
        install_libraries(home, {"tool-one": [Requirement("colourful-lib")]})

    environment = seen["env"]
    assert isinstance(environment, dict)
    assert environment["PIP_INDEX_URL"] == "https://index.example.com"
    assert not {"ACME_API_KEY", "PYTHONPATH"} & environment.keys()
    assert seen["cwd"] != Path.cwd()


def test_an_environment_that_cannot_be_replaced_stays(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def skip(folder: Path, wanted: list[str]) -> None:
        """Install nothing."""

    monkeypatch.setattr(library_install, "_run_installer", skip)
    install_libraries(home, {"tool-a": [Requirement("a-lib")]})
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if target == environment_folder(home) and path.name != "before":
            raise OSError("disk error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(LibraryInstallError, match="not installed"):
        install_libraries(home, {"tool-b": [Requirement("b-lib")]})
    assert recorded_requirements(home) == {"tool-a": ["a-lib"]}


def test_two_installations_at_the_same_time_are_both_recorded(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[threading.Thread] = []

    def install(folder: Path, wanted: list[str]) -> None:
        if others:
            return
        required = {"tool-b": [Requirement("b-lib")]}
        others.append(threading.Thread(target=install_libraries, args=(home, required)))
        others[0].start()
        others[0].join(0.2)

    monkeypatch.setattr(library_install, "_run_installer", install)
    install_libraries(home, {"tool-a": [Requirement("a-lib")]})
    others[0].join(10)
    assert recorded_requirements(home) == {"tool-a": ["a-lib"], "tool-b": ["b-lib"]}
