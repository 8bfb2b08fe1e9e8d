"""Hints about accidents in honest code: what a module does when it is merely imported.

This is not a protection against malicious code. Code is read, not run, and there are many ways to
hide what it does (a class with a special method, a thread, a name built at run time). No hint means
that nothing was noticed, never that a module can be trusted. No decision depends on it: trust, the
lock and its pins decide what is loaded.
"""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Iterable, Iterator
from fnmatch import translate
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from amplifier_foundation.sources.content import files_of

_LARGEST = 2 << 20
_VERBS = ("get", "post", "put", "patch", "delete", "head", "options", "request", "stream", "send")
_ACTS = {
    "process": (
        *("subprocess.*", "os.system", "os.popen", "os.exec*", "os.spawn*", "os.posix_spawn*"),
        *("os.fork*", "os.startfile", "pty.spawn", "pty.fork", "asyncio.create_subprocess_*"),
        *("multiprocessing.Process", "multiprocessing.Pool", "*.ProcessPoolExecutor"),
    ),
    "network": (
        *("socket.socket", "socket.create_*", "socket.getaddrinfo", "socket.gethostby*"),
        *("urllib.request.*", "http.client.*", "ftplib.*", "smtplib.*", "poplib.*", "imaplib.*"),
        *(
            "telnetlib.*",
            "xmlrpc.client.*",
            "asyncio.open_connection",
            "ssl.get_server_certificate",
        ),
        *("urllib3.request", "*.PoolManager().*", "aiohttp.request", "websockets.connect"),
        *("paramiko.*", "webbrowser.open*"),
        *(f"{library}.{verb}" for library in ("requests", "httpx", "httpx2") for verb in _VERBS),
        *(f"*.{client}().{verb}" for client in ("Session", "Client") for verb in _VERBS),
    ),
    "made-up code": (
        *("exec", "eval", "compile", "builtins.*", "runpy.*", "marshal.load*", "pickle.load*"),
        *("ctypes.CDLL", "ctypes.PyDLL", "ctypes.cdll.*", "ctypes.pythonapi.*", "code.interact"),
    ),
}
_PATTERNS = {kind: re.compile("|".join(map(translate, names))) for kind, names in _ACTS.items()}
_IMPORTERS = ("__import__", "importlib.import_module", "importlib.__import__")
_UNTOLD = "?"

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Act(NamedTuple):
    """A call at import time that does more than define things."""

    kind: str
    file: str
    line: int
    call: str


class _File(NamedTuple):
    name: str
    tree: ast.Module
    aliases: dict[str, str]


class SourceCode:
    """The Python files of one module, and a call graph by name.

    Functions are distinguished only by name, across all files, which finds too much rather than
    too little.
    """

    def __init__(self, files: Iterable[tuple[str, Path]]) -> None:
        self.unreadable: list[tuple[str, str]] = []
        self._files: list[_File] = []
        self._functions: dict[str, list[tuple[_File, list[ast.AST]]]] = {}
        self._packages: set[str] = set()
        for name, path in files:
            self._packages.update(Path(name).with_suffix("").parts)
            tree = self._parse(name, path)
            if tree is not None:
                file = _File(name, tree, _aliases_of(tree))
                self._files.append(file)
                self._collect_functions(file)

    def acts_at_import(self) -> list[Act]:
        """Return every act that importing one of the files would lead to."""
        acts: set[Act] = set()
        waiting: list[tuple[_File, Iterable[ast.AST]]] = [
            (file, [file.tree]) for file in self._files
        ]
        followed: set[str] = set()
        while waiting:
            file, nodes = waiting.pop()
            for call in _calls_in(nodes):
                name = _dotted(call.func, file.aliases)
                acts.update(_acts_of(file, call, name))
                for called in self._own({name, *_handed_over(call, file.aliases)}) - followed:
                    followed.add(called)
                    waiting += self._functions[called]
        return sorted(acts)

    def _own(self, names: set[str]) -> set[str]:
        """Return which functions of this module the names may refer to."""
        last = {
            name.rpartition(".")[2]
            for name in names
            if (head := name.partition(".")[0].removesuffix("()")) in self._packages
            or head in self._functions
            or name.startswith(".")
        }
        return last & self._functions.keys()

    def _parse(self, name: str, path: Path) -> ast.Module | None:
        try:
            if path.stat().st_size > _LARGEST:
                raise ValueError("it is too large")
            return ast.parse(path.read_bytes())
        # The parser raises the last two for code that is nested too deeply.
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.unreadable.append((name, str(error) or type(error).__name__))
            return None

    def _collect_functions(self, file: _File) -> None:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions.setdefault(node.name, []).append((file, list(node.body)))
            elif isinstance(node, ast.ClassDef):
                # Making an object runs these, and a base class may call the others.
                self._functions.setdefault(node.name, []).extend(
                    (file, list(method.body))
                    for method in node.body
                    if isinstance(method, ast.FunctionDef)
                    and method.name in ("__init__", "__new__", "__post_init__")
                )


