"""What honest code does before it is mounted is noticed by reading it, and decides nothing."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.sources import SourceResolver, UnpinnedError
from amplifier_foundation.sources.inspection import inspect_module

Resolvers = Callable[..., SourceResolver]
Commit = Callable[[dict[str, str]], str]
PACKAGE = "amplifier_module_tool_echo"


def found_in(folder: Path, files: dict[str, str]) -> list[str]:
    """Return the findings in a folder with those files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return [str(finding) for finding in inspect_module(folder)]


@pytest.mark.attack("U2")
@pytest.mark.parametrize(
    "code",
    [
        "import subprocess\nsubprocess.run(['x'])",
        "import subprocess as s\ntry:\n    s.Popen('x')\nexcept OSError:\n    pass",
        "from os import system as x\nx('y')",
        "import os\nrun = os.system\nrun('x')",
        "import os\nif os.name:\n    os.execv('x', [])",
        "__import__('subprocess').check_output('x')",
        "import importlib\nimportlib.import_module('os').popen('x')",
        "import os\ngetattr(os, 'system')('x')",
        "import os\ngetattr(os, 'sys' + 'tem')('x')",
        "import socket\ns = socket.socket()",
        "import urllib.request\nurllib.request.urlopen('http://x')",
        "from urllib import request\nrequest.urlretrieve('http://x')",
        "import requests\nrequests.get('http://x')",
        "import requests\ns = requests.Session()\ns.post('http://x')",
        "import http.client\nhttp.client.HTTPSConnection('x')",
        "exec('x')",
        "import base64\neval(base64.b64decode('eA=='))",
        "import marshal\nmarshal.loads(b'')",
        "import ctypes\nctypes.CDLL('x')",
        "import os\n\ndef go():\n    os.system('x')\n\ngo()",
        "import os\n\ndef go():\n    inner()\n\ndef inner():\n    os.system('x')\n\nVALUE = [go()]",
        "import os\nclass A:\n    os.system('x')",
        "import os\nclass A:\n    def __init__(self):\n        os.system('x')\n\nA()",
        "import os\nclass A:\n    def go(self):\n        os.system('x')\n\nA().go()",
        "import os\n\ndef f(x=os.system('x')):\n    pass",
        "import os\n\ndef now(f):\n    os.system('x')\n\n@now\ndef f():\n    pass",
        "import os, atexit\n\ndef go():\n    os.system('x')\n\natexit.register(go)",
        "import asyncio\n\nasync def go():\n    await asyncio.create_subprocess_exec('x')\n\n"
        "asyncio.run(go())",
        "from .job import start\nstart()",
        "from amplifier_module_tool_echo import job\njob.start()",
    ],
)
def test_an_act_at_import_time_is_found(tmp_path: Path, code: str) -> None:
    job = "import os\n\ndef start():\n    os.system('x')\n"

    findings = found_in(tmp_path, {f"{PACKAGE}/__init__.py": code, f"{PACKAGE}/job.py": job})

    assert len([finding for finding in findings if finding.startswith("import-time")]) == 1


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess\n\ndef run():\n    subprocess.run(['x'])",
        "import os\n\nclass A:\n    def get(self):\n        os.system('x')\n\nos.environ.get('x')",
        "import os\nif __name__ == '__main__':\n    os.system('x')",
        "import re, socket\nX = re.compile('x')\nFAMILY = socket.AF_INET",
        "import httpx\nTIMEOUT = httpx.Timeout(5)",
        "import subprocess\nrun = lambda: subprocess.run(['x'])",
        "import importlib\nimportlib.import_module('json')",
    ],
)
def test_code_that_only_defines_things_is_not_reported(tmp_path: Path, code: str) -> None:
    assert found_in(tmp_path, {f"{PACKAGE}/__init__.py": code}) == []


