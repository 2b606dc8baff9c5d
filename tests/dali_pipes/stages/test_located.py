"""Steps whose images lie together in memory: rows that are lost or replaced, names of rows, datasets in other ones."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
import torch

from dali_pipes import BadRecord, Execution, Loader
from dali_pipes.errors import DecodeError
from dali_pipes.runs.bad_samples import substitute
from dali_pipes.stages.data import NO_TARGETS, Decoded, Fetched, join
from dali_pipes.stages.encoded_rows import READ, held_view
from dali_pipes.stages.read_located import LocatedReader
from dali_pipes.stages.threads import Workers, steps_for_threads
from gpu_aug import RandomResizedCrop, Recipe
from readers import BadSample, FolderDataset, ListDataset, Sample, TarDataset, mix
from tests.support.small import SmallDataset
from tests.support.tars import write_samples

COUNT = 40


@pytest.fixture
def loader(tmp_path: Path, jpeg: Callable[..., bytes]) -> Loader:
    samples = {
        f"{number:02}": {"jpg": jpeg(20, 30, seed=number), "txt": b"beside"}
        for number in range(COUNT)
    }
    dataset = TarDataset([write_samples(tmp_path / "a.tar", samples)])
    return Loader(
        dataset, Recipe([RandomResizedCrop(8)]), batch_size=COUNT, device="cpu", decoder="cpu",
        num_threads=1, shuffle="none", on_bad_sample="replace", max_bad_samples=COUNT**2,
    )  # fmt: skip


def fetched_by(loader: Loader) -> Fetched:
    return loader._setup.fetcher.fetch(next(iter(loader.steps.plans(0))))


def depth() -> int:
    frame, count = sys._getframe(), 0
    while (frame := frame.f_back) is not None:  # type: ignore[assignment]
        count += 1
    return count


def test_any_number_of_rows_is_replaced(loader: Loader) -> None:
    """Asking for a row takes no more calls within calls, however many rows of its step were replaced."""
    fetched = whole = fetched_by(loader)
    for _ in range(10):
        for row in range(1, COUNT):
            fetched = fetched.replaced(row, whole.rows(row - 1, row))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth() + 60)
    try:
        assert fetched.samples[0] == whole.samples[0]
        assert [bytes(one or b"") for one in fetched.data[1:]] == list(map(bytes, whole.data[:-1]))
        assert fetched.keys[5] == whole.keys[4]
    finally:
        sys.setrecursionlimit(limit)


def test_parts_of_which_a_row_was_lost(loader: Loader) -> None:
    """The other rows of the step are as they were, and no object of them is made."""
    fetched = fetched_by(loader)
    made: list[int] = []
    make: Any = fetched.samples._make  # type: ignore[attr-defined]
    fetched.samples._make = lambda row: made.append(row) or make(row)  # type: ignore[attr-defined]
    parts = [fetched.rows(start, start + 8) for start in range(0, COUNT, 8)]
    instead = loader._setup.fetcher.replace_row(parts[2], 3, DecodeError("it is damaged"))
    parts[2] = parts[2].replaced(3, instead)
    joined = join(fetched, [Decoded(part, [NO_TARGETS] * 8) for part in parts]).fetched
    assert not made
    assert np.flatnonzero([len(one) for one in joined.records]).tolist() == [19]
    assert joined.indices[19] == instead.indices[0]
    assert joined.samples[19] == instead.samples[0]
    assert np.array_equal(np.delete(joined.spans, 19, 0), np.delete(fetched.spans, 19, 0))


def test_rows_are_named_without_their_samples(loader: Loader, tmp_path: Path) -> None:
    """Whoever asks what a thread works on reads nothing, for reading may be what does not end."""
    fetched = fetched_by(loader)
    (tmp_path / "a.tar").write_bytes(b"")
    running: list[str] = []
    recorder = loader._setup.fetcher.recorder
    with recorder.measure("decode", work=fetched.work):
        running += [str(one.work) for one in recorder.running()]
    assert running == ["step 0: a.tar/00, a.tar/01, a.tar/02 and 37 more"]


def test_a_wrapper_that_passes_everything_on_is_asked_for_its_own_samples(loader: Loader) -> None:
    """Only a dataset's class says where images lie, for that of a dataset within another one says it of its own samples."""

    class Wrapper:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __len__(self) -> int:
            return COUNT

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def fetch(self, indices: Any) -> list[Sample | BadSample]:
            samples: list[Any] = self.inner.fetch(indices)
            return [replace(sample, label=7) for sample in samples]

    dataset: Any = Wrapper(loader._setup.fetcher.dataset)
    wrapped = Loader(dataset, Recipe([RandomResizedCrop(8)]), batch_size=COUNT, device="cpu", decoder="cpu", num_threads=1)  # fmt: skip
    [batch] = list(wrapped)
    assert batch.labels.tolist() == [7] * COUNT


