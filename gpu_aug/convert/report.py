"""The report of an import: how each step of a pipeline was converted."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from textwrap import wrap
from typing import Any, Literal, NamedTuple

from gpu_aug.convert.registry import Changed, Refused
from gpu_aug.convert.translate import FORM, Translations
from gpu_aug.errors import RecipeError
from gpu_aug.image_kind import problem_of_range
from gpu_aug.ops.operation import Operation
from gpu_aug.recipe import Recipe, find_misfit
from gpu_aug.views import Views

Outcome = Literal["kept", "changed", "nothing to do", "refused", "foreign", "translated"]
"""Same meaning; a difference that the note names; no operation needed; no equivalent; called unchanged on the CPU; replaced by
``translate``."""

# Characters of a step in a report: longer ones fill more than two lines of a terminal.
_LONGEST = 160
# Characters of the columns of a table: steps, operations, remarks. The second fits most operations with two arguments.
_WIDTHS = (32, 56, 56)


@dataclass(frozen=True)
class Line:
    """How one step of a pipeline was converted.

    Attributes:
        path: Path of the step in the pipeline, such as ``Compose > OneOf > GlassBlur``.
        source: The step as its library prints it.
        outcome: "kept": an equivalent operation; "changed": an operation with the differences in the note; "nothing to do": no
            operation is needed; "refused": no equivalent; "foreign": called unchanged on the CPU; "translated": replaced by
            ``translate``.
        note: The operation that the step became, or the reason for refusing it and the nearest alternative.
        operation: The operation that the step became, or None.
    """

    path: str
    source: str
    outcome: Outcome
    note: str = ""
    operation: Operation | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.path}: {self.outcome}" + (f": {self.note}" if self.note else "")

    @property
    def remark(self) -> str:
        """How near the result is to the step's own: "exact", "within N/255" (N: tolerance of the operation), or the difference."""
        words = "" if self.operation is None else repr(self.operation)
        note = self.note.removeprefix(words).removeprefix(": ")
        if self.outcome != "kept" or self.operation is None:
            return f"{self.outcome}: {note}" if note else self.outcome
        tolerance = max((leaf.tolerance for leaf in self.operation.leaves), default=0.0)
        return f"within {tolerance:g}/255" if tolerance else "exact"


class Conversion(NamedTuple):
    """The result of `gpu_aug.convert.convert`; ``recipe, lines = convert(pipeline)`` takes it apart, and ``print`` shows a table.

    Attributes:
        recipe: The recipe or the views, or None if a step is refused.
        lines: A line for each step, in order.
    """

    recipe: Recipe | Views | None
    lines: list[Line]

    def __str__(self) -> str:
        rows = [("step", "operation here", "remark"), tuple("-" * width for width in _WIDTHS)]
        for line in self.lines:
            words = "" if line.operation is None else repr(line.operation)
            rows.append((line.path.partition(" > ")[2] or line.path, words, line.remark))
        return "\n".join(text for row in rows for text in _wrapped(row))

    def __repr__(self) -> str:
        refused = sum(line.outcome == "refused" for line in self.lines)
        return f"Conversion({len(self.lines)} steps, {refused} refused: print it for the table)"


def _other_probability(operation: Operation, step: Any) -> str:
    """Return a note if an operation is applied with another probability than the step that it replaces."""
    ours, theirs = getattr(operation, "p", None), getattr(step, "p", None)
    if ours == theirs or not (isinstance(ours, float) and isinstance(theirs, int | float)):
        return ""
    return f"its p is {ours:g}, and that of the step {theirs:g}"


def _wrapped(cells: tuple[str, ...]) -> list[str]:
    """Return the lines of one row of the table."""
    columns = [
        wrap(cell, width, break_on_hyphens=False) or [""]  # a minus is no hyphen
        for cell, width in zip(cells, _WIDTHS, strict=True)
    ]
    return [
        " | ".join(part.ljust(width) for part, width in zip(parts, _WIDTHS, strict=True)).rstrip()
        for parts in zip_longest(*columns, fillvalue="")
    ]


