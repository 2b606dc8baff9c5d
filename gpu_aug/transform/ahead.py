"""Draws that are made in advance, so that consecutive calls share the cost of drawing and of making programs."""

from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draw_operations import draw_operations, slot_numbers
from gpu_aug.engines.fused.compile.plan import Plan
from gpu_aug.engines.fused.prepared import PreparedPrograms, prepare
from gpu_aug.recipe import Recipe
from gpu_aug.resampling.crops import Cut, compose_crops, cuts_of
from gpu_aug.transform.numbering import Run

_BLOCK = 128  # calls that share the fixed cost of drawing
_MAX_KEPT = 4  # blocks, and in each block sizes of images; for threads that take blocks in turn

Size = tuple[int, int]


class Drawn(NamedTuple):
    """The prepared stages of a call.

    Attributes:
        cut: Crop of the decode stage.
        programs: Programs of the batch stages of several calls.
        row: The call's row in ``programs``.
    """

    cut: Cut
    programs: PreparedPrograms
    row: int


class DrawnAhead:
    """Prepares calls of a transform with plain images, many at once.

    The draw of a call depends only on its run, its number and the image's size. If the decode stage always gives one
    size, the batch
    stage is prepared for a block of calls, whatever the sizes of their images. The decode stage is prepared for a block
    as soon as two consecutive images have one size, and for single calls before.

    Args:
        recipe: The recipe, without temporal operations.
        plan: The fused engine's plan of the recipe on the CPU.
        view: Index of the view that is drawn.
    """

    def __init__(self, recipe: Recipe, plan: Plan, view: int) -> None:
        self._recipe, self._plan, self._view = recipe, plan, view
        self._blocks: dict[tuple[Run, int, Size | None], _Block | None] = {}
        self._last: Size | None = None

    def get(self, run: Run, number: int, size: Size, *, alone: bool = False) -> Drawn | None:
        """Return the prepared stages of a call, or None if the fused engine needs several passes for it.

        Args:
            run: Run of the call.
            number: Number of the call in its run.
            size: Height and width of the image.
            alone: Whether calls with the next numbers are not expected to follow.
        """
        last, self._last = self._last, size
        again = size == last and not alone
        start, row = number - number % _BLOCK, number % _BLOCK
        if alone or (self._recipe.decode_size is None and not again):
            block, row = self._made(run, number, 1, size), 0
        else:
            block = self._block(run, start, size if self._recipe.decode_size is None else None)
        if block is None:
            return None
        return Drawn(block.cut(row, size, all_rows=again), block.programs, row)

    def _block(self, run: Run, start: int, size: Size | None) -> "_Block | None":
        key = (run, start, size)
        if key not in self._blocks:
            made = self._made(run, start, _BLOCK, size or (1, 1))
            self._blocks = {**dict([*self._blocks.items()][1 - _MAX_KEPT :]), key: made}
        return self._blocks[key]

    def _made(self, run: Run, start: int, count: int, size: Size) -> "_Block | None":
        indices = run.first + run.step * np.arange(start, start + count)
        sizes = _tiled(size, count)
        draws = self._recipe.draw(run.seed, run.epoch, indices, sizes, view=self._view)
        programs = prepare(self._plan, draws)
        if programs is None:
            return None
        return _Block(self._recipe, run, indices, programs, self._view)


class _Block:
    """Consecutive calls that are prepared together.

    Attributes:
        programs: Programs of their batch stages.
    """

    def __init__(
        self,
        recipe: Recipe,
        run: Run,
        indices: NDArray[np.int64],
        programs: PreparedPrograms,
        view: int,
    ) -> None:
        self.programs = programs
        self._recipe = recipe
        groups = np.zeros_like(indices)  # nothing is mixed
        numbers = slot_numbers(recipe.operations, run.seed, run.epoch, indices, groups, view=view)
        slots = chain.from_iterable(operation.slots for operation in recipe.decode_operations)
        self._numbers = [next(numbers) for _ in slots]
        self._cuts: dict[Size, list[Cut]] = {}

    def cut(self, row: int, size: Size, *, all_rows: bool) -> Cut:
        """Return the crop of a row's decode stage; ``all_rows`` draws the crops of all rows, for later calls."""
        cuts = self._cuts.get(size)
        if cuts is not None:
            return cuts[row]
        if not all_rows:
            return self._drawn(slice(row, row + 1), size)[0]
        cuts = self._drawn(slice(None), size)
        self._cuts = {**dict([*self._cuts.items()][1 - _MAX_KEPT :]), size: cuts}
        return cuts[row]

    def _drawn(self, rows: slice, size: Size) -> list[Cut]:
        numbers = [each[rows] for each in self._numbers]
        count = len(range(*rows.indices(len(self.programs.sizes))))
        sizes = _tiled(size, count)
        params, _ = draw_operations(self._recipe.decode_operations, iter(numbers), sizes)
        return cuts_of(compose_crops(params, sizes, antialias=self._recipe.antialias))


def _tiled(size: Size, count: int) -> NDArray[np.int64]:
    return np.tile(np.array(size, np.int64), (count, 1))
