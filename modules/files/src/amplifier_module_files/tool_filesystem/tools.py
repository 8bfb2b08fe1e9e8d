"""The tools: read_file, write_file, edit_file, multi_edit, list_directory."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from amplifier_core import events
from amplifier_core.effects import Effect
from amplifier_core.hooks import HookRegistry
from amplifier_core.models import ToolResult
from amplifier_kit.questions import Preview
from amplifier_kit.tools import tool_failure
from amplifier_kit.widenings import CallScope
from amplifier_module_files.diff import change_text, whole_difference
from amplifier_module_files.edits import Edit, NoMatchError, replaced, with_line_ends_of
from amplifier_module_files.failures import FAILURES, failure_text
from amplifier_module_files.tool_filesystem.inputs import (
    EditFile,
    FileInput,
    ListDirectory,
    MultiEdit,
    ReadFile,
    Replacement,
    ToolInput,
    WriteFile,
    schema_of,
)
from amplifier_module_files.tool_filesystem.session_files import SessionFiles
from amplifier_sandbox.files.names import RefusedError, decoded, shown
from amplifier_sandbox.files.rooted import Entry

# Contexts move results above 20,000 characters out of the conversation; these stay below.
_MOST_CHARS = 18_000
_MOST_ENTRIES = 500

Asked = TypeVar("Asked", bound=ToolInput)
Changing = TypeVar("Changing", bound=FileInput)


class _Done(NamedTuple):
    """The result of a call: the text for the model, and the data of its event."""

    output: str
    event: str
    path: str
    size: int


class FileTool(Generic[Asked]):
    """A tool on the session's files; it runs in a thread and returns failures as results."""

    name: ClassVar[str]
    description: ClassVar[str]
    effect: ClassVar[Effect]
    deadline_seconds: ClassVar[float] = 60.0
    output_trusted: ClassVar[bool] = False
    network: ClassVar[bool] = False
    asked: type[Asked]

    def __init__(self, files: SessionFiles, hooks: HookRegistry) -> None:
        self._files = files
        self._hooks = hooks
        self.input_schema = schema_of(self.asked)

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Run the tool once."""
        try:
            done = await asyncio.to_thread(self.run, self.asked.model_validate(input))
        except RefusedError as error:
            return tool_failure(str(error), rule=error.rule)
        except FAILURES as error:
            return tool_failure(failure_text(error))
        await self._hooks.emit(done.event, {"path": done.path, "bytes": done.size})
        return ToolResult(output=done.output)

    def run(self, asked: Asked) -> _Done:
        """Run the tool; blocks."""
        raise NotImplementedError


class ReadFileTool(FileTool[ReadFile]):
    """Reads lines of a text file."""

    name = "read_file"
    description = (
        "Read a UTF-8 text file. A line about what is shown comes first, then the text as it is. "
        "A long file comes in parts: `offset` is the first line, `limit` how many."
    )
    effect = "pure"
    asked = ReadFile

    def run(self, asked: ReadFile) -> _Done:
        """Return the lines, below a header with their numbers and the next offset."""
        path, data = self._files.read(asked.file_path)
        # `splitlines` also breaks at form feeds and U+2028, so its numbers differ from editors'.
        lines = list(StringIO(decoded(path, data)))
        return _Done(_part(path, lines, asked), events.ARTIFACT_READ, path, len(data))


class ChangingTool(FileTool[Changing]):
    """A tool that changes one file, and can check in advance whether it would fail."""

    # No path leads out of the workspace.
    is_bounded = True
    edits_files = True

    def run(self, asked: Changing) -> _Done:
        """Make the change."""
        path, old, new = self._files.change(asked.file_path, self._content(asked))
        return _Done(change_text(shown(path), old, new), events.ARTIFACT_WRITE, path, len(new))

    async def preflight(self, input: dict[str, Any]) -> str | None:  # noqa: A002 - as in `execute`
        """Return why the change would fail now, so that the user is not asked about it."""
        try:
            asked = self.asked.model_validate(input)
            await asyncio.to_thread(self._files.check, asked.file_path, self._content(asked))
        except FAILURES as error:
            return failure_text(error)
        return None

    def call_scopes(self, tool_input: Any) -> list[CallScope]:
        """Return the edits that one answer can be about: in the folder of the file, or above."""
        try:
            path = self.asked.model_validate(tool_input).file_path
            folders = self._files.folders_of(path)
        except FAILURES:
            # `execute` refuses the call.
            return []
        return [CallScope(f"edits {each}", self._files.edits_in(each)) for each in folders]

    async def preview_call(self, input: dict[str, Any]) -> Preview | None:  # noqa: A002 - as above
        """Return the whole difference that the change would make now; None if there is none."""
        try:
            asked = self.asked.model_validate(input)
            change = await asyncio.to_thread(
                self._files.check, asked.file_path, self._content(asked)
            )
        except FAILURES:
            return None
        diff = whole_difference(change.old, change.new)
        if diff is None:
            return None
        name = self._files.short_name(change.path)
        title = f"a new file {name}" if change.old is None else f"this edit of {name}"
        return Preview(title, tuple(self.asked.model_fields), diff=diff)

    def _content(self, asked: Changing) -> Callable[[bytes | None], bytes]:
        """Return a function from the old content of a file to the new one."""
        raise NotImplementedError


class WriteFileTool(ChangingTool[WriteFile]):
    """Writes a whole file."""

    name = "write_file"
    description = (
        "Write a whole text file, new or in place of what is there; folders that are missing are "
        "made. To change parts of a file, edit it instead. The result shows the difference."
    )
    effect = "idempotent"
    asked = WriteFile

    def _content(self, asked: WriteFile) -> Callable[[bytes | None], bytes]:
        def content(old: bytes | None) -> bytes:
            try:
                there = (old or b"").decode()
            except UnicodeDecodeError:
                there = ""
            return _encoded(with_line_ends_of(there, asked.content))

        return content


class EditFileTool(ChangingTool[EditFile]):
    """Makes one replacement."""

    name = "edit_file"
    description = (
        "Replace text in a file. `old_string` must be in the file exactly once, blanks and line "
        "breaks included, unless `replace_all` is set. The result shows the difference."
    )
    # Not idempotent: repeated, it could match the text that its first run has written.
    effect = "unsafe"
    asked = EditFile

    def _content(self, asked: EditFile) -> Callable[[bytes | None], bytes]:
        return _edited(asked.file_path, [asked])


class MultiEditTool(ChangingTool[MultiEdit]):
    """Makes several replacements in one file."""

    name = "multi_edit"
    description = (
        "Make several replacements in one file, one after the other, as `edit_file` does. When one "
        "does not fit, none is made. The result shows the difference."
    )
    effect = "unsafe"
    asked = MultiEdit

    def _content(self, asked: MultiEdit) -> Callable[[bytes | None], bytes]:
        return _edited(asked.file_path, asked.edits)


class ListDirectoryTool(FileTool[ListDirectory]):
    """Lists a folder."""

    name = "list_directory"
    description = (
        "List a folder: its files with their sizes in bytes, folders with a slash, links with an @."
    )
    effect = "pure"
    asked = ListDirectory

    def run(self, asked: ListDirectory) -> _Done:
        """Return one line per entry, in the order of names."""
        path, entries, count = self._files.entries(asked.path, _MOST_ENTRIES)
        lines = [f"[{shown(path)}: {count} entries]"]
        room = _MOST_CHARS
        for line in map(_entry, entries):
            room -= len(line)
            if room < 0:
                break
            lines.append(line)
        if len(lines) <= count:
            lines.append(f"[{count + 1 - len(lines)} more entries]")
        output = "\n".join(lines)
        return _Done(output, events.ARTIFACT_READ, path, len(output.encode()))


TOOLS = (ReadFileTool, WriteFileTool, EditFileTool, MultiEditTool, ListDirectoryTool)


def _part(path: str, lines: list[str], asked: ReadFile) -> str:
    first = asked.offset
    shown_lines = list[str]()
    count = 0
    for line in lines[first - 1 : first - 1 + asked.limit]:
        if shown_lines and count + len(line) > _MOST_CHARS:
            break
        shown_lines.append(line[:_MOST_CHARS])
        count += len(line)
    last = first - 1 + len(shown_lines)
    header = f"{shown(path)}: lines {first}-{last} of {len(lines)}"
    if not shown_lines:
        header = f"{shown(path)}: nothing at line {first}, it has {len(lines)} lines"
    elif count > _MOST_CHARS:
        header += f"; the first {_MOST_CHARS:,} of {count:,} characters of line {first}"
    if shown_lines and last < len(lines):
        header += f"; next: offset={last + 1}"
    return f"[{header}]\n{''.join(shown_lines)}"


def _edited(path: str, edits: Sequence[Replacement]) -> Callable[[bytes | None], bytes]:
    def content(old: bytes | None) -> bytes:
        if old is None:
            raise FileNotFoundError
        wanted = [Edit(each.old_string, each.new_string, each.replace_all) for each in edits]
        return _encoded(replaced(decoded(path, old), wanted))

    return content


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise NoMatchError("The new text is not valid Unicode: it has a lone surrogate.") from error


def _entry(entry: Entry) -> str:
    name = shown(entry.name)
    mode = entry.status.st_mode
    if stat.S_ISDIR(mode):
        return f"{name}/"
    if stat.S_ISLNK(mode):
        return f"{name}@"
    if stat.S_ISREG(mode):
        return f"{name}  {entry.status.st_size}"
    return f"{name}  (no file)"