@dataclass
class Walk:
    """State of the conversion of a pipeline, and the results so far.

    Attributes:
        strict: Whether a step without an equivalent is an error at the end; if False, it is called unchanged.
        translations: What replaces steps of the user's own classes and functions.
        lines: A line of the report for each step, in order.
        unit: Value of white at this step of the pipeline: 255.0 or 1.0.
        normalized: Whether values can lie outside [0, 1] at this step.
    """

    strict: bool
    translations: Translations
    lines: list[Line] = field(default_factory=list)
    unit: float = 255.0
    normalized: bool = False

    def add(
        self,
        path: str,
        source: str,
        outcome: Outcome,
        note: str = "",
        operation: Operation | None = None,
    ) -> None:
        """Add a line to the report; the note begins with the operation if there is one."""
        text = " ".join(source.split())
        short = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
        parts = ([] if operation is None else [repr(operation)]) + ([note] if note else [])
        self.lines.append(Line(path, short, outcome, ": ".join(parts), operation))

    def leaf(
        self,
        path: str,
        source: str,
        convert: Callable[[], Operation | Changed | None],
        foreign: Callable[[], Operation] | None = None,
    ) -> Operation | None:
        """Convert one step, add a line to the report, and return the operation.

        The result is None if nothing has to be done or the step is refused. ``foreign`` returns an operation that
        calls the original step, which is not converted.
        """
        try:
            found = convert()
            operation = found.operation if isinstance(found, Changed) else found
            if operation is not None:
                self._check_range(operation)
            if isinstance(found, Changed):
                self.add(path, source, found.outcome, found.note, operation)
            elif found is None:
                self.add(path, source, "nothing to do")
            else:
                self.add(path, source, "kept", operation=operation)
        except Refused as refused:
            return self._refuse(path, source, refused, foreign)
        except RecipeError as error:
            return self._refuse(path, source, Refused(str(error)), foreign)
        if operation is not None and any(leaf.leaves_unit_range for leaf in operation.leaves):
            self.normalized, self.unit = True, 1.0
        return operation

    def refuse(self, path: str, source: str, reason: str, nearest: str = "") -> None:
        """Add a line for a step without an equivalent operation to the report."""
        self.add(path, source, "refused", str(Refused(reason, nearest)))

    def _refuse(
        self,
        path: str,
        source: str,
        refused: Refused,
        foreign: Callable[[], Operation] | None,
    ) -> Operation | None:
        if foreign is None or (self.strict and not refused.runs):
            self.add(path, source, "refused", str(refused))
            return None
        try:
            operation = foreign()
        except RecipeError as error:
            self.add(path, source, "refused", f"{refused}; nor can it run as it is: {error}")
            return None
        self.add(path, source, "foreign", f"runs as it is on the CPU, since {refused}")
        return operation

    def translated(
        self,
        key: Any,
        path: str,
        step: Any,
        convert: Callable[[Any, str], list[Operation]],
        *,
        forced: bool = False,
    ) -> list[Operation]:
        """Return the operations that replace a step by ``translate``, and add lines to the report.

        Args:
            key: The key of ``translate``.
            path: Path of the step.
            step: The step.
            convert: Function that converts a step of the library, given with its path.
            forced: Whether a choice has chosen the step, so that operations get the probability 1.
        """
        operations: list[Operation] = []
        with self.translations.replacing(key, step) as replaced:
            if not replaced:
                self.add(path, repr(step), "nothing to do", "by translate")
            for one in replaced:
                if not isinstance(one, Operation):
                    if callable(one) and not isinstance(one, type):
                        operations += convert(one, f"{path} > {type(one).__name__}")
                    else:
                        self.refuse(path, repr(step), f"translate returned {one!r}", FORM)
                    continue
                made = replace(one, p=1.0) if forced and hasattr(one, "p") else one  # type: ignore[call-arg]
                note = "" if forced else _other_probability(made, step)
                changed = Changed(made, note, "translated")
                if (operation := self.leaf(path, repr(step), lambda it=changed: it)) is not None:  # type: ignore[misc]
                    operations.append(operation)
        return operations

    def refuse_unused(self, root: str) -> None:
        """Refuse keys of ``translate`` that met no step: they may be misspelt, or of another class of the same name."""
        if unused := self.translations.unused():
            steps = sorted({line.path.rpartition(" > ")[2] for line in self.lines})
            self.refuse(
                f"{root} translate",
                str(unused),
                f"no step is or holds {', '.join(unused)}",
                f"one of the steps {', '.join(steps)}, or without it",
            )

    def _check_range(self, operation: Operation) -> None:
        if problem := problem_of_range(operation):
            raise Refused(problem)
        if self.normalized and any(leaf.needs_unit_range for leaf in operation.leaves):
            name = type(operation).__name__
            raise Refused(
                f"{name} needs values in [0, 1], and stands after Normalize",
                f"{name} before Normalize",
            )

    def blame(self, operations: list[Operation], error: RecipeError) -> None:
        """Mark a step as refused, because the recipe could not be made.

        The step is the first one that does not fit the steps before it. Its line in the report becomes the refusal, with the
        text of the error.
        """
        path, source = self.lines[0].path.partition(" > ")[0] if self.lines else "pipeline", ""
        if misfit := find_misfit(operations):
            number, error = misfit
            words = repr(operations[number])
            if any(leaf.group > 1 for leaf in operations[number].leaves):
                # torchvision calls them in collate_fn, apart from the pipeline of the images
                error = RecipeError(
                    f"{error}; import both at once: Recipe.from_torchvision([pipeline of the images, transform that mixes])"
                )
            noted = (line for line in self.lines if f"{line.note}: ".startswith(f"{words}: "))
            if line := next(noted, None):
                path, source = line.path, line.source
                self.lines.remove(line)
        self.add(path, source, "refused", str(error))

    def finish(self, library: str) -> None:
        """Warn of the steps that are called unchanged on the CPU because ``strict`` is off.

        Raises:
            RecipeError: Steps are refused; the error lists them all.
        """
        refused = [line for line in self.lines if line.outcome == "refused"]
        if refused:
            steps = "1 step" if len(refused) == 1 else f"{len(refused)} steps"
            listed = "".join(f"\n  {line.path}: {line.note}" for line in refused)
            raise RecipeError(f"{steps} of the {library} pipeline cannot be imported:{listed}")
        foreign = [line for line in self.lines if line.outcome == "foreign"]
        if foreign and not self.strict:
            listed = "".join(f"\n  {line.path}: {line.note}" for line in foreign)
            warnings.warn(
                f"steps of the {library} pipeline are kept as they are and run on the CPU:{listed}",
                stacklevel=4,  # the caller of Recipe.from_torchvision
            )
