"""An environment with pytest and ruff, as a user has one for their work."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from toolchains.user_home import VERSION, put, write

# Those of this process, because the index of a machine is for what the tasks install.
_DISTRIBUTIONS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments", "ruff")
_PYTEST = "#!{python}\nimport sys\nimport pytest\nsys.exit(pytest.main())\n"


def install_tools(environment: Path) -> Path:
    """Make the environment and return the folder of its programs."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=120
    )
    packages = environment / "lib" / f"python{VERSION}" / "site-packages"
    programs = environment / "bin"
    for name in _DISTRIBUTIONS:
        for file in distribution(name).files or []:
            if ".." in file.parts or file.suffix == ".pyc":
                continue
            (packages / file).parent.mkdir(parents=True, exist_ok=True)
            put(str(file.locate()), packages / file)
    put(Path(sys.executable).parent / "ruff", programs / "ruff")
    write(programs / "pytest", _PYTEST.format(python=programs / "python"), is_program=True)
    return programs
