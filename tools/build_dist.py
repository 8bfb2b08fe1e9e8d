"""Build every distribution into a folder: wheels, sdists, constraints, an SBOM and checksums.

    build_dist.py [FOLDER] [--no-sbom]

The folder is `dist` if none is named. Installing from it needs no clone: `pip install --find-links
dist -c dist/constraints.txt amplifier-cli`. The SBOM takes an environment of its own to make.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from check_versions import SHIPPED_CONSTRAINTS, Distribution, distributions

ROOT = Path(__file__).parents[1]
EVERYTHING = "amplifier-cli[all]"
SBOM = "amplifier.cdx.json"
CHECKSUMS = "SHA256SUMS"
# 1980 is the first year that a zip file can name.
EARLIEST = "315532800"


def run(*command: str | Path, folder: Path = ROOT, **environment: str) -> str:
    """Run a program and return what it prints; ends this one with its output when it fails."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(each: Distribution, dist: Path) -> None:
    """Build the wheel and the sdist of one distribution; the same files give the same bytes."""
    command = (sys.executable, "-m", "hatchling", "build", "-d", dist)
    run(*command, folder=each.project.parent, SOURCE_DATE_EPOCH=EARLIEST)


def write_sbom(dist: Path) -> None:
    """Write which distributions an installation of everything consists of."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "bin" / "python"
        run(sys.executable, "-m", "venv", folder)
        install = (python, "-m", "pip", "install", "-q", "--find-links", dist)
        run(*install, "-c", ROOT / "constraints.txt", EVERYTHING)
        describe = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")
        run(*describe, "-o", dist / SBOM, python)


def write_checksums(dist: Path) -> None:
    """Write the checksum of every file, as `sha256sum -c` reads them."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(dist.iterdir())
    ]
    (dist / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Build everything, and say what there is."""
    folders = [argument for argument in arguments if not argument.startswith("-")]
    dist = Path(folders[0] if folders else ROOT / "dist").resolve()
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    ours = distributions(ROOT)
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        list(workers.map(partial(build, dist=dist), ours))
    shutil.copy(ROOT / SHIPPED_CONSTRAINTS, dist / "constraints.txt")
    if "--no-sbom" not in arguments:
        write_sbom(dist)
    write_checksums(dist)
    size = sum(path.stat().st_size for path in dist.glob("*.whl"))
    print(f"{dist.name}: {len(ours)} distributions, wheels of {size / 1e6:.1f} MB in all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
