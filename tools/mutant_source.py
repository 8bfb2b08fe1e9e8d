"""The mutants of a Python file: every small change of its code that a test should notice.

The operators are those of mutmut, applied to the syntax tree of libcst, and four of our own:
negate a condition, return nothing, leave a statement out, empty a text. Not mutated are type
annotations, docstrings, imports, and the arguments of log calls; that a line is logged at all is.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider
from mutmut.mutation import mutators

# A text is emptied below; mutmut would change its case as well, which adds nothing to that.
_BORROWED: list[tuple[type, Any]] = [
    (kind, operator)
    for kind, operator in mutators.mutation_operators
    if operator is not mutators.operator_string
]


@dataclass(frozen=True)
class Mutant:
    """One change of one file. `key` names it in a way that survives edits elsewhere in the file."""

    file: str
    function: str
    line: str
    change: str
    occurrence: int
    # Where the change is, and which lines run when it does; these move with every edit.
    number: int
    scope: tuple[int, int]
    change_made: _Replacement

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """File, enclosing function, text of the line, what changes, and the how manieth such."""
        return self.file, self.function, self.line, self.change, self.occurrence

    def __str__(self) -> str:
        return f"{self.file}:{self.number} {self.function}: {self.change}"

    @property
    def is_in_function(self) -> bool:
        """Whether it is a function's own, and not read while the file is imported."""
        return self.scope != (0, 0)

    def without_change(self) -> Mutant:
        """Return a mutant of the same place that changes nothing."""
        made = self.change_made
        return replace(self, change_made=made._replace(new=made.old))

    def code(self) -> str | None:
        """Return the whole file with the change, or None when it is not valid Python."""
        made = self.change_made
        if made.span is None:
            code = cast("cst.Module", made.module.deep_replace(made.old, made.new)).code
        else:
            start, end = made.span
            source = made.module.code
            code = source[:start] + made.module.code_for_node(made.new) + source[end:]
        try:
            compile(code, self.file, "exec")
        except SyntaxError:
            return None
        return code


class _Replacement(NamedTuple):
    """A node of a module, and what takes its place."""

    module: cst.Module
    old: cst.CSTNode
    new: cst.CSTNode
    # Where the node is in the text; None when it is not there as it stands, with its spaces.
    span: tuple[int, int] | None


def mutants_of(path: Path) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    source = path.read_text(encoding="utf-8")
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    finder = _Finder(wrapper.module, wrapper.resolve(PositionProvider))
    wrapper.module.visit(finder)
    lines = source.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    counts: Counter[tuple[str, str, str]] = Counter()
    mutants: list[Mutant] = []
    for found in sorted(finder.found, key=lambda each: each.number):
        line = lines[found.number - 1].strip()
        name = (found.function, line, found.change)
        begin = starts[found.position.start.line - 1] + found.position.start.column
        end = starts[found.position.end.line - 1] + found.position.end.column
        is_there = source[begin:end] == wrapper.module.code_for_node(found.old)
        mutants.append(
            Mutant(
                file=path.name,
                function=found.function,
                line=line,
                change=found.change,
                occurrence=counts[name],
                number=found.number,
                scope=found.scope,
                change_made=_Replacement(
                    wrapper.module, found.old, found.new, (begin, end) if is_there else None
                ),
            )
        )
        counts[name] += 1
    return mutants


@dataclass
class _Found:
    """A node, and what takes its place."""

    old: cst.CSTNode
    new: cst.CSTNode
    function: str
    position: CodeRange
    scope: tuple[int, int]
    change: str

    @property
    def number(self) -> int:
        return self.position.start.line


class _Finder(cst.CSTVisitor):
    """Walks over a module and collects its mutations."""

    def __init__(self, module: cst.Module, positions: Any) -> None:
        super().__init__()
        self.found: list[_Found] = []
        self._module = module
        self._positions = cast("dict[cst.CSTNode, CodeRange]", positions)
        self._names: list[str] = []
        self._functions: list[cst.FunctionDef] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _is_left_alone(node):
            return False
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self._names.append(node.name.value)
            if isinstance(node, cst.FunctionDef):
                self._functions.append(node)
        for new in _mutations(node):
            self._note(node, new)
        if isinstance(node, cst.Call) and _is_cast(node):
            # The type comes first and is for the type checker alone.
            node.args[1].visit(self)
            return False
        return not _is_log_call(node)

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.FunctionDef | cst.ClassDef):
            self._names.pop()
            if isinstance(original_node, cst.FunctionDef):
                self._functions.pop()

    def _note(self, old: cst.CSTNode, new: cst.CSTNode) -> None:
        position = self._positions[old]
        scope = (0, 0)
        if self._functions:
            function = self._functions[-1]
            # A decorator is above the name of its function, and runs on import.
            if position.start.line >= self._positions[function.name].start.line:
                body = self._positions[function.body]
                scope = (body.start.line, body.end.line)
        change = _change(self._module.code_for_node(old), self._module.code_for_node(new))
        function = ".".join(self._names)
        self.found.append(_Found(old, new, function, position, scope, change))


