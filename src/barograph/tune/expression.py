"""Constraints between parameters: a small part of Python's expressions, evaluated without `eval`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from barograph.errors import BadSpace, nearest

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class Constraint:
    """A condition that the parameters of every trial meet, such as "width * depth <= 1024".

    Numbers, strings, names of parameters, `+ - * / // %`, comparisons, `and`, `or`, `not`.

    Args:
        text: The condition.
        names: Names of the parameters.

    Raises:
        BadSpace: The text is no such expression, or has an unknown name.

    Example:
        >>> Constraint("width * depth <= 1024", ["width", "depth"]).holds({"width": 256, "depth": 8})
        False
    """

    def __init__(self, text: str, names: Collection[str]) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = error.msg if isinstance(error, SyntaxError) else error
            raise BadSpace(f'The constraint "{text}" is not an expression: {why}.') from None
        self.names = frozenset(_names(self._tree, text))
        for name in sorted(self.names - set(names)):
            raise BadSpace(f'The constraint "{text}" uses {name}, which is not a parameter. {nearest(name, names)}')

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether values meet the condition; True if a parameter of it does not apply or it cannot be computed.

        Args:
            values: Name to value of the parameters that apply.
        """
        if not self.names <= values.keys():
            return True
        try:
            return bool(_value(self._tree, values))
        except (TypeError, ZeroDivisionError, OverflowError):
            return True


def _names(tree: ast.expr, text: str) -> set[str]:
    found: set[str] = set()
    waiting: list[ast.expr] = [tree]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Name():
                found.add(node.id)
            case ast.Constant(value=int() | float() | str()):
                pass
            case ast.BinOp() if type(node.op) in _BINARY:
                waiting += [node.left, node.right]
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                waiting.append(node.operand)
            case ast.BoolOp():
                waiting += node.values
            case ast.Compare() if all(type(op) in _COMPARE for op in node.ops):
                waiting += [node.left, *node.comparators]
            case _:
                raise BadSpace(f'The constraint "{text}" may use names, numbers, strings, + - * / // %, comparisons, '
                               f'and, or, not; it has "{ast.unparse(node)}".')
    return found


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name():
            return values[node.id]
        case ast.Constant():
            return node.value
        case ast.BinOp():
            return _BINARY[type(node.op)](_value(node.left, values), _value(node.right, values))
        case ast.UnaryOp(op=ast.Not()):
            return not _value(node.operand, values)
        case ast.UnaryOp():
            return -_value(node.operand, values)
        case ast.BoolOp():
            parts = (_value(part, values) for part in node.values)
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        case ast.Compare():
            sides = [_value(side, values) for side in (node.left, *node.comparators)]
            return all(_COMPARE[type(op)](one, other)
                       for op, one, other in zip(node.ops, sides, sides[1:], strict=False))
        case _:
            raise TypeError(ast.dump(node))
