"""How this product is installed: what belongs together, and the commands that keep it together."""

from __future__ import annotations

import importlib
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from amplifier_foundation.errors import FoundationError

__all__ = [
    "CONSTRAINTS",
    "ForeignKernelError",
    "install_command",
    "own_versions",
    "refuse_foreign_kernel",
    "repair_command",
    "runtime_command",
]

# Exact versions of all our distributions. Without it, pip and uv may replace ours by others of the
# same name when a module asks for a newer one: neither looks at what installed packages pin.
CONSTRAINTS = Path(__file__).with_name("constraints.txt")

# `install.sh` writes its path, the folder of the command and the extras into this file of the
# environment that it makes, one a line.
_INSTALLED_BY = "installed-by"
_KERNEL = "amplifier-core"
_OWN = "amplifier-foundation"
# `tools/check_versions.py` writes this label into the kernel's version.
_LABEL = "independent"


class ForeignKernelError(FoundationError, ImportError):
    """The installed amplifier-core is missing, another project's, or of another release."""

    def __init__(self, found: str) -> None:
        expected = own_versions()[_KERNEL]
        why = f"Another installation replaced or removed amplifier-core {expected}."
        if _install_script() is None and _origin(_OWN) is None:
            why += " FOLDER is the folder of wheels that it came from."
        super().__init__(
            f"The installed amplifier-core is not the kernel of this product: {found}.",
            why=why,
            fix=repair_command(),
        )

    def __str__(self) -> str:
        return "\n".join((self.message, self.why, self.fix))


def refuse_foreign_kernel(version: str) -> None:
    """Check that the installed kernel is ours and belongs to this release of the product.

    Raises:
        ForeignKernelError: it is another kernel, or none can be imported.
    """
    try:
        kernel = importlib.import_module("amplifier_core")
    except ImportError as error:
        raise ForeignKernelError(f"it does not import ({error})") from error
    found = str(getattr(kernel, "__version__", "of unknown version"))
    # Only the label tells the two projects apart: the number before `+` is the version of the
    # contract, which the other project's kernel can have as well.
    if found.partition("+")[2] != f"{_LABEL}.{version}":
        raise ForeignKernelError(found)


def own_versions() -> dict[str, str]:
    """Return the version of each of our distributions that belongs to this one."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def install_command(*arguments: str) -> str:
    """Return the command that installs something and leaves our distributions as they are."""
    return shlex.join([*_installer(), "-c", str(CONSTRAINTS), *arguments])


def runtime_command() -> str:
    """Return the command that adds durable sessions to this installation."""
    script = _install_script("durable")
    if script is not None:
        return script
    origin = _origin(_OWN)
    if origin is None or origin.suffix == ".whl":
        wheels = "FOLDER" if origin is None else str(origin.parent)
        return install_command("--find-links", wheels, "amplifier-cli[durable]")
    folder = origin.parent / "runtime"
    return install_command(f"{folder}[secrets]")


def repair_command() -> str:
    """Return the command that puts our own distributions back in place."""
    script = _install_script()
    if script is not None:
        return script
    origin = _origin(_OWN)
    if origin is None:
        return _repair_from("FOLDER")
    if origin.suffix == ".whl":
        return _repair_from(str(origin.parent))
    clone = origin.parent.parent
    if _is_editable(_OWN):
        return shlex.join(["make", "-C", str(clone), "setup"])
    again = [*_installer(), "-r", "requirements.txt", "-c", "constraints.txt"]
    return f"(cd {shlex.quote(str(clone))} && {shlex.join(again)})"


def _install_script(extra: str = "") -> str | None:
    """Return the command that made this environment, with an extra; None if it was no script."""
    try:
        text = (Path(sys.prefix) / _INSTALLED_BY).read_text(encoding="utf-8")
        script, bin_folder, extras = text.splitlines()
    except (OSError, ValueError):
        return None
    if not Path(script).is_file():
        return None
    wanted = [each for each in extras.split(",") if each]
    if extra and extra not in wanted:
        wanted.append(extra)
    command = [script, ",".join(wanted)] if wanted else [script]
    folders = {"AMPLIFIER_INSTALL": sys.prefix, "AMPLIFIER_BIN": bin_folder}
    usual = {
        "AMPLIFIER_INSTALL": str(Path.home() / ".local" / "share" / "amplifier"),
        "AMPLIFIER_BIN": str(Path.home() / ".local" / "bin"),
    }
    if folders != usual:
        assignments = [f"{name}={shlex.quote(value)}" for name, value in folders.items()]
        return " ".join([*assignments, shlex.join(command)])
    return shlex.join(command)


def _repair_from(wheels: str) -> str:
    """Return the command that installs the kernel again from a folder of wheels."""
    kernel = f"{_KERNEL}=={own_versions()[_KERNEL]}"
    again = ["--force-reinstall", "--no-deps", "--find-links", wheels, kernel]
    return shlex.join([*_installer(), *again])


def _installer() -> list[str]:
    """Return the program that installs into this environment: pip, or uv if there is no pip."""
    import importlib.util  # noqa: PLC0415

    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    return ["uv", "pip", "install", "--python", sys.executable]


def _origin(distribution: str) -> Path | None:
    """Return the folder or wheel that a distribution was installed from, if it is still there."""
    # Loaded here because every start would pay for it, and only a message needs it.
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415

    url = urlsplit(str(_direct_url(distribution).get("url", "")))
    path = Path(unquote(url.path))
    if url.scheme == "file" and path.exists():
        return path
    return None


def _is_editable(distribution: str) -> bool:
    return bool(_direct_url(distribution).get("dir_info", {}).get("editable"))


def _direct_url(distribution: str) -> dict[str, Any]:
    """Return what the installer recorded of where a distribution came from (PEP 610)."""
    # Reading metadata costs more than starting the command; this is for messages only.
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415
    from importlib.metadata import distribution as installed  # noqa: PLC0415

    try:
        recorded = installed(distribution).read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    return json.loads(recorded or "{}")