def _aliases_of(tree: ast.Module) -> dict[str, str]:
    """Return what the names of a file refer to: imports first, then plain assignments."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                aliases[alias.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                # A relative name keeps its leading dot: it is the module's own.
                dots = "." * bool(node.level)
                name = f"{node.module}.{alias.name}" if node.module else alias.name
                aliases[alias.asname or alias.name] = f"{dots}{name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            meaning = _dotted(node.value, aliases)
            if _UNTOLD not in meaning:
                aliases.setdefault(node.targets[0].id, meaning)
    return aliases


def _calls_in(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """Yield the calls that running the nodes makes, without those in functions they define."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += _run_by_defining(node)
        elif isinstance(node, ast.If) and _is_not_run(node.test):
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            # A decorator without parentheses is called as well.
            for decorator in node.decorator_list:
                if not isinstance(decorator, ast.Call):
                    yield ast.copy_location(ast.Call(decorator, [], []), decorator)


def _run_by_defining(function: _Function) -> list[ast.AST]:
    defaults = [default for default in function.args.kw_defaults if default is not None]
    if isinstance(function, ast.Lambda):
        decorators = []
    else:
        decorators = function.decorator_list
    return [*function.args.defaults, *defaults, *decorators]


def _is_not_run(test: ast.expr) -> bool:
    """Whether a condition is true only in a script or for a type checker."""
    text = ast.unparse(test)
    return text in ("TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'")


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    """Return the full dotted name of an expression, with `?` for what the text does not show."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, aliases)}.{node.attr}"
    if not isinstance(node, ast.Call):
        return _UNTOLD
    function = _dotted(node.func, aliases)
    first = node.args[0] if node.args else None
    if function in _IMPORTERS and isinstance(first, ast.Constant):
        return str(first.value)
    if function == "getattr" and len(node.args) > 1 and first is not None:
        attribute = node.args[1]
        if isinstance(attribute, ast.Constant):
            name = attribute.value
        else:
            name = _UNTOLD
        return f"{_dotted(first, aliases)}.{name}"
    return f"{function}()"


def _acts_of(file: _File, call: ast.Call, name: str) -> Iterator[Act]:
    for kind, pattern in _PATTERNS.items():
        if pattern.match(name):
            yield Act(kind, file.name, call.lineno, name)
    first = call.args[0] if call.args else None
    if name in _IMPORTERS and not isinstance(first, ast.Constant):
        yield Act("made-up code", file.name, call.lineno, name)
    if name.startswith("os.") and _UNTOLD in name:
        yield Act("made-up code", file.name, call.lineno, name)


def _handed_over(call: ast.Call, aliases: dict[str, str]) -> Iterator[str]:
    """Yield the functions that are passed to a call, which may call them: a thread's target."""
    for value in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(value, ast.Name | ast.Attribute):
            yield _dotted(value, aliases)


