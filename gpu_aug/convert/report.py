"""The report of an import: how each step of a pipeline was converted."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from gpu_aug.convert.registry import Changed, Refused
from gpu_aug.errors import RecipeError
from gpu_aug.image_kind import problem_of_range
from gpu_aug.ops.operation import Operation
from gpu_aug.recipe import find_misfit

Outcome = Literal["kept", "changed", "nothing to do", "refused", "foreign"]
"""Same meaning; a difference that the note names; no operation needed; no equivalent; called unchanged on the CPU."""

# Characters of a step in a report: longer ones fill more than two lines of a terminal.
_LONGEST = 160


@dataclass(frozen=True)
class Line:
    """How one step of a pipeline was converted.

    Attributes:
        path: Path of the step in the pipeline, such as ``Compose > OneOf > GlassBlur``.
        source: The step as its library prints it.
        outcome: "kept": an equivalent operation; "changed": an operation with the differences in the note; "nothing to do": no
            operation is needed; "refused": no equivalent; "foreign": called unchanged on the CPU.
        note: The operation that the step became, or the reason for refusing it and the nearest alternative.
    """

    path: str
    source: str
    outcome: Outcome
    note: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.outcome}" + (f": {self.note}" if self.note else "")


@dataclass
class Walk:
    """State of the conversion of a pipeline, and the results so far.

    Attributes:
        strict: Whether a step without an equivalent is an error at the end; if False, it is called unchanged.
        lines: A line of the report for each step, in order.
        unit: Value of white at this step of the pipeline: 255.0 or 1.0.
        normalized: Whether values can lie outside [0, 1] at this step.
    """

    strict: bool
    lines: list[Line] = field(default_factory=list)
    unit: float = 255.0
    normalized: bool = False

    def add(self, path: str, source: str, outcome: Outcome, note: str = "") -> None:
        """Add a line to the report."""
        text = " ".join(source.split())
        short = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
        self.lines.append(Line(path, short, outcome, note))

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
                self.add(path, source, "changed", f"{found.operation!r}: {found.note}")
            elif found is None:
                self.add(path, source, "nothing to do")
            else:
                self.add(path, source, "kept", repr(found))
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
        if self.strict or foreign is None:
            self.add(path, source, "refused", str(refused))
            return None
        try:
            operation = foreign()
        except RecipeError as error:
            self.add(path, source, "refused", f"{refused}; nor can it run as it is: {error}")
            return None
        self.add(path, source, "foreign", f"runs as it is on the CPU, since {refused}")
        return operation

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
            noted = (line for line in self.lines if f"{line.note}: ".startswith(f"{words}: "))
            if line := next(noted, None):
                path, source = line.path, line.source
                self.lines.remove(line)
        self.add(path, source, "refused", str(error))

    def finish(self, library: str) -> None:
        """Warn of the steps that are called unchanged on the CPU.

        Raises:
            RecipeError: Steps are refused; the error lists them all.
        """
        refused = [line for line in self.lines if line.outcome == "refused"]
        if refused:
            steps = "1 step" if len(refused) == 1 else f"{len(refused)} steps"
            listed = "".join(f"\n  {line.path}: {line.note}" for line in refused)
            raise RecipeError(f"{steps} of the {library} pipeline cannot be imported:{listed}")
        foreign = [line for line in self.lines if line.outcome == "foreign"]
        if foreign:
            listed = "".join(f"\n  {line.path}: {line.note}" for line in foreign)
            warnings.warn(
                f"steps of the {library} pipeline are kept as they are and run on the CPU:{listed}",
                stacklevel=4,  # the caller of Recipe.from_torchvision
            )
