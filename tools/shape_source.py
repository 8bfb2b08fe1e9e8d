"""What can be counted in source files without running them."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Package:
    """The source files of one distribution, and what is in them."""

    name: str
    files: list[Path] = field(default_factory=list[Path])
    lines: int = 0
    statements: int = 0
    comments: int = 0
    parallel: int = 0
    conditional: int = 0
    classes: list[str] = field(default_factory=list[str])
    # By the name of a module: the modules that it imports, anywhere in it.
    imports: dict[str, set[str]] = field(default_factory=dict[str, set[str]])


def source_packages(root: Path) -> list[Package]:
    """Return every distribution of a checkout: the packages, then the modules."""
    folders = [
        each
        for part in ("packages", "modules")
        for each in sorted((root / part).iterdir())
        if (each / "src").is_dir()
    ]
    return [_read(each.name, each / "src") for each in folders]


def circles(packages: list[Package]) -> list[list[str]]:
    """Return the groups of modules that import each other, whenever and for whomever."""
    known = {name for each in packages for name in each.imports}
    graph = {
        name: {found for target in targets if (found := _module_of(target, known))} - {name}
        for each in packages
        for name, targets in each.imports.items()
    }
    return sorted(sorted(group) for group in _groups(graph) if len(group) > 1)


def repeated_names(packages: list[Package]) -> dict[str, list[str]]:
    """Return the names of classes that are there more than once, with their packages."""
    places: dict[str, list[str]] = {}
    for each in packages:
        for name in each.classes:
            places.setdefault(name, []).append(each.name)
    return {name: found for name, found in places.items() if len(found) > 1}


def _read(name: str, folder: Path) -> Package:
    package = Package(name)
    for file in sorted(folder.rglob("*.py")):
        _add(package, file, ".".join(file.relative_to(folder).with_suffix("").parts))
    return package


def _add(package: Package, file: Path, module: str) -> None:
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    module = module.removesuffix(".__init__")
    package.files.append(file)
    package.lines += len(text.splitlines())
    package.statements += sum(isinstance(each, ast.stmt) for each in nodes)
    package.comments += _comments(text)
    package.parallel += sum(map(_is_parallel, nodes))
    package.conditional += sum(isinstance(each, ast.IfExp) for each in nodes)
    package.classes += [each.name for each in nodes if isinstance(each, ast.ClassDef)]
    package.imports[module] = set(_imports(nodes))


def _comments(text: str) -> int:
    """Count lines with a comment that is for readers, not for a tool."""
    tools = ("noqa", "type:", "pyright:", "pragma:", "fmt:")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    said = (each.string.lstrip("#! ") for each in tokens if each.type == tokenize.COMMENT)
    return sum(not each.startswith(tools) for each in said)


def _is_parallel(node: ast.AST) -> bool:
    """Whether a node assigns several values to several names at once."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and any(isinstance(target, ast.Tuple) for target in node.targets)
    )


def _imports(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield what is imported; `from a import b` is `a.b`, which need not be a module."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _module_of(target: str, known: set[str]) -> str | None:
    """Return the module that an imported name is, or is in."""
    if target in known:
        return target
    parent = target.rpartition(".")[0]
    return parent if parent in known else None


def _groups(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield the strongly connected parts of a graph (Tarjan, without recursion)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    waiting: list[str] = []
    for start in graph:
        if start in number:
            continue
        path = [(start, iter(sorted(graph[start])))]
        number[start] = lowest[start] = len(number)
        waiting.append(start)
        while path:
            name, following = path[-1]
            target = next(following, None)
            if target is None:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == number[name]:
                    at = waiting.index(name)
                    yield waiting[at:]
                    del waiting[at:]
            elif target not in number:
                number[target] = lowest[target] = len(number)
                waiting.append(target)
                path.append((target, iter(sorted(graph[target]))))
            elif target in waiting:
                lowest[name] = min(lowest[name], number[target])