def _mutations(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield everything that may take the place of a node."""
    for kind, operator in _BORROWED:
        if isinstance(node, kind) and not _is_log_call(node) and not _is_cast(node):
            yield from cast("Iterable[cst.CSTNode]", operator(node))
    if isinstance(node, cst.If | cst.While | cst.CompIf) and not _has_opposite(node.test):
        yield node.with_changes(test=_negated(node.test))
    elif isinstance(node, cst.Return) and not _is_none(node.value):
        yield node.with_changes(value=cst.Name("None"), whitespace_after_return=_SPACE)
    elif isinstance(node, cst.SimpleStatementLine) and _may_go(node.body):
        yield node.with_changes(body=[cst.Pass()])
    elif isinstance(node, cst.FormattedString | cst.ConcatenatedString):
        yield cst.SimpleString('""')
    elif isinstance(node, cst.SimpleString):
        yield _other_text(node)


_SPACE = cst.SimpleWhitespace(" ")


def _negated(test: cst.BaseExpression) -> cst.BaseExpression:
    inner = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.UnaryOperation(operator=cst.Not(), expression=inner)


def _has_opposite(test: cst.BaseExpression) -> bool:
    """Whether another operator negates this condition already: `==`, `is`, `in`, `not`."""
    if isinstance(test, cst.Comparison):
        return isinstance(
            test.comparisons[0].operator,
            cst.Equal | cst.NotEqual | cst.Is | cst.IsNot | cst.In | cst.NotIn,
        )
    return isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not)


def _is_none(value: cst.BaseExpression | None) -> bool:
    return value is None or (isinstance(value, cst.Name) and value.value == "None")


def _may_go(body: Any) -> bool:
    """Whether a statement is one that does something, and is still a program when it is gone."""
    statement = body[0]
    if isinstance(statement, cst.Raise):
        return True
    if not isinstance(statement, cst.Expr):
        return False
    return isinstance(statement.value, cst.Call | cst.Await)


def _other_text(node: cst.SimpleString) -> cst.SimpleString:
    """Return another word for a word, and nothing for a sentence, of which tests know a part."""
    quote = node.quote
    if re.search(r"\s", node.raw_value) or not node.raw_value:
        return cst.SimpleString('""' if node.raw_value else '"XX"')
    return cst.SimpleString(f"{node.prefix}{quote}XX{node.raw_value}XX{quote}")


def _is_left_alone(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Annotation | cst.Import | cst.ImportFrom):
        return True
    if isinstance(node, cst.SimpleStatementLine):
        return _is_statement_left_alone(node.body[0])
    return isinstance(node, cst.If) and _name_of(node.test) == "TYPE_CHECKING"


def _is_statement_left_alone(statement: cst.BaseSmallStatement) -> bool:
    if isinstance(statement, cst.Expr):
        return isinstance(statement.value, cst.SimpleString)
    if isinstance(statement, cst.Assign):
        is_logger = _name_of(statement.targets[0].target) == "logger"
        return is_logger or _is_type_variable(statement.value)
    if isinstance(statement, cst.AnnAssign):
        is_alias = _name_of(statement.annotation.annotation) == "TypeAlias"
        return is_alias or _name_of(statement.target) == "logger"
    return False


def _is_type_variable(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and _name_of(value.func) == "TypeVar"


def _is_log_call(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and _name_of(node.func.value) == "logger"
    )


def _is_cast(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and _name_of(node.func) == "cast"


def _name_of(node: cst.CSTNode) -> str:
    return node.value if isinstance(node, cst.Name) else ""


def _change(old: str, new: str) -> str:
    """Return what differs between two texts, to whole words."""
    before, after = old.split(), new.split()
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    removed = " ".join(before[start : len(before) - end])
    added = " ".join(after[start : len(after) - end])
    return f"{removed} -> {added}"
