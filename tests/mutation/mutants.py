"""Small faults in Python code, one at a time: mutants of a module.

Each is a change of the source text at one place, so that the rest, and the numbers of
the lines, stay as they are.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

Change = tuple[str, ast.AST, str]
"""The kind of mutant, the node that is replaced, and the text in its place."""

_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_MOVED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_OTHER: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_REMOVED = (
    ast.Assert,
    ast.AugAssign,
    ast.Break,
    ast.Continue,
    ast.Delete,
    ast.Raise,
)
_SILENT = ("stacklevel", "daemon", "name")
"""Arguments whose values no test is meant to see."""


@dataclass(frozen=True)
class Mutant:
    """One change of a module.

    Attributes:
        path: of the module, in its package.
        line: where the change is, from 1.
        kind: of change.
        original: the text of the module.
        mutated: the same with the change.
    """

    path: str
    line: int
    kind: str
    original: str
    mutated: str

    @property
    def place(self) -> str:
        """The module and the line."""
        return f"{self.path}:{self.line}"

    @property
    def change(self) -> str:
        """The lines that differ, without the lines around them."""
        lines = difflib.unified_diff(
            self.original.splitlines(), self.mutated.splitlines(), n=0, lineterm=""
        )
        return "\n".join(line for line in list(lines)[2:] if line[:2] != "@@")


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of their lines.

    Args:
        path: of the module, in its package.
        source: its text.
    """
    tree = ast.parse(source)
    offsets = _offsets(source)
    data = source.encode()
    found = []
    for kind, node, text in _changes(tree):
        begin = offsets[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = offsets[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        mutated = (data[:begin] + text.encode() + data[end:]).decode()
        if _differs(tree, mutated):
            line = node.lineno  # type: ignore[attr-defined]
            found.append(Mutant(path, line, kind, source, mutated))
    return sorted(found, key=lambda mutant: mutant.line)


def _offsets(source: str) -> list[int]:
    """The byte at which each line begins."""
    offsets = [0]
    for line in source.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return offsets


def _differs(tree: ast.Module, mutated: str) -> bool:
    try:
        return ast.dump(ast.parse(mutated)) != ast.dump(tree)
    except SyntaxError:
        return False


def _changes(tree: ast.Module) -> Iterator[Change]:
    for node in _visited(tree):
        if isinstance(node, ast.expr):
            yield from _of_expression(node)
        elif isinstance(node, ast.stmt):
            yield from _of_statement(node)


def _visited(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes whose change could matter to a test."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_alone(child):
                yield child
                yield from _visited(child)


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.keyword):
        return node.arg in _SILENT
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.Assign):
        names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        return "__all__" in names
    return False


def _of_expression(node: ast.expr) -> Iterator[Change]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for kind, table in (("comparison negated", _NEGATED), ("bound moved", _MOVED)):
            if (other := table.get(type(node.ops[0]))) is not None:
                yield kind, node, _text(ast.Compare(node.left, [other()], _right(node)))
    elif isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            for kind, table in (
                ("comparison negated", _NEGATED),
                ("bound moved", _MOVED),
            ):
                if (other := table.get(type(op))) is not None:
                    ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
                    yield kind, node, _text(ast.Compare(node.left, ops, _right(node)))
    elif isinstance(node, ast.BoolOp):
        op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or swapped", node, _text(ast.BoolOp(op, node.values))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not dropped", node, _text(node.operand)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OTHER:
        op = _OTHER[type(node.op)]()
        yield "operator changed", node, _text(ast.BinOp(node.left, op, node.right))
    elif isinstance(node, ast.IfExp):
        swapped = ast.IfExp(node.test, node.orelse, node.body)
        yield "branches swapped", node, _text(swapped)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)


def _right(node: ast.Compare) -> list[ast.expr]:
    return node.comparators


def _of_constant(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield "constant changed", node, repr(not node.value)
    elif isinstance(node.value, int | float):
        for step in (1, -1):
            yield "constant changed", node, f"({node.value + step!r})"


def _of_statement(node: ast.stmt) -> Iterator[Change]:
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Call):
            yield "call removed", node, "pass"
    elif isinstance(node, _REMOVED):
        yield "statement removed", node, "pass"
    elif isinstance(node, ast.Assign):
        if not all(isinstance(target, ast.Name) for target in node.targets):
            yield "statement removed", node, "pass"
    elif isinstance(node, ast.Return):
        yield from _of_return(node)
    elif isinstance(node, ast.If):
        for value in ("True", "False"):
            yield "condition fixed", node.test, value


def _of_return(node: ast.Return) -> Iterator[Change]:
    value = node.value
    if value is None:
        yield "statement removed", node, "pass"
    elif isinstance(value, ast.Constant) and value.value is None:
        yield "return value replaced", node, "return 1"
    else:
        yield "return value replaced", node, "return None"


def _text(node: ast.expr) -> str:
    """In parentheses: what stands around it may bind more tightly."""
    return f"({ast.unparse(ast.fix_missing_locations(node))})"
