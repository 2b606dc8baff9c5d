"""Draws that are made in advance, so that consecutive calls share the cost of drawing and of making programs."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gpu_aug.draw_operations import draw_operations, slot_numbers
from gpu_aug.draws import Draws
from gpu_aug.engines.fused.compile.plan import Plan
from gpu_aug.engines.fused.prepared import PreparedPrograms, fits_all_sizes, prepare
from gpu_aug.recipe import Recipe
from gpu_aug.resampling.crops import Cut, compose_crops, cuts_of
from gpu_aug.transform.numbering import Run

_BLOCK = 128  # calls that share the fixed cost of drawing
_MAX_KEPT = 4  # blocks, and in each block sizes of images; for threads that take blocks in turn
# Calls after which a size is forgotten. Preparing all calls of a block takes as long as preparing 3 to 7 of them one by one, and a
# size that comes back after 8 calls or fewer is likely to come back that often.
_RECENT = 8

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

    The draw of a call depends only on its run, its number and the image's size. Random numbers are made for a block of calls.
    So is the batch stage, whatever the sizes of the images, if the decode stage always gives one size, or if the programs
    fit all sizes. What depends on the size is prepared for a block as soon as a size comes back within a few calls, and for
    single calls before.

    Args:
        recipe: The recipe, without temporal operations.
        plan: The fused engine's plan of the recipe on the CPU.
        view: Index of the view that is drawn.
    """

    def __init__(self, recipe: Recipe, plan: Plan, view: int) -> None:
        self.recipe, self.plan, self.view = recipe, plan, view
        self.fit_all = recipe.decode_size is None and fits_all_sizes(plan)
        self._blocks: dict[tuple[Run, int], _Block] = {}
        self._recent: tuple[Size, ...] = ()

    def get(self, run: Run, number: int, size: Size, *, alone: bool = False) -> Drawn | None:
        """Return the prepared stages of a call, or None if the fused engine needs several passes for it.

        Args:
            run: Run of the call.
            number: Number of the call in its run.
            size: Height and width of the image.
            alone: Whether calls with the next numbers are not expected to follow.
        """
        comes_back = size in self._recent
        self._recent = (*self._recent[1 - _RECENT :], size)
        if alone:
            return _Block(self, run, number, 1, size).drawn(0, size, all_rows=False)
        row = number % _BLOCK
        key = run, number - row
        block = self._blocks.get(key)
        if block is None:
            block = _Block(self, *key, _BLOCK, size)
            self._blocks = _with(self._blocks, key, block)
        return block.drawn(row, size, all_rows=comes_back)

    def draws(self, run: Run, number: int, size: Size) -> Draws:
        """Return the draws of a call that `get` was called for."""
        row = number % _BLOCK
        block = self._blocks.get((run, number - row))
        if block is None:
            return _Block(self, run, number, 1, size).draws(slice(None), size)
        return block.drawn_row(row, size, all_rows=self._recent.count(size) > 1)


class _Block:
    """Consecutive calls that are prepared together.

    Args:
        ahead: What they are prepared for.
        run: Run of the calls.
        start: Number of the first call.
        count: Number of calls.
        size: Height and width of some image of these calls.
    """

    def __init__(self, ahead: DrawnAhead, run: Run, start: int, count: int, size: Size) -> None:
        recipe = self._recipe = ahead.recipe
        self._plan, self._count = ahead.plan, count
        indices = run.first + run.step * np.arange(start, start + count)
        groups = np.zeros_like(indices)  # nothing is mixed
        self._numbers = [
            *slot_numbers(recipe.operations, run.seed, run.epoch, indices, groups, view=ahead.view)
        ]
        self._draws: dict[Size, Draws] = {}
        self._sized: dict[Size, tuple[PreparedPrograms | None, list[Cut]]] = {}
        self._shares_programs = ahead.fit_all or recipe.decode_size is not None
        self._programs: PreparedPrograms | None = None
        if self._shares_programs and not self._plan.reads_images:
            draws = self.draws(slice(None), size)
            if ahead.fit_all:
                canvas = np.ones((count, 2), np.int32)
                draws = replace(draws, crops=replace(draws.crops, canvas=canvas))
            self._programs = prepare(ahead.plan, draws, fit_all=ahead.fit_all)

    def draws(self, rows: slice, size: Size) -> Draws:
        """Return the draws of some rows for images of one size."""
        count = len(range(self._count)[rows])
        return self._recipe.draw_from(
            iter([each[rows] for each in self._numbers]), np.full((count, 2), size)
        )

    def drawn_row(self, row: int, size: Size, *, all_rows: bool) -> Draws:
        """Return the draws of a row; ``all_rows`` makes those of all rows for this size, for later calls."""
        made = self._draws.get(size)
        if made is None and not all_rows:
            return self.draws(slice(row, row + 1), size)
        if made is None:
            made = self.draws(slice(None), size)
            self._draws = _with(self._draws, size, made)
        return made.rows(row, row + 1)

    def drawn(self, row: int, size: Size, *, all_rows: bool) -> Drawn | None:
        """Return the prepared stages of a row; ``all_rows`` prepares all rows for this size, for later calls."""
        at, made = row, self._sized.get(size)
        if made is None and all_rows:
            made = self._made(slice(None), size)
            self._sized = _with(self._sized, size, made)
        elif made is None:
            at, made = 0, self._made(slice(row, row + 1), size)
        programs, cuts = made
        if programs is None:
            return None
        return Drawn(cuts[at], programs, row if self._shares_programs else at)

    def _made(self, rows: slice, size: Size) -> tuple[PreparedPrograms | None, list[Cut]]:
        """Return the programs of the batch stage, of all rows if they are shared, and the crops of some rows."""
        if self._plan.reads_images:
            return None, []
        if not self._shares_programs:
            draws = self.draws(rows, size)
            return prepare(self._plan, draws), cuts_of(draws.crops)
        recipe, count = self._recipe, len(range(self._count)[rows])
        if not recipe.decode_operations:
            cut = Cut((0, 0), size, size, (0, 0), size, recipe.antialias, is_plain=True)
            return self._programs, [cut] * count
        sizes = np.full((count, 2), size)
        # The decode stage draws from the first slots.
        numbers = iter([each[rows] for each in self._numbers])
        params, _ = draw_operations(recipe.decode_operations, numbers, sizes)
        return self._programs, cuts_of(compose_crops(params, sizes, antialias=recipe.antialias))


def _with(kept: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    """Return a dictionary of the last _MAX_KEPT entries and a new one; other threads may read the old dictionary."""
    return {**dict([*kept.items()][1 - _MAX_KEPT :]), key: value}
