"""What launches take: arenas of the size of their batch, and no more than the device gives to one of them."""

from functools import cache

import numpy as np
import pytest
import torch

from dali_pipes.decode.cuda_jpeg.batch import Arenas, Files, LaunchPlan, Planner
from dali_pipes.decode.cuda_jpeg.decoder import launches_of
from dali_pipes.decode.cuda_jpeg.plan import FILE
from dali_pipes.decode.jpeg_batch_kernel import RECT
from dali_pipes.jpeg.seek_points import SeekPoints, find_seek_points
from tests.support.cuda_jpegs import empty_canvases, list_files, size_of, wanted_of
from tests.support.jpegs import encode, picture

SMALL = encode(picture(90, 70), "4:2:0")
LARGE = encode(np.random.default_rng(0).integers(0, 256, (800, 800, 3), np.uint8), "4:4:4", quality=97)  # fmt: skip
GRID_MOST = 65535
"""Blocks of threads in y that CUDA takes."""


class CountingArenas(Arenas):
    """Counts what is taken."""

    num_taken = 0

    def take(self, num_bytes: int) -> torch.Tensor:
        """Return new memory."""
        self.num_taken += 1
        return super().take(num_bytes)


@pytest.fixture
def arenas() -> CountingArenas:
    """New ones."""
    return CountingArenas(pinned=False)


@pytest.fixture
def planner(arenas: CountingArenas) -> Planner:
    """A new one."""
    return Planner(arenas)


@cache
def known_of(data: bytes) -> SeekPoints:
    """What is known of a file."""
    status, rows = find_seek_points(data, 8)
    return SeekPoints(status, 8, rows)


known_size_of = cache(size_of)


def plan(planner: Planner, encoded: list[bytes], *, keep: bool = False) -> LaunchPlan:
    """Plan a crop of each."""
    files = list_files(encoded, [None] * len(encoded), [known_of(data) for data in encoded])
    sizes = [known_size_of(data) for data in encoded]
    files.files["keep"] = keep
    cuts = [(0, 0, 60, 60, 30, 30, 0, 0)] * len(encoded)
    canvases = empty_canvases([(30, 30)] * len(encoded))
    return planner.plan(files, wanted_of(sizes, [cuts], [canvases]))


@pytest.mark.parametrize("keep", [True, False])
def test_a_large_batch_does_not_enlarge_all_later_arenas(planner: Planner, keep: bool) -> None:
    """They shrink again, at once where only files that stay on the device were large."""
    usual = [plan(planner, [SMALL] * 8).arena.numel() for _ in range(4)][-1]
    whole = [encode(picture(60, 60), "4:2:0", quality=q) for q in (40, 90)]
    large = plan(planner, [LARGE] * 8, keep=True) if keep else plan(planner, whole * 4000)
    assert large.arena.numel() > 4 * usual

    later = [plan(planner, [SMALL] * 8).arena.numel() for _ in range(1 if keep else 8)]
    assert later[-1] == usual


def test_nothing_is_planned_twice(planner: Planner, arenas: CountingArenas) -> None:
    """The first arena is as large as the files may need, later ones as batches of that size did."""
    batch = [encode(picture(60, 60), "4:2:0", quality=90)] * 2000
    for _ in range(4):
        arenas.num_taken = 0
        plan(planner, batch)
        assert arenas.num_taken == 1


def test_arenas_are_used_again() -> None:
    """One that was given back serves the next batch, unless it is too small, or much too large."""
    arenas = Arenas(pinned=False)
    first, second = arenas.take(5_000), arenas.take(5_000)
    assert first.data_ptr() != second.data_ptr()
    arenas.give_back(first)
    assert arenas.take(6_000) is first
    for needed in (10_000, 1_000):
        arenas.give_back(second)
        assert arenas.take(needed).numel() >= needed
        assert arenas.take(5_000) is not second


def test_more_tables_take_no_larger_arena(planner: Planner, arenas: CountingArenas) -> None:
    """Only the memory that was short grows."""
    optimised = [encode(picture(60, 60, seed), "4:2:0", optimise=True) for seed in range(12)]
    usual = [plan(planner, optimised[:1]).arena.numel() for _ in range(4)][-1]
    arenas.num_taken = 0
    planned = plan(planner, optimised)

    assert planned.totals["num_tables"][0] == 12
    assert arenas.num_taken > 1
    assert planned.arena.numel() == usual


def _files(count: int, *, num_bytes: int = 100_000, keep: bool = False) -> Files:
    files = np.zeros(count, FILE)
    files["num_bytes"], files["keep"] = num_bytes, keep
    return Files(files, np.empty(0, np.int64), None)


def _parts(count: int, side: int) -> np.ndarray:
    parts = np.zeros(count, RECT)
    parts["height"] = parts["width"] = side
    return parts


def _counts(*asked: object) -> list[int]:
    launches = launches_of(*asked)  # type: ignore[arg-type]
    ends = [last for _, last in launches]
    assert [first for first, _ in launches] == [0, *ends][:-1]
    return [last - first for first, last in launches]


@pytest.mark.parametrize("num_views", [1, 3])
def test_a_launch_has_no_more_rows_than_a_grid(num_views: int) -> None:
    """Batch times views, however small the images are."""
    counts = _counts(_parts(70_000, 8), _files(70_000), num_views)

    assert sum(counts) == 70_000
    assert max(counts) * num_views <= GRID_MOST


def test_a_launch_takes_so_many_bytes_that_stay() -> None:
    """Files that come to stay on the device count, and those that are there do not."""
    count, num_bytes = 128, 6_000_000
    counts = _counts(_parts(count, 64), _files(count, num_bytes=num_bytes, keep=True), 1)

    assert sum(counts) == count
    assert max(counts) * num_bytes < 300_000_000
    assert _counts(_parts(count, 64), _files(count, num_bytes=num_bytes), 1) == [count]


def test_a_step_without_a_file_has_no_launch() -> None:
    """None of its rows is a JPEG."""
    assert _counts(_parts(0, 1), _files(0), 1) == []
