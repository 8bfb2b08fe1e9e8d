"""Read every published bundle file of the snapshots at hand with our loader, and print a table.

`python tools/ecosystem_bundles.py FOLDER...` takes folders with checkouts in them, each named
`owner+name`, else those in `AMPLIFIER_SNAPSHOTS`, separated like a PATH. Addresses on GitHub lead
to these checkouts, and nothing is fetched; what is not among them is missing. With `--published
PYTHON`, a Python that imports the published loader, each file is read with that one too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from amplifier_foundation.bundles import compile_bundle, load_bundle
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.settings import load_settings
from amplifier_foundation.sources.errors import MissingSourceError
from amplifier_foundation.sources.uri import parse_source

_VARIABLE = "AMPLIFIER_SNAPSHOTS"
_ADDRESS = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
_FOLDERS = ("behaviors", "bundles")
_NOT_SEARCHED = frozenset({"tests", "agents", "node_modules"})
_PUBLISHED = Path(__file__).with_name("ecosystem_published.py")


class Row(NamedTuple):
    """What became of one file: `refused` is the reason, or nothing."""

    file: str
    refused: str
    missing: tuple[str, ...]
    modules: int
    published: str


class Snapshots:
    """Checkouts by owner and name, in the place of the addresses that they were fetched from."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders = folders

    def fetch(self, uri: str) -> Path:
        """Return the file or folder of a checkout that an address means."""
        source = parse_source(uri)
        named = _ADDRESS.fullmatch(source.location)
        for folder in self.folders:
            if named is None:
                break
            checkout = folder / f"{named[1]}+{named[2]}"
            if (checkout / source.subdirectory).exists():
                return checkout / source.subdirectory
        raise MissingSourceError(f"There is no {uri}.", why="It is not among the snapshots.")

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield each bundle file with the name it is shown by."""
        for folder in self.folders:
            for path in sorted(folder.rglob("*")):
                below = path.relative_to(folder)
                hidden = any(part.startswith(".") for part in below.parts)
                if hidden or _NOT_SEARCHED & set(below.parts) or not _is_bundle(path):
                    continue
                yield str(below), path


def main() -> int:
    """Print the table; the exit code is 1 when a file was refused that the published loader reads.

    Without the published loader, any refused file counts.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--published", metavar="PYTHON", help="Python with the published loader.")
    options = parser.parse_args()
    named = [Path(each) for each in os.environ.get(_VARIABLE, "").split(os.pathsep) if each]
    snapshots = Snapshots([each.resolve() for each in options.folders or named])
    with tempfile.TemporaryDirectory(prefix="ecosystem-") as scratch:
        home = Path(scratch, "home")
        home.mkdir(mode=0o700)
        os.environ["AMPLIFIER_HOME"] = str(home)
        rows = [
            _row(name, path, snapshots, Path(scratch), options.published)
            for name, path in snapshots.files()
        ]
    for row in rows:
        _print(row)
    refused = [row for row in rows if row.refused]
    worse = [row for row in refused if row.published in ("", "read")]
    incomplete = sum(bool(row.missing) for row in rows if not row.refused)
    counts = f"{len(rows) - len(refused)} read ({incomplete} with something missing)"
    sys.stdout.write(f"\n{len(rows)} files: {counts}, {len(refused)} refused\n")
    return 1 if worse or not rows else 0


def _is_bundle(path: Path) -> bool:
    if path.suffix not in (".md", ".yaml", ".yml") or not path.is_file():
        return False
    if path.name in ("bundle.md", "bundle.yaml"):
        return True
    return path.name != "README.md" and any(each.name in _FOLDERS for each in path.parents)


def _row(name: str, path: Path, snapshots: Snapshots, scratch: Path, published: str | None) -> Row:
    told = "" if published is None else _published(published, path, snapshots, scratch)
    project = scratch / "project"
    project.mkdir(exist_ok=True)
    settings = load_settings(project, trusted=False)
    try:
        bundle = asyncio.run(load_bundle(path, resolver=snapshots, settings=settings))
        prepared = compile_bundle(bundle, settings, {})
    except FoundationError as error:
        return Row(name, " ".join(str(error).split()), (), 0, told)
    missing = tuple(f"{each.kind} {each.reference}" for each in prepared.missing)
    modules = sum(len(prepared.plan.get(section) or ()) for section in ("tools", "hooks"))
    return Row(name, "", missing, modules, told)


def _published(python: str, path: Path, snapshots: Snapshots, scratch: Path) -> str:
    """Return `read`, or why the published loader refuses a file."""
    done = subprocess.run(
        [python, "-P", str(_PUBLISHED), str(path), *map(str, snapshots.folders)],
        cwd=scratch,
        env={**os.environ, "AMPLIFIER_HOME": str(scratch / "published")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def _print(row: Row) -> None:
    state = "refused" if row.refused else "read"
    sys.stdout.write(f"{state:<8} {row.modules:>3} modules  {row.file}\n")
    if row.refused:
        sys.stdout.write(f"           {row.refused}\n")
    if row.published not in ("", "read"):
        sys.stdout.write(f"           published loader: {row.published}\n")
    for each in row.missing:
        sys.stdout.write(f"           missing: {each}\n")


if __name__ == "__main__":
    sys.exit(main())
