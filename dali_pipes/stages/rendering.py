"""Canvases that our threads render of the rows that a GPU's decoder does not take."""

from concurrent.futures import Future
from dataclasses import dataclass

from dali_pipes.samples.targets import Found
from dali_pipes.stages.canvases import Canvases
from dali_pipes.stages.data import Decoded, Fetched


@dataclass(frozen=True, slots=True)
class Rendering:
    """Canvases that our threads render of rows that another decoder does not.

    Attributes:
        rows: Ascending.
        canvases: Canvases of these rows.
        tasks: What is under way: each gives a row, or the only row that takes its place, and its targets.
    """

    rows: list[int]
    canvases: Canvases
    tasks: list[Future[tuple[Fetched, Found]]]

    def wait(self, decoded: Decoded) -> Decoded:
        """Return a step with what became of these rows, once they are rendered; raise what a thread raised."""
        fetched, found = decoded.fetched, list(decoded.found)
        for row, task in zip(self.rows, self.tasks, strict=True):
            one, found[row] = task.result()
            if one is not decoded.fetched:
                fetched = fetched.replaced(row, one)
        return Decoded(fetched, found)