WHAT_HINTS_ARE = (
    "Hints are about accidents, such as work that is done at import. They do not protect you from "
    "code that is meant to do harm, which is not found: pin only what you trust."
)

_COMPILED = (".so", ".pyd", ".dll", ".dylib", ".pyc", ".pyo")
# Run by Python itself, at every start.
_AT_START = ("sitecustomize.py", "usercustomize.py")
_COMMAND = re.compile(
    r"amplifier|(python|pip)[0-9.]*|uvx?|pipx|git|ssh|scp|sudo|su|doas|env|sh|bash|zsh|fish|dash"
    r"|ls|cat|cp|mv|rm|cd|echo|printf|grep|sed|awk|find|xargs|tar|make|curl|wget|node|npm|npx"
    r"|docker|kubectl|gh|vi|vim|nano|less|man|true|false|test|kill|ps|whoami|login|passwd"
)
_SCRIPT_TABLES = ("scripts", "gui-scripts")
_SCRIPT_GROUPS = ("console_scripts", "gui_scripts")


class Finding(NamedTuple):
    """One thing that may be an accident; `str()` is how it is shown."""

    kind: str
    place: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} in {self.place}: {self.detail}"


def inspect_module(folder: Path) -> list[Finding]:
    """Return what in a module's folder acts before the module is mounted, as far as it is found.

    These are `.pth` and `sitecustomize` files, commands that hide well-known ones, code that
    cannot be read, and calls at import time that start processes, reach the network or run
    generated code, also through functions of the module that are called then. Tests, examples and
    scripts in the folder count too, since they can be imported. Most of what malicious code would
    do is missed; see above.
    """
    files = list(files_of(folder))
    found = [finding for name, _ in files for finding in _of_name(name)]
    found += _shadowing(files)
    code = SourceCode((name, path) for name, path in files if name.endswith(".py"))
    found += [Finding("unreadable code", name, why) for name, why in code.unreadable]
    found += [
        Finding(f"import-time {act.kind}", f"{act.file}:{act.line}", act.call)
        for act in code.acts_at_import()
    ]
    return sorted(set(found), key=lambda finding: (finding.place, finding))


def _of_name(name: str) -> Iterator[Finding]:
    path = PurePosixPath(name)
    if path.suffix == ".pth":
        yield Finding("path file", name, "Python runs its lines at every start")
    elif path.name in _AT_START:
        yield Finding("start-up file", name, "Python runs it at every start")
    elif path.suffix.lower() in _COMPILED or ".so." in path.name:
        yield Finding("compiled code", name, "it cannot be read")
    elif path.parent.match("*.data/scripts") and _COMMAND.fullmatch(path.name):
        yield Finding("script shadowing", name, f"it hides the command `{path.name}`")


def _shadowing(files: Iterable[tuple[str, Path]]) -> Iterator[Finding]:
    for name, path in files:
        try:
            if PurePosixPath(name).name == "pyproject.toml":
                commands = _of_project(path)
            elif name.endswith(".dist-info/entry_points.txt"):
                commands = _of_distribution(path)
            else:
                continue
        except (ValueError, configparser.Error) as error:
            yield Finding("unreadable metadata", name, str(error).partition("\n")[0])
            continue
        for command in commands:
            if _COMMAND.fullmatch(command):
                yield Finding("script shadowing", name, f"it hides the command `{command}`")


def _of_project(path: Path) -> list[str]:
    project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    return [command for table in _SCRIPT_TABLES for command in project.get(table, {})]


def _of_distribution(path: Path) -> list[str]:
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign] - names keep their case
    parser.read_string(path.read_text(encoding="utf-8"))
    groups = [group for group in _SCRIPT_GROUPS if parser.has_section(group)]
    return [command for group in groups for command in parser.options(group)]
