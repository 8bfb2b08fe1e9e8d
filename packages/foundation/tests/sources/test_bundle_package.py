"""The package of a bundle: importable for its modules, and nothing else of the repository is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amplifier_core.loader import ModuleLoader
from amplifier_core.testing import create_test_coordinator
from amplifier_foundation.sources import DriftError, SourceResolver
from amplifier_foundation.sources.package import BundlePackages, bundle_packages

Resolvers = Callable[..., SourceResolver]
Commit = Callable[[dict[str, str]], str]
PACKAGE = "amplifier_module_tool_echo"
PROJECT = '[project]\nname = "amplifier-bundle-echo"\n'


@pytest.fixture(autouse=True)
def unloaded() -> Iterator[None]:
    """Neither the module nor the package of its bundle is imported before, nor after."""

    def unload() -> None:
        for name in (PACKAGE, "amplifier_bundle_echo", "json_of_bundle"):
            sys.modules.pop(name, None)
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, BundlePackages)]

    unload()
    yield
    unload()


async def mounted(resolver: SourceResolver, source: str) -> None:
    coordinator = create_test_coordinator()
    await coordinator.mount("module-source-resolver", resolver)
    mount = await ModuleLoader(coordinator).load("tool-echo", {}, source_hint=source)
    await mount(coordinator)


@pytest.mark.parametrize("below", ["", "src/", "lib/"])
async def test_a_module_imports_the_package_of_the_bundle_it_was_fetched_with(
    repository: Path, commit: Commit, resolver_with: Resolvers, module_code: str, below: str
) -> None:
    commit(
        {
            "pyproject.toml": PROJECT,
            f"{below}amplifier_bundle_echo/__init__.py": "from .deep import VALUE\n",
            f"{below}amplifier_bundle_echo/deep.py": "VALUE = 1\n",
            f"m/{PACKAGE}/__init__.py": f"from amplifier_bundle_echo import VALUE\n{module_code}",
        }
    )
    source = f"git+file://{repository}@main#subdirectory=m"
    resolver = resolver_with()
    resolver.pin("tool-echo", source)

    await mounted(resolver, source)

    assert sys.modules["amplifier_bundle_echo"].VALUE == 1


def test_only_declared_packages_that_are_there_and_inside_are_importable(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("redact", "tests", "src/named", "out-side"):
        (tree / name).mkdir(parents=True)
        (tree / name / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "__init__.py").write_text("", encoding="utf-8")
    (tree / "link").symlink_to(tmp_path / "outside")
    listed = '["redact", "../outside", "link", "none", "out-side"]'
    project = tree / "pyproject.toml"

    project.write_text(
        f"[project]\nname='x'\n[tool.hatch.build.targets.wheel]\npackages = {listed}\n",
        encoding="utf-8",
    )
    assert bundle_packages(tree) == [tree / "redact"]
    project.write_text("[project]\nname='Named'\n", encoding="utf-8")
    assert bundle_packages(tree) == [tree / "src" / "named"]
    project.write_text("[tool.setuptools]\npackages = ['redact']\n", encoding="utf-8")
    assert bundle_packages(tree) == []
    project.write_text("[build-system]\n[tool.setuptools]\npackages = []\n", encoding="utf-8")
    assert bundle_packages(tree) == []


@pytest.mark.attack("C1")
async def test_the_package_of_a_bundle_takes_the_place_of_no_installed_one(
    repository: Path, commit: Commit, resolver_with: Resolvers, module_code: str
) -> None:
    commit(
        {
            "pyproject.toml": "[project]\nname = 'x'\n[tool.hatch.build.targets.wheel]\n"
            "packages = ['amplifier_foundation', 'colorsys']\n",
            "amplifier_foundation/__init__.py": "raise SystemExit('replaced')\n",
            "colorsys/__init__.py": "raise SystemExit('replaced')\n",
            f"m/{PACKAGE}/__init__.py": f"import amplifier_foundation, colorsys\n{module_code}",
        }
    )
    source = f"git+file://{repository}@main#subdirectory=m"
    resolver = resolver_with()
    resolver.pin("tool-echo", source)
    sys.modules.pop("colorsys", None)

    await mounted(resolver, source)

    assert "bundle" not in str(sys.modules["colorsys"].__file__)


@pytest.mark.attack("U1")
def test_a_tree_of_a_bundle_that_changed_after_it_was_loaded_gives_no_module(
    repository: Path, commit: Commit, resolver_with: Resolvers, module_code: str
) -> None:
    commit(
        {
            "bundle.md": "x",
            "pyproject.toml": PROJECT,
            "amplifier_bundle_echo/__init__.py": "",
            f"m/{PACKAGE}/__init__.py": module_code,
        }
    )
    resolver = resolver_with(pinning=True)
    tree = resolver.fetch(f"git+file://{repository}@main")
    helper = tree / "amplifier_bundle_echo" / "__init__.py"
    helper.chmod(0o600)
    helper.write_text("raise SystemExit('replaced')\n", encoding="utf-8")

    with pytest.raises(DriftError):
        resolver.resolve("tool-echo", str(tree / "m"))
