"""Compare what trust lists with what the loader opens, for sources written in every way.

    python tools/fuzz_sources.py --cases 100000 --seed 1

`--against words` compares the readers of `tests/attacks/guessed_words.py` instead, which differ.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_core.errors import ModuleError
from amplifier_foundation.bundles import Bundle, compile_bundle, load_bundle
from amplifier_foundation.config.acting_files import acting_files
from amplifier_foundation.config.contents import UNVERIFIABLE, Contents
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.settings import load_settings
from amplifier_foundation.sources import SourceResolver
from amplifier_foundation.sources.granted import ProjectCode
from source_grammar import Case, Grammar, make_project

_SESSION = {"orchestrator": {"module": "loop-x"}, "context": {"module": "context-x"}}
_PROVIDERS = [{"module": "provider-x"}]
_BUNDLE = Bundle("plain", session=_SESSION, providers=_PROVIDERS)
_SHOWN = 10


class Found(NamedTuple):
    """A case that the two sides read differently."""

    case: Case
    listed: str
    opened: str


class Differential:
    """One project, in which each case is written, listed and loaded."""

    def __init__(self, folder: Path) -> None:
        self.project = make_project(folder)
        self._home = folder / "home"
        self._home.mkdir()
        self._resolver = SourceResolver(self._home, base=self.project)
        self._digests: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self._write(Case(None, "bundle", ()))
        self._always = self._listed()
        self.found: list[Found] = []
        self.table: Counter[str] = Counter()

    def run(self, cases: Iterable[Case]) -> None:
        """Compare the two sides for each case."""
        for case in cases:
            self._write(case)
            listed = self._listed()
            opened = self._opened()
            self.table["cases"] += 1
            self.table[self._outcome(case, listed, opened)] += 1

    def against_words(self, cases: Iterable[Case]) -> None:
        """Compare the two sides as they once were."""
        tests = Path(__file__).resolve().parent.parent / "tests"
        # Before this folder, which has a program of the same name.
        sys.path.insert(0, str(tests))
        from attacks.guessed_words import guessed, opened  # noqa: PLC0415 - on the path only now

        for case in cases:
            path = opened(case.source, self.project)
            inside = path is not None and path.is_relative_to(self.project)
            loaded = {path} if path is not None and inside else set[Path]()
            listed = guessed(case.source, self.project)
            self.table["cases"] += 1
            if loaded == listed:
                self.table["listed and opened" if loaded else "neither"] += 1
            else:
                self.table["differences"] += 1
                self.found.append(Found(case, _names(listed), _names(loaded)))

    def _outcome(self, case: Case, listed: set[Path] | str, opened: set[Path] | str) -> str:
        if isinstance(listed, str) and isinstance(opened, str):
            return "refused by both"
        shown = set[Path]() if isinstance(listed, str) else listed
        loaded = set[Path]() if isinstance(opened, str) else opened
        if shown | self._own == loaded | self._own and not isinstance(listed, str):
            if isinstance(opened, str):
                return "nothing listed, refused by the loader"
            return "listed and opened" if loaded else "nothing of the project in either"
        self.found.append(Found(case, _told(listed), _told(opened)))
        return "differences"

    @property
    def _own(self) -> set[Path]:
        """What is listed in every case: the settings, and all else in `.amplifier`."""
        assert not isinstance(self._always, str)
        return self._always

    def _write(self, case: Case) -> None:
        entry = {"module": "tool-x", "source": case.source}
        written: dict[str, Any] = {
            "tools": {"modules": {"tools": [entry]}},
            "hooks": {"modules": {"hooks": [entry]}},
            "sources": {
                "modules": {"tools": [{"module": "tool-x"}]},
                "sources": {"modules": {"tool-x": case.source}},
            },
            "loop": {"session": {"orchestrator": "tool-x", "orchestrator_source": case.source}},
            "memory": {"session": {"context": entry}},
        }
        in_bundle = {"bundle": "./b/bundle.yaml"}
        settings = written.get(case.place, in_bundle)
        bundle: dict[str, Any] = {"bundle": {"name": "b"}, "session": _SESSION}
        bundle["providers"] = _PROVIDERS
        bundle["agents"] = {"include": ["b:helper"]}
        agent: dict[str, Any] = {"meta": {"name": "helper"}}
        if case.place == "bundle":
            bundle["tools"] = [entry]
        elif case.place == "agent":
            agent["tools"] = [entry]
        for name, values in (
            (".amplifier/settings.yaml", settings),
            ("b/bundle.yaml", bundle),
            ("b/agents/helper.md", agent),
        ):
            text = json.dumps(values, ensure_ascii=False)
            text = f"---\n{text}\n---\n" if name.endswith(".md") else text
            if self._written.get(name) != text:
                self._written[name] = text
                (self.project / name).write_text(text, encoding="utf-8")

    def _listed(self) -> set[Path] | str:
        """Return the files that trust lists, or why it cannot."""
        acting = acting_files(self.project, self._home)
        self._digests = acting.digests
        if acting.reasons:
            return next(iter(acting.reasons.values()))
        if UNVERIFIABLE in acting.digests.values():
            return UNVERIFIABLE
        return {(self.project / name).resolve() for name in acting.digests}

    def _opened(self) -> set[Path] | str:
        """Return the files below the folders from which modules would be loaded, or why not."""
        try:
            settings = load_settings(self.project, trusted=True, home=self._home)
            name = settings.get("bundle.active")
            bundle = _BUNDLE
            if name is not None:
                bundle = _finished(load_bundle(name, settings=settings, resolver=self._resolver))
            plan = compile_bundle(bundle, settings).plan
            located = [self._resolver.locate("tool-x", source).path for source in _sources_in(plan)]
            if UNVERIFIABLE in self._digests.values():
                # The path was read alike; the content cannot be granted, so it must not be loaded.
                code = ProjectCode(self.project, self._home, self._digests)
                located = [code.admit("tool-x", path) for path in located]
        except (FoundationError, ModuleError) as error:
            return f"{type(error).__name__}: {error}"
        contents = Contents(self.project, self._home)
        return {file.resolve() for folder in located for file in contents.files(folder)}


def _sources_in(plan: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    waiting: list[Any] = [plan]
    while waiting:
        each: Any = waiting.pop()
        if isinstance(each, dict):
            if each.get("module") == "tool-x" and each.get("source") is not None:  # pyright: ignore[reportUnknownMemberType] - plain data
                found.append(each["source"])
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return found


def _finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("it waits")


def _told(side: set[Path] | str) -> str:
    return side if isinstance(side, str) else _names(side)


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(sorted(f"{each.parent.name}/{each.name}" for each in paths)) or "nothing"


def compare(cases: int, seed: int, *, words: bool = False) -> Differential:
    """Run cases in a new project, in which this process then works; return what came of it."""
    before = Path.cwd()
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        differential = Differential(root)
        os.environ |= {"HOME": str(root), "PWD": str(differential.project)}
        os.chdir(differential.project)
        try:
            grammar = Grammar(differential.project, seed)
            made = (grammar.case() for _ in range(cases))
            (differential.against_words if words else differential.run)(made)
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ |= environment
    return differential


def main() -> int:
    """Print the table, and the first differences; the exit status is 1 when there are any."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--against", choices=["words"])
    arguments = parser.parse_args()
    result = compare(arguments.cases, arguments.seed, words=arguments.against == "words")
    for each in result.found[:_SHOWN]:
        source = repr(each.case.source)
        print(f"{each.case.place}: {source[:120]}")
        print(f"  listed {each.listed[:150]}\n  opened {each.opened[:150]}")
    result.table.setdefault("differences", 0)
    for name, count in sorted(result.table.items(), key=lambda item: -item[1]):
        print(f"{count:>10,}  {name}")
    return 1 if result.found else 0


if __name__ == "__main__":
    sys.exit(main())
