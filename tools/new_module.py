"""Make a new module of this repository, in every list that names all of them.

The files are those of `amplifier module new`. Versions, lists and the page of modules are made
anew, and the module is installed. Its texts and its purpose are left to you.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEYS = Path("packages/foundation/src/amplifier_foundation/config/project_rules.py")
# The keys of a module's configuration that are not numbers or switches.
TEXT_KEYS = """
import importlib, inspect, json, sys
from pydantic import BaseModel
config = importlib.import_module(sys.argv[1] + ".config")
models = [each for _, each in inspect.getmembers(config, inspect.isclass)
          if issubclass(each, BaseModel) and each.__module__ == config.__name__]
fields = [item for each in models for item in each.model_json_schema()["properties"].items()]
plain = ("integer", "number", "boolean")
print(json.dumps(sorted(key for key, field in fields if field.get("type") not in plain)))
"""


def run(*command: str) -> str:
    """Run a program of this environment in the repository; return what it printed."""
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def declare_keys(module_id: str) -> None:
    """Add the module to the table of configuration keys, with what a project may set."""
    package = f"amplifier_module_{module_id.replace('-', '_')}"
    keys: list[str] = json.loads(run(sys.executable, "-c", TEXT_KEYS, package))
    inner = "".join(f'        "{key}": _TEXT,\n' for key in keys)
    entry = f'    "{module_id}": {{\n{inner}    }},\n' if keys else f'    "{module_id}": {{}},\n'
    path = ROOT / KEYS
    text = path.read_text(encoding="utf-8")
    later = [
        match.start()
        for match in re.finditer(r'^    "([a-z]+-[a-z-]+)": \{', text, re.MULTILINE)
        if match[1] > module_id
    ]
    place = later[0] if later else text.index("\n}\n", text.index("MODULE_KEYS")) + 1
    path.write_text(text[:place] + entry + text[place:], encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Make the module that the command line names."""
    if len(arguments) != 1:
        print("usage: new_module.py tool-clock")
        return 2
    (module_id,) = arguments
    command = str(Path(sys.executable).with_name("amplifier"))
    made = subprocess.run(
        [command, "module", "new", module_id, "--dir", "modules"], cwd=ROOT, check=False
    )
    if made.returncode != 0:
        return made.returncode
    run(sys.executable, "tools/check_versions.py", "--write")
    install = ("-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation")
    run(sys.executable, *install, "-e", f"modules/{module_id}")
    declare_keys(module_id)
    run(sys.executable, "tools/describe_modules.py", "--write")
    print(f"next: make test M={module_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
