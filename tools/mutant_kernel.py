"""A copy of the kernel to put mutants into, so that the checkout is never written to."""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import sys
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "packages" / "core" / "src"
# Unchecked: what is cached is used as it is, so a mutated file must have no cache at all.
_CACHE = py_compile.PycInvalidationMode.UNCHECKED_HASH


class KernelCopy:
    """A copy of the kernel, compiled, in which one file at a time is a mutant's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(str(folder), quiet=2, invalidation_mode=_CACHE)

    def change(self, file: str, code: str) -> None:
        """Put the code of a mutant in the place of a file."""
        path = self.folder / "amplifier_core" / file
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
        path.write_text(code, encoding="utf-8")

    def restore(self, file: str) -> None:
        """Put the file itself back."""
        path = self.folder / "amplifier_core" / file
        shutil.copyfile(SOURCE / "amplifier_core" / file, path)
        py_compile.compile(str(path), invalidation_mode=_CACHE)

    def use(self) -> None:
        """Let this process and its children import it instead of the one that is installed."""
        sys.path.insert(0, str(self.folder))
        os.environ["PYTHONPATH"] = str(self.folder)
        os.chdir(ROOT)