@pytest.mark.attack("U2")
@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("evil.pth", "import os; os.system('x')", "path file"),
        ("src/x/evil.pth", "", "path file"),
        ("sitecustomize.py", "", "start-up file"),
        ("src/fast.cpython-311-x86_64-linux-gnu.so", "", "compiled code"),
        ("hidden.pyc", "", "compiled code"),
        ("broken.py", "def (", "unreadable code"),
        ("pyproject.toml", "[project.scripts]\namplifier = 'x:y'\n", "script shadowing"),
        ("pyproject.toml", "[project.gui-scripts]\n'python3.11' = 'x:y'\n", "script shadowing"),
        ("pyproject.toml", "[project", "unreadable metadata"),
        ("x-1.dist-info/entry_points.txt", "[console_scripts]\ngit = x:y\n", "script shadowing"),
        ("x-1.data/scripts/sudo", "", "script shadowing"),
    ],
)
def test_what_acts_without_being_imported_is_found(
    tmp_path: Path, name: str, text: str, kind: str
) -> None:
    findings = found_in(tmp_path, {name: text})

    assert [finding.partition(" in ")[0] for finding in findings] == [kind]


def test_commands_of_a_name_of_their_own_are_not_reported(tmp_path: Path) -> None:
    files = {"pyproject.toml": "[project.scripts]\namplifier-tool-echo = 'x:y'\n"}

    assert found_in(tmp_path, files) == []


def test_nothing_is_noticed_in_our_own_modules() -> None:
    modules = Path(__file__).parents[4] / "modules"
    findings = {
        module.name: found
        for module in sorted(modules.iterdir())
        if (module / "src").is_dir() and (found := inspect_module(module / "src"))
    }

    assert findings == {}


@pytest.mark.attack("U2")
def test_a_fetched_module_that_acts_at_import_is_noticed_and_not_run_by_pinning_it(
    repository: Path, commit: Commit, resolver_with: Resolvers, module_code: str, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    code = f"import os\nos.system('touch {ran}')\n{module_code}"
    commit({f"{PACKAGE}/__init__.py": code, "evil.pth": "import os\n"})
    resolver = resolver_with()
    uri = f"git+file://{repository}@main"

    resolver.pin("tool-echo", uri)
    hints = resolver.hints("tool-echo", uri)

    assert hints is not None
    assert {hint.kind for hint in hints} == {"path file", "import-time process"}
    assert not ran.exists()
    assert PACKAGE not in sys.modules


@pytest.mark.attack("U2")
def test_the_lock_decides_and_no_hint_does(
    repository: Path,
    commit: Commit,
    resolver_with: Resolvers,
    locked: Callable[..., None],
    project: Path,
    module_code: str,
) -> None:
    uri = f"git+file://{repository}@main"
    for code in (module_code, f"import os\nos.system('true')\n{module_code}"):
        commit({f"{PACKAGE}/__init__.py": code})
        (project / "amplifier.lock").unlink(missing_ok=True)
        with pytest.raises(UnpinnedError):
            resolver_with().resolve("tool-echo", uri)

        locked("tool-echo", uri)

        assert resolver_with().resolve("tool-echo", uri).path.is_dir()


@pytest.mark.attack("U2")
def test_a_path_file_and_a_hiding_command_in_a_wheel_are_noticed(
    tmp_path: Path, resolver_with: Resolvers, module_code: str
) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        opened.writestr(f"{PACKAGE}/__init__.py", module_code)
        opened.writestr("x.pth", "import os; os.system('x')\n")
        opened.writestr("x-1.dist-info/entry_points.txt", "[console_scripts]\npython = x:y\n")
    resolver = resolver_with()

    resolver.pin("tool-echo", f"zip+file://{wheel}")
    hints = resolver.hints("tool-echo", f"zip+file://{wheel}")

    assert hints is not None
    assert [hint.kind for hint in hints] == ["script shadowing", "path file"]


def test_a_module_that_was_not_fetched_is_not_read(
    resolver_with: Resolvers, tmp_path: Path, module_code: str
) -> None:
    (tmp_path / "mine" / PACKAGE).mkdir(parents=True)
    (tmp_path / "mine" / PACKAGE / "__init__.py").write_text(module_code, encoding="utf-8")

    assert resolver_with().hints("tool-echo", str(tmp_path / "mine")) is None
