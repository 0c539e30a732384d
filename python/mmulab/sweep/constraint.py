"""Constraints between the axes of a sweep: expressions that are parsed and never executed as Python.

`entries % ways == 0 and policy != "hugetlb-2m"`: comparisons, arithmetic, `and`, `or`, `not`, `in`, and the names of
axes. A sweep file may come from another person. So calls, attributes, subscripts and powers are refused.
"""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from mmulab import UserError

# A value of an axis.
Value = str | int | float | bool

ALLOWED = "comparisons, + - * / // %, and, or, not, in, numbers, texts and names of axes"
# Deeper than any constraint that a person writes, and far from the depth at which Python's stack ends.
LENGTH_MAX = 1000

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_EQUAL: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Constraint:
    """A condition that every job of a sweep meets."""

    def __init__(self, text: str, place: str, names: Iterable[str]) -> None:
        """`place`: where the file has it. Raises UserError if it is not an expression over `names`."""
        self.text, self.place = text, place
        if len(text) > LENGTH_MAX:
            raise self._error(f"the constraint has {len(text)} characters; give at most {LENGTH_MAX}")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            reason = getattr(error, "msg", "") or "it cannot be parsed"
            raise self._error(f"{text!r} is not an expression: {reason}") from None
        self._check(self._tree, sorted(names))

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether a job with these values meets it. Raises UserError where it has no truth value."""
        found = self._value(self._tree, values)
        if not isinstance(found, bool):
            raise self._error(f"{self.text!r} is {found!r} and neither true nor false", "write a comparison")
        return found

    def _error(self, message: str, remedy: str = "") -> UserError:
        return UserError(f"{self.place}: {message}\nhint: {remedy or f'a constraint may have {ALLOWED}'}")

    def _check(self, node: ast.expr, names: list[str]) -> None:
        """Refuses what is not allowed before any job is made."""
        inner: list[ast.expr] = []
        match node:
            case ast.BoolOp():
                inner = node.values
            case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd()):
                inner = [node.operand]
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                inner = [node.left, node.right]
            case ast.Compare() if all(type(op) in {*_EQUAL, *_ORDER, ast.In, ast.NotIn} for op in node.ops):
                inner = [node.left]
                for op, right in zip(node.ops, node.comparators, strict=True):
                    listed = isinstance(op, ast.In | ast.NotIn)
                    if listed and not isinstance(right, ast.List | ast.Tuple):
                        raise self._error(
                            "`in` needs a list", 'write, for example, policy in ["linux-4k", "linux-thp"]'
                        )
                    inner += right.elts if isinstance(right, ast.List | ast.Tuple) and listed else [right]
            case ast.Constant(value=str() | int() | float()):
                pass
            case ast.Name():
                if node.id not in names:
                    near = get_close_matches(node.id, names, 1)
                    meant = f"did you mean {near[0]}? " if near else ""
                    raise self._error(f"no axis is named {node.id!r}", f"{meant}axes: {', '.join(names)}")
            case _:
                raise self._error(f"{ast.unparse(node)!r} is not allowed in a constraint")
        for each in inner:
            self._check(each, names)

    def _value(self, node: ast.expr, values: Mapping[str, Value]) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return values[node.id]
            case ast.BoolOp():
                # Python's rule: the first operand that decides ends it.
                decides = isinstance(node.op, ast.Or)
                return decides if any(self._truth(part, values) is decides for part in node.values) else not decides
            case ast.UnaryOp(op=ast.Not()):
                return not self._truth(node.operand, values)
            case ast.UnaryOp():
                return _SIGNS[type(node.op)](self._number(node.operand, values))
            case ast.BinOp():
                return self._arithmetic(node, values)
            case ast.Compare():
                return self._comparison(node, values)
        raise AssertionError(f"{ast.dump(node)} passed the check")

    def _truth(self, node: ast.expr, values: Mapping[str, Value]) -> bool:
        found = self._value(node, values)
        if not isinstance(found, bool):
            raise self._error(f"{ast.unparse(node)!r} is {found!r} and neither true nor false", "write a comparison")
        return found

    def _number(self, node: ast.expr, values: Mapping[str, Value]) -> int | float:
        found = self._value(node, values)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self._error(f"{ast.unparse(node)!r} is {found!r} and not a number", "calculate with numbers only")
        return found

    def _arithmetic(self, node: ast.BinOp, values: Mapping[str, Value]) -> Any:
        left, right = self._number(node.left, values), self._number(node.right, values)
        try:
            return _ARITHMETIC[type(node.op)](left, right)
        except (ZeroDivisionError, OverflowError) as error:
            shown = f"{ast.unparse(node)!r} for {left!r} and {right!r}: {error}"
            raise self._error(shown, "exclude these values from the axis") from None

    def _comparison(self, node: ast.Compare, values: Mapping[str, Value]) -> bool:
        left = self._value(node.left, values)
        for op, part in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In | ast.NotIn):
                assert isinstance(part, ast.List | ast.Tuple)
                found = [self._value(each, values) for each in part.elts]
                is_met = any(_alike(left, each) and left == each for each in found) is isinstance(op, ast.In)
                right = left
            else:
                right = self._value(part, values)
                if not _alike(left, right) or (type(op) in _ORDER and isinstance(left, bool)):
                    shown = f"{ast.unparse(node)!r} compares {left!r} with {right!r}"
                    raise self._error(shown, "compare numbers with numbers and texts with texts")
                is_met = (_EQUAL.get(type(op)) or _ORDER[type(op)])(left, right)
            if not is_met:
                return False
            left = right
        return True


def _alike(left: Any, right: Any) -> bool:
    """Whether both are numbers, both texts, or both truth values."""
    kinds = [bool if isinstance(v, bool) else str if isinstance(v, str) else float for v in (left, right)]
    return kinds[0] is kinds[1]
