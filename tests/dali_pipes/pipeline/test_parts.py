"""How the rows of a step are divided among threads, and whose memory their files have."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_pipes.pipeline.encoded import READ, held_view
from dali_pipes.pipeline.read_located import LocatedReader
from dali_pipes.pipeline.threads import Workers, steps_for_threads
from readers import ListDataset


@pytest.mark.parametrize(
    ("count", "size", "images_per_row", "group", "parts"),
    [
        (0, (375, 500), 1, 4, []),
        (1, (375, 500), 1, 4, [1]),
        (64, (375, 500), 1, 4, [64]),
        (65, (375, 500), 1, 4, [36, 29]),  # halves, which hold whole groups of four
        (256, (375, 500), 1, 4, [64] * 4),
        (32, (1080, 1920), 1, 4, [4] * 8),  # two megapixels each: five would do
        (6, (3000, 4000), 1, 4, [4, 2]),  # a group is never divided
        (20, (128, 128), 16, 1, [4] * 5),  # clips of 16 frames
    ],
)
def test_parts(
    count: int, size: tuple[int, int], images_per_row: int, group: int, parts: list[int]
) -> None:
    """At most 64 images, and as many pixels as 64 of 500x375, in equal parts without a gap."""
    workers: Any = SimpleNamespace(_times=images_per_row, _group=group)

    class Step(SimpleNamespace):
        sizes = np.tile(size, (count, 1))

        def __len__(self) -> int:
            return count

    found = Workers.parts(workers, Step())  # type: ignore[arg-type]
    assert [stop - start for start, stop in found] == parts
    bounds = [0, *(stop for _, stop in found)]
    assert [start for start, _ in found] == bounds[:-1]
    assert bounds[-1] == count


@pytest.mark.parametrize(
    ("num_threads", "num_parts", "megabytes", "steps"),
    [(2, 4, 66, 2), (16, 4, 66, 8), (16, 1, 17, 32), (16, 4, 400, 2), (16, 0, 0, 32)],
)
def test_steps_ahead(num_threads: int, num_parts: int, megabytes: int, steps: int) -> None:
    """Two parts for each thread; at least two steps, and at most 1 GiB of more."""
    assert steps_for_threads(num_threads, num_parts, megabytes << 20) == steps


def test_memory_is_used_again_once_nobody_looks_at_it(tmp_path: Path) -> None:
    """A view of one file keeps the memory of its step."""
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(bytes([number + 1]) * 1000)
    files = ListDataset([tmp_path / f"{number}.jpg" for number in range(3)])
    reader = LocatedReader()

    def read() -> tuple[int, memoryview]:
        located = files.locate(np.arange(3), lambda _: False)
        assert located is not None
        images = reader.read(located, np.full(3, READ, np.uint8))
        view = held_view(images.arenas, *images.spans[1])
        assert isinstance(view, memoryview)
        return images.arenas[0].__array_interface__["data"][0], view

    read()  # tells how long files are
    first, held = read()
    second, other = read()
    assert second != first
    assert bytes(held) == bytes(other) == b"\2" * 1000
    assert not reader._free
    del held
    assert len(reader._free) == 1
    third, _ = read()
    assert third == first
    (tmp_path / "1.jpg").unlink()
    os.mkfifo(tmp_path / "1.jpg")  # is not waited for, and is read by nobody
    located = files.locate(np.arange(3), lambda _: False)
    assert located is not None
    assert reader.read(located, np.full(3, READ, np.uint8)).states.tolist() == [READ, 0, READ]
