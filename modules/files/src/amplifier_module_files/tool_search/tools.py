"""The tools `grep` and `glob`."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from pydantic import ValidationError

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_kit.notices import show
from amplifier_kit.tools import problems_in, tool_failure
from amplifier_module_files.descriptors import is_out_of_descriptors
from amplifier_module_files.patterns import PatternError, alternatives
from amplifier_module_files.tool_search import inputs
from amplifier_module_files.tool_search.config import SearchConfig
from amplifier_module_files.tool_search.matching import Matching
from amplifier_module_files.tool_search.programs import Stop, command_for, in_time
from amplifier_module_files.walk import Walk
from amplifier_sandbox.files.names import RefusedError, shown
from amplifier_sandbox.files.workspace import Workspace

INCOMPLETE = "search:incomplete"

# Contexts move results above 20,000 characters out of the conversation; these stay below.
_MOST_CHARS = 18_000

_TOO_MANY_OPEN = (
    "This process has as many files open as it may, so that nothing was searched.\n"
    "Repeat the call when other calls have ended, or raise the limit (`ulimit -n`)."
)


class _Found(NamedTuple):
    """The first lines, the number of all, a summary, and what was left out by reason."""

    lines: list[str]
    total: int
    summary: str
    left_out: Counter[str]


class SearchTool:
    """A search with a time limit; it runs in a thread and returns failures as results."""

    name: str
    description: str
    asked: type[inputs.SearchInput]
    effect: Effect = "pure"
    output_trusted = False
    network = False

    def __init__(
        self, coordinator: ModuleCoordinator, settings: SearchConfig, workspace: Workspace
    ) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._workspace = workspace
        self.input_schema = self.asked.model_json_schema()
        # The tool's own limit is reached first, because it returns what was found until then.
        self.deadline_seconds = settings.timeout_seconds + 5

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Search once."""
        seconds = self._settings.timeout_seconds
        try:
            asked = self.asked.model_validate(input)
            found, is_whole = await in_time(lambda stop: self.run(asked, stop), seconds)
        except ValidationError as error:
            return tool_failure(f"The input does not fit: {problems_in(error)}.")
        except RefusedError as error:
            return tool_failure(str(error), rule=error.rule)
        except PatternError as error:
            return tool_failure(f"The pattern cannot be used: {error}")
        except FileNotFoundError:
            return tool_failure("There is no such file or folder. Search the folder above it.")
        except OSError as error:
            if is_out_of_descriptors(error):
                return tool_failure(_TOO_MANY_OPEN)
            return tool_failure(f"The file system says: {error.strerror or error}.")
        if is_whole:
            return ToolResult(output=_output(found))
        reason = f"{self.name} was stopped after {seconds:g} seconds"
        show(self._coordinator, f"{reason}; the model got what was found.", source="tool-search")
        await self._coordinator.hooks.emit(INCOMPLETE, {"tool": self.name, "reason": reason})
        return ToolResult(output=f"[{reason}; this is what was found until then]\n{_output(found)}")

    def run(self, asked: Any, stop: Stop) -> _Found:
        """Search until it is done or stopped; blocks."""
        raise NotImplementedError

    def walk(self, asked: inputs.SearchInput, stop: Stop) -> Walk:
        """Return the requested walk."""
        return Walk(
            self._workspace.locate(asked.path),
            hidden=asked.include_hidden,
            ignored=asked.include_ignored,
            is_stopped=lambda: stop.is_set,
        )


class GrepTool(SearchTool):
    """Finds lines, with ripgrep if it is installed."""

    name = "grep"
    description = (
        "Find lines of text files by regular expression, as path:line:text. Links, binary files, "
        "hidden names and what .gitignore names are left out, and counted."
    )
    asked = inputs.Grep
    ripgrep: str | None = None

    def run(self, asked: inputs.Grep, stop: Stop) -> _Found:
        """Find lines in the files that match the glob."""
        globs = alternatives(asked.glob or "*")
        walk = self.walk(asked, stop)
        matching = Matching(walk.root, command_for(asked, self.ripgrep), self._settings)
        files = (file for file in walk.files() if any(each.matches(file.parts) for each in globs))
        matching.search(files, stop)
        lines = matching.lines
        counts = matching.counts
        total = matching.counts.total()
        summary = f"{total:,} matching lines in {len(counts):,} files"
        if asked.files_only:
            first = list(counts.items())[: self._settings.max_results]
            lines = [f"{name}: {count}" for name, count in first]
            total = len(counts)
        return _Found(lines, total, summary, walk.left_out + matching.left_out)


class GlobTool(SearchTool):
    """Finds files."""

    name = "glob"
    description = (
        "Find files by a pattern of their names or paths, sorted by path. Links, hidden names and "
        "what .gitignore names are left out, and counted."
    )
    asked = inputs.Glob

    def run(self, asked: inputs.Glob, stop: Stop) -> _Found:
        """Find files."""
        globs = alternatives(asked.pattern)
        lines = list[str]()
        total = 0
        walk = self.walk(asked, stop)
        for file in walk.files():
            if any(each.matches(file.parts) for each in globs):
                total += 1
                if total <= self._settings.max_results:
                    lines.append(shown(file.name))
        return _Found(lines, total, f"{total:,} files", walk.left_out)


def _output(found: _Found) -> str:
    lines = [f"[{found.summary}]"]
    room = _MOST_CHARS
    for line in found.lines:
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    more = found.total + 1 - len(lines)
    if more:
        lines.append(f"[{more:,} more; narrow the pattern or `path` to see them]")
    left_out = [f"{count:,} {reason}" for reason, count in found.left_out.items() if count]
    if left_out:
        lines.append(f"[left out: {', '.join(left_out)}]")
    return "\n".join(lines)
