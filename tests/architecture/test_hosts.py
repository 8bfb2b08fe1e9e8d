"""The host gate: this repository passes it, and each planted host, option or path is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Written in two pieces, so that this file passes the gate it tests.
MACHINE = "/ro" + "ot"


@pytest.mark.slow  # `make check` runs the gate itself
def test_this_repository_names_no_host(run_tool: Callable[..., Any], root: Path) -> None:
    result = run_tool("hosts", root)

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("constraints.txt", "--index-url https://packages.example/simple"),
        ("constraints.txt", "demo @ https://packages.example/demo-1.0-py3-none-any.whl"),
        ("constraints.txt", "demo @ file:///demo-1.0-py3-none-any.whl"),
        ("constraints.txt", "demo>=1.0"),
        ("constraints.txt", "-e ./packages/core"),
        ("requirements-dev.txt", "-i somewhere"),
        ("requirements-dev.txt", "--extra-index-url=somewhere"),
        ("requirements-dev.txt", "--find-links wheels"),
        ("requirements-dev.txt", "demo @ git+https://code.example/demo"),
        ("pyproject.toml", "[[tool.uv.index]]"),
        ("pyproject.toml", 'extra-index-url = ["somewhere"]'),
        ("packages/core/pyproject.toml", '"demo @ https://packages.example/demo.tar.gz"'),
        ("packages/core/pyproject.toml", '"demo @ https://github.com/microsoft/amplifier"'),
        ("other.lock", 'url = "https://packages.example/demo.tar.gz"'),
        ("README.md", f"see {MACHINE}/notes.md"),
        ("src/room.py", f'HERE = "{MACHINE}"'),
        ("src/room.py", '"/ho' + 'me/ada/x"'),
    ],
)
def test_a_place_is_reported_with_its_line(
    run_tool: Callable[..., Any], plant: Callable[[str, str], None], path: str, line: str
) -> None:
    plant(path, f"# fine\n{line}\n")

    result = run_tool("hosts")

    assert result.returncode == 1
    assert result.stdout.startswith(f"{path}:2: `")


@pytest.mark.parametrize("path", ["uv.lock", "packages/core/uv.lock", "poetry.lock", "pip.conf"])
def test_a_lock_that_names_hosts_by_construction_is_refused(
    run_tool: Callable[..., Any], plant: Callable[[str, str], None], path: str
) -> None:
    plant(path, "")

    result = run_tool("hosts")

    assert result.returncode == 1
    assert result.stdout.startswith(f"{path}: ")


def test_pins_relative_paths_and_links_in_prose_pass(
    run_tool: Callable[..., Any], plant: Callable[[str, str], None]
) -> None:
    plant("constraints.txt", "# pins\npydantic==2.11.0\ncolorama==0.4.6 ; os_name == 'nt'\n")
    plant("requirements-dev.txt", "-e ./packages/core\npyright[nodejs]\n")
    page = 'urls = { "Original project" = "https://github.com/microsoft/amplifier" }\n'
    plant("packages/core/pyproject.toml", page)
    plant(
        "README.md",
        "[docs](https://docs.example/x), the net/root of it, ~/work, `work/`, /home/user/notes\n",
    )

    result = run_tool("hosts")

    assert result.returncode == 0, result.stdout
