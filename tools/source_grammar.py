"""A small project, and a generator of the sources that its files may name."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

__all__ = ["Case", "Grammar", "make_project"]

PACKAGE = "amplifier_module_tool_x"
FOLDERS = (
    "mods",
    "mods#1",
    "mods#subdirectory=a",
    "mods?x",
    "mods/a",
    "@mods/a",
    "a b",
    "a%20b",
    "%6dods",
    "deep/x/mods",
    "${PWD}/mods",
    "m\u00f6ds",
    "mo\u0308ds",
    "~/mods",
    "..mods",
    "-m",
    "file:/mods",
    "git+file:/mods",
    ".hidden",
    ".git/x",
    ".amplifier/m",
)
PLACES = ("tools", "hooks", "sources", "loop", "memory", "bundle", "agent")
ENDS = ("", "", "", "", "/", "/.", "#1", "#subdirectory=a", "?x", " ", "\t", "\n", "%20", "\0")
OTHER: list[Any] = [7, True, 1.5, [], ["./mods"], {}, "", " ", "mods", "package:mods", "x", "."]
NOISE = ("", "", "", "", "./", "mods/../", "deep/../", "link/../", "/", ".//", "\u200b", "\u00a0")


class Case(NamedTuple):
    """A source, where it is written, and by which forms it was made."""

    source: Any
    place: str
    forms: tuple[str, ...]


def make_project(folder: Path) -> Path:
    """Make a project of small modules with telling names, links among them, and return it."""
    project = folder / "project"
    for name in FOLDERS:
        _write_module(project / name, name)
    _write_module(folder / "outside", "outside")
    links = {"link": "deep/x", "out": "../outside", "loop": "loop", "to-git": ".git/x", "self": "."}
    for name, target in links.items():
        (project / name).symlink_to(target)
    (project / "mods" / "linked.py").symlink_to("../deep/x/mods/data.txt")
    (project / "b" / "agents").mkdir(parents=True)
    return project


def _write_module(folder: Path, name: str) -> None:
    package = folder / PACKAGE
    package.mkdir(parents=True)
    text = f'"""{name}"""\n\n\nasync def mount(coordinator, config=None): ...\n'
    (package / "__init__.py").write_text(text, encoding="utf-8")
    (folder / "data.txt").write_text(name, encoding="utf-8")


class Grammar:
    """Makes sources; the same seed makes the same ones."""

    def __init__(self, project: Path, seed: int) -> None:
        self._project = project
        self._random = random.Random(seed)

    def case(self) -> Case:
        """Return the next case."""
        forms: list[str] = []
        place = self._random.choice(PLACES)
        kind = self._random.random()
        if kind < 0.75:
            return Case(self._text(forms), place, tuple(forms))
        if kind < 0.95:
            return Case(self._mapping(forms), place, tuple(forms))
        forms.append("other value")
        return Case(self._random.choice(OTHER), place, tuple(forms))

    def _text(self, forms: list[str]) -> str:
        name = self._random.choice(FOLDERS)
        forms.append(f"folder {name}")
        if self._random.random() < 0.1:
            composed = self._random.random() < 0.5
            name = unicodedata.normalize("NFC" if composed else "NFD", name)
            forms.append("normal form")
        text = (
            self._start(forms) + self._noise(forms) + self._escaped(name, forms) + self._end(forms)
        )
        if self._random.random() < 0.05:
            at = self._random.randrange(len(text) + 1)
            text = text[:at] + self._random.choice("#@$%{}~/\\:+?*. \u202e\u0301") + text[at:]
            forms.append("one character more")
        return text

    def _start(self, forms: list[str]) -> str:
        project = str(self._project)
        starts = {
            "dot": "./",
            "bare": "",
            "up": "../project/",
            "out": "../",
            "absolute": f"{project}/",
            "twice absolute": f"/{project}/",
            "home": "~/project/",
            "root's home": "~root/",
            "nobody's home": "~no-such-user/",
            "cwd": "/proc/self/cwd/",
            "root": "/proc/self/root" + project + "/",
            "variable": "${PWD}/",
            "default": "${NOT_SET:.}/",
            "default path": "${NOT_SET:" + project + "}/",
            "at": "@",
            "at absolute": f"@{project}/",
            "file": f"file://{project}/",
            "file host": f"file://localhost{project}/",
            "file short": f"file:{project}/",
            "file cwd": "file:///proc/self/cwd/",
            "file up": f"file://{project}/deep/../",
            "File": f"File://{project}/",
            "package": "package:",
            "git": f"git+file://{project}/",
            "zip": f"zip+file://{project}/",
            "https": "git+https://host.invalid/",
            "link": "./link/",
            "link out": "./out/../project/",
            "loop": "./loop/",
            "to git": "./to-git/",
            "self": "./self/self/",
        }
        plain = ("dot", "bare", "file", "absolute", "at")
        form = self._random.choice(plain if self._random.random() < 0.4 else list(starts))
        forms.append(form)
        return starts[form]

    def _noise(self, forms: list[str]) -> str:
        if self._random.random() < 0.05:
            forms.append("long")
            return "./" * self._random.choice((500, 600, 3_000))
        if self._random.random() < 0.02:
            forms.append("too long")
            return "x" * self._random.choice((256, 5_000)) + "/../"
        noise = self._random.choice(NOISE)
        if noise:
            forms.append(f"noise {noise!r}")
        return noise

    def _escaped(self, name: str, forms: list[str]) -> str:
        if self._random.random() < 0.7:
            return name
        forms.append("escaped")
        if self._random.random() < 0.3:
            return quote(name)
        at = self._random.randrange(len(name))
        return name[:at] + "".join(f"%{byte:02x}" for byte in name[at].encode()) + name[at + 1 :]

    def _end(self, forms: list[str]) -> str:
        end = self._random.choice(ENDS)
        if end:
            forms.append(f"end {end!r}")
        return end

    def _mapping(self, forms: list[str]) -> dict[str, Any]:
        forms.append("mapping")
        kinds = ("path", "path", "file", "local", "git", "zip", "package", "none", None, 7)
        mapping: dict[str, Any] = {"type": self._random.choice(kinds)}
        for key, chance in (("path", 0.8), ("url", 0.3), ("subdirectory", 0.2), ("name", 0.2)):
            if self._random.random() < chance:
                odd = self._random.random() < 0.05
                mapping[key] = (
                    self._random.choice((7, None, ["./mods"])) if odd else self._text(forms)
                )
        return mapping
