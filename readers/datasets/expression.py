"""Evaluate conditions on columns that are written as text: ``label in [1, 2] and height >= 224``.

The language is a small part of Python's expressions, evaluated for all samples at once with NumPy. It has no calls,
attributes or subscripts. Unknown values are -1 in the columns label and num_bytes, 0 in height and width; a column without
any known value is refused. As in Python, the right side of ``and`` and ``or`` is evaluated only for the samples whose result
depends on it. If it has no value for such a sample (a division by zero, a number of more than 64 bits), the condition is
refused with an error that names the first such sample.
"""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.describe import few_of
from readers.python_parser import call_parser
from readers.sample import COLUMNS, ColumnName, SelectionError

_ALLOWED = (
    f"allowed are the columns {', '.join(COLUMNS)}, numbers, + - * / // %, comparisons, "
    "in [...], not in [...], and, or, not"
)
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.remainder,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}


def evaluate(
    text: str, column: Callable[[ColumnName], NDArray[np.int64]], class_names: Sequence[str]
) -> NDArray[np.bool_]:
    """Return, for each sample, whether it fulfils a condition.

    Args:
        text: The condition.
        column: Returns a column by its name, int64 [n]; called once for each column in the text.
        class_names: Name of each class number; these names may be compared with ``label``.

    Returns:
        bool [n].

    Raises:
        SelectionError: The text is not a valid condition, or names no column.
    """
    try:
        tree = call_parser(lambda: ast.parse(text.strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "it is too long or nested"
        raise SelectionError(
            f"the condition {_short(text)} cannot be read ({reason}); {_ALLOWED}"
        ) from None
    evaluator = _Evaluator(text, column, class_names, {})
    try:
        with np.errstate(all="ignore"):  # such values are found and refused by `_computed`
            found = evaluator.truth(tree.body, np.True_)
    except (OverflowError, RecursionError) as error:
        raise SelectionError(
            f"the condition {_short(text)} has a number that is too large or is too nested ({error}); "
            f"columns are whole numbers of 64 bits"
        ) from None
    if not evaluator.known:
        raise SelectionError(f"the condition {_short(text)} names no column; {_ALLOWED}")
    return np.asarray(found, bool)


@dataclass(frozen=True, slots=True)
class _Evaluator:
    text: str
    column: Callable[[ColumnName], NDArray[np.int64]]
    class_names: Sequence[str]
    known: dict[str, NDArray[np.int64]]

    def truth(self, node: ast.expr, among: Any) -> Any:
        """Return the value of a boolean part of the condition, bool [n] or one bool for all samples.

        Args:
            node: Syntax tree of the part.
            among: The samples whose result depends on the part, bool [n] or one bool for all. For other samples, the
                part may have no value, such as after a division by zero.
        """
        if isinstance(node, ast.BoolOp):
            is_and = isinstance(node.op, ast.And)
            result = self.truth(node.values[0], among)
            for value in node.values[1:]:
                open_ = among & (result if is_and else np.logical_not(result))
                join = np.logical_and if is_and else np.logical_or
                result = join(result, self.truth(value, open_))
            return result
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return np.logical_not(self.truth(node.operand, among))
        if isinstance(node, ast.Compare):
            return self._compare(node, among)
        raise self._refused(node, "is not true or false: compare it with something")

    def _compare(self, node: ast.Compare, among: Any) -> Any:
        """Return the value of a chain of comparisons, such as ``224 <= height < 1000``, bool [n] or one bool."""
        result: Any = np.True_
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            among = among & result
            of_label = _is_label(left) or _is_label(right)
            if isinstance(operator, ast.In | ast.NotIn):
                numbers = self._numbers(right, of_label=of_label)
                one = np.isin(
                    self._number(left, among), numbers, invert=isinstance(operator, ast.NotIn)
                )
            elif type(operator) in _COMPARISONS:
                named = of_label and isinstance(operator, ast.Eq | ast.NotEq)
                values = (self._number(side, among, of_label=named) for side in (left, right))
                one = _COMPARISONS[type(operator)](*values)
            else:
                raise self._refused(node, "compares in a way that numbers do not")
            result = np.logical_and(result, one)
            left = right
        return result

    def _number(self, node: ast.expr, among: Any, *, of_label: bool = False) -> Any:
        """Return the value of a numeric part of the condition, a number or an array [n].

        Args:
            node: Syntax tree of the part.
            among: The samples whose result depends on the part, bool [n] or one bool for all.
            of_label: Whether the part is compared with ``label``, so that it may be the name of a class.
        """
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and of_label:
                return self._class_number(node.value)
            if type(node.value) in (int, float):
                return np.int64(node.value) if isinstance(node.value, int) else node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return self._computed(node, among)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._number(node.operand, among)
            return -value if isinstance(node.op, ast.USub) else value
        raise self._refused(node, "is neither a number nor a column")

    def _computed(self, node: ast.BinOp, among: Any) -> Any:
        """Return the value of an arithmetic operation, a number or an array [n].

        Raises:
            SelectionError: The operation has no value for a sample of `among`.
        """
        compute = _ARITHMETIC[type(node.op)]
        left, right = self._number(node.left, among), self._number(node.right, among)
        result = compute(left, right)
        # NumPy lets integers wrap around and divides them by zero to 0, both without an error.
        exact = compute(np.asarray(left, np.float64), np.asarray(right, np.float64))
        is_whole = np.asarray(result).dtype.kind == "i"
        has_none = ~np.isfinite(exact) | ((np.abs(exact) >= 2.0**63) & is_whole)
        wrong = np.flatnonzero(has_none & among)
        if len(wrong):
            is_product = isinstance(node.op, ast.Add | ast.Sub | ast.Mult)
            what = "is too large a number" if is_product else "is divided by zero"
            where = f" for {len(wrong):,} samples, the first of them {wrong[0]}" * bool(
                np.ndim(has_none & among)
            )
            raise self._refused(node, f"has no value{where} (it {what}): leave these out with and")
        return result

    def _numbers(self, node: ast.expr, *, of_label: bool) -> NDArray[Any]:
        """Return the numbers in a list after ``in``; class names count as numbers if the left side is ``label``."""
        if not isinstance(node, ast.List | ast.Tuple | ast.Set):
            raise self._refused(node, "is not a list of numbers")
        if any(isinstance(part, ast.Name) for item in node.elts for part in ast.walk(item)):
            raise self._refused(node, "has columns in it: a list holds numbers")
        return np.array([self._number(item, np.True_, of_label=of_label) for item in node.elts])

    def _named(self, node: ast.Name) -> NDArray[np.int64]:
        name = node.id
        if name not in COLUMNS:
            raise self._refused(node, "is not a column")
        if name not in self.known:
            values = self.column(name)
            if values.max(initial=-1) < (1 if name in ("height", "width") else 0):
                raise SelectionError(
                    f"the condition {_short(self.text)} asks for {name}, which the data does not say of any "
                    f"sample without reading it; leave it out, or give a truth for each sample"
                )
            self.known[name] = values
        return self.known[name]

    def _class_number(self, name: str) -> np.int64:
        if name in self.class_names:
            return np.int64(list(self.class_names).index(name))
        if not self.class_names:
            raise SelectionError(
                f"the condition {_short(self.text)} names the class {name!r}, but the data does not name "
                f"its classes; give the number of the class"
            )
        raise SelectionError(
            f"the condition {_short(self.text)} names the class {name!r}, which there is not; the classes "
            f"are {few_of(self.class_names, 10)}"
        )

    def _refused(self, node: ast.expr, why: str) -> SelectionError:
        part = ast.get_source_segment(self.text.strip(), node) or type(node).__name__
        return SelectionError(
            f"{_short(part)} in the condition {_short(self.text)} {why}; {_ALLOWED}"
        )


def _is_label(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "label"


def _short(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:200] + "...")