@pytest.mark.parametrize("num_bad", [0, 3])
def test_each_sample_counts_once(num_bad: int, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """Also one that has to be read a second time, in the other way, for the reason why it is bad."""
    (tmp_path / "a").mkdir()
    for number in range(8):
        data = jpeg(20, 30, seed=number) if number >= num_bad else b""
        (tmp_path / "a" / f"{number}.jpg").write_bytes(data)
    loader = Loader(
        FolderDataset(tmp_path), Recipe([RandomResizedCrop(8)]), batch_size=8, device="cpu", decoder="cpu",
        num_threads=1, on_bad_sample="skip", max_bad_samples=3,
    )  # fmt: skip
    fetched_by(loader)
    stages = loader._setup.fetcher.recorder.totals().stages
    assert [stages[stage].samples for stage in ("read", "header", "draw")] == [8, 8, 8]
    assert stages["read"].num_bytes == sum(path.stat().st_size for path in tmp_path.rglob("*.jpg"))


def test_finding_the_images_is_a_part_of_reading_them(
    loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that waits for the index of a shard says so, and its time counts."""
    fetcher = loader._setup.fetcher
    dataset: Any = fetcher.dataset
    locate, running = dataset.locate, list[str]()

    def slow(*arguments: Any) -> Any:
        running.extend(one.stage for one in fetcher.recorder.running())
        time.sleep(0.05)
        return locate(*arguments)

    monkeypatch.setattr(type(dataset), "locate", lambda _, *arguments: slow(*arguments))
    fetched_by(loader)
    read = fetcher.recorder.totals().stages["read"]
    assert running == ["read"]
    assert (read.calls, read.samples) == (1, COUNT)
    assert read.seconds > 0.04


@pytest.mark.parametrize("decode", ["exact", "fast"])
def test_a_header_that_was_damaged_after_it_was_indexed(
    tmp_path: Path, jpeg: Callable[..., bytes], decode: Literal["exact", "fast"]
) -> None:
    """Its size is known from the index, so that nobody looks at it before it is decoded; it is bad, and named."""
    samples = {f"{number:02}": {"jpg": jpeg(130, 90, seed=number)} for number in range(4)}
    path = write_samples(tmp_path / "a.tar", samples)
    dataset = TarDataset([path])
    image = bytes(dataset[2].image or b"")
    status, data = path.stat(), path.read_bytes()
    at = data.index(image)
    path.write_bytes(data[:at] + bytes(200) + data[at + 200 :])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    with Loader(
        dataset, Recipe([RandomResizedCrop(8)]), batch_size=4, device="cpu", decoder="cpu",
        shuffle="none", on_bad_sample="skip", execution=Execution(decode=decode), num_threads=1,
    ) as loader:  # fmt: skip
        [batch] = loader
    assert batch.keys == ["a.tar/00", "a.tar/01", "a.tar/03"]
    assert [bad.key for bad in loader.bad_samples] == ["a.tar/02"]


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
    [
        (2, 4, 66, 2),
        (16, 4, 66, 8),
        (16, 1, 17, 32),
        (16, 4, 400, 2),
        (16, 0, 0, 32),
        (2, 4, 236, 1),
    ],
)
def test_steps_ahead(num_threads: int, num_parts: int, megabytes: int, steps: int) -> None:
    """Two parts for each thread; at least two steps, one of large ones, and at most 1 GiB of more."""
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


NUM_GOOD, LENGTH, SEED = 6, 40, 3


@pytest.mark.parametrize("damage", [lambda _: b"", lambda data: data[: len(data) // 2]])
def test_substitutes_are_drawn_as_where_they_stand(
    jpeg: Callable[..., bytes], damage: Callable[[bytes], bytes]
) -> None:
    """In an epoch that has samples several times a substitute has the draws of the position that it is taken from.

    It makes no difference whether the bad sample is noticed when it is read or when it is decoded.
    """
    images = [jpeg(60, 80, seed=number) for number in range(NUM_GOOD)]
    good, bad = (SmallDataset(data, [0] * len(data)) for data in (images, [damage(images[0])]))
    dataset = mix([good, bad], weights=[4, 1], length=LENGTH)
    loader = Loader(
        dataset, Recipe([RandomResizedCrop(16)]), batch_size=LENGTH, seed=SEED, device="cpu", decoder="cpu",
        num_threads=1, on_bad_sample="replace", max_bad_samples=9,
    )  # fmt: skip
    [batch] = list(loader)
    order = loader._setup.fetcher.order
    indices, repeats = order.places(0, torch.arange(LENGTH).numpy())

    replaced = {}
    for row in (indices == NUM_GOOD).nonzero()[0].tolist():
        record: Any = BadRecord("", NUM_GOOD, "decode", "", 0, 0, 0)
        tries = [record]
        while indices[position := substitute(SEED, tries, LENGTH) or 0] == NUM_GOOD:
            tries.append(record)
        replaced[row] = position
    assert len(replaced) == LENGTH // 5
    assert all(repeats[position] > 0 for position in replaced.values())
    for row, position in replaced.items():
        assert batch.indices[row] == indices[position]
        assert torch.equal(batch.images[row], batch.images[position])
        twins = (indices == indices[position]) & (repeats != repeats[position])
        assert not any(
            torch.equal(batch.images[row], batch.images[twin]) for twin in twins.nonzero()[0]
        )
