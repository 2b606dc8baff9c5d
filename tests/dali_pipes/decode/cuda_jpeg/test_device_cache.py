"""cache="device": what was uploaded once is not uploaded again, and no batch is another one; the kernels are on the CPU."""

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from dali_pipes import Execution, Loader, LoaderError
from dali_pipes.decode.cuda_jpeg import device_cache
from dali_pipes.decode.cuda_jpeg.batch import LaunchPlan, launch
from dali_pipes.decode.cuda_jpeg.device_cache import DeviceCache
from dali_pipes.decode.cuda_jpeg.plan import FILE
from gpu_aug import RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from tests.support.cuda_jpegs import baseline_jpeg, on_the_cpu, write_baseline_jpegs

COUNT = 24
RECIPE = Recipe([RandomResizedCrop(32)])


@pytest.fixture(autouse=True)
def free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Loaders take the kernels of the CPU, whose "device" has so much free memory."""
    found = [1 << 40]
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(device_cache, "free_bytes", lambda _: found[0])
    monkeypatch.setattr(device_cache, "PIECE_BYTES", 1 << 14)
    with on_the_cpu():
        yield found


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Baseline JPEGs of all samplings, some with restart markers, of several sizes."""
    return write_baseline_jpegs(tmp_path / "data", COUNT)


def loader_of(dataset: Dataset, decoder: str = "cuda", **options: Any) -> Loader:
    """Steps of 8, several of them under way at once."""
    if decoder == "cuda":
        options["execution"] = replace(options.get("execution", Execution()), cache="device")
    usual: Any = {"batch_size": 8, "device": "cpu", "seed": 3, "num_threads": 2}
    return Loader(dataset, RECIPE, decoder=decoder, **(usual | options))  # type: ignore[arg-type]


def epoch(loader: Loader) -> torch.Tensor:
    """All pictures of an epoch."""
    return torch.cat([batch.images for batch in loader])


class Uploads:
    """What launches upload of files: bytes for themselves, and bytes that stay."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []

    def __call__(self, planned: LaunchPlan, *rest: Any) -> Any:
        """Launch, and note it."""
        total = planned.totals[0]
        self.found.append((int(total["tables_at"] - total["data_at"]), int(total["fresh"])))
        return launch(planned, *rest)

    def take(self) -> tuple[int, int]:
        """Those since the last time, together."""
        found, self.found = self.found, []
        return tuple(np.sum(found, axis=0).tolist())  # type: ignore[return-value]


@pytest.fixture
def uploads() -> Iterator[Uploads]:
    """Told by all launches."""
    told = Uploads()
    with patch("dali_pipes.decode.cuda_jpeg.decoder.launch", told):
        yield told


def test_later_epochs_upload_no_bytes_of_files(photos: Path, uploads: Uploads) -> None:
    """Crops differ from epoch to epoch, and batches are those of the CPU in each."""
    dataset = open_dataset(photos)
    ours, theirs = loader_of(dataset), loader_of(dataset, "cpu")
    found = []
    for _ in range(3):
        assert torch.equal(epoch(ours), epoch(theirs))
        found.append(uploads.take())

    scans = sum(path.stat().st_size for path in photos.rglob("*.jpg"))
    assert found[0][0] == 0
    assert 0.5 * scans < found[0][1] < scans + 16 * COUNT
    assert found[1:] == [(0, 0)] * 2


@pytest.mark.parametrize(("pieces", "some"), [(0, False), (2, True)])
def test_what_does_not_fit_is_uploaded_each_time(
    pieces: int, some: bool, photos: Path, uploads: Uploads, free: list[int]
) -> None:
    """As much memory stays free as is taken; what came first stays, and batches are those of the CPU."""
    free[0] = device_cache.PIECE_BYTES * (2 * pieces + 1)
    monkeyed = free_less(free)
    dataset = open_dataset(photos)
    ours, theirs = loader_of(dataset), loader_of(dataset, "cpu")
    with patch.object(device_cache.DeviceCache, "_room", monkeyed):
        for number in range(3):
            assert torch.equal(epoch(ours), epoch(theirs))
            alone, staying = uploads.take()
            if number:
                assert alone > 0
                assert staying == 0
    cache = ours._production.cache
    assert cache is not None
    assert cache.is_full
    assert cache.num_bytes <= pieces * device_cache.PIECE_BYTES
    assert (0 < cache.num_files < COUNT) == some


def free_less(free: list[int]) -> Any:
    """Room that is taken from what is free."""
    room = DeviceCache._room

    def less(self: DeviceCache, num_bytes: int) -> torch.Tensor | None:
        before = self.num_bytes
        found = room(self, num_bytes)
        free[0] -= self.num_bytes - before
        return found

    return less


def test_a_changed_file_is_uploaded_anew(photos: Path, uploads: Uploads) -> None:
    """Its pixels are those of its new bytes, and the others are not uploaded again."""
    dataset = open_dataset(photos)
    ours, theirs = loader_of(dataset), loader_of(dataset, "cpu")
    assert torch.equal(epoch(ours), epoch(theirs))
    uploads.take()
    changed = photos / "0" / "003.jpg"
    changed.write_bytes(baseline_jpeg(3, seed=100))

    assert torch.equal(epoch(ours), epoch(theirs))
    alone, staying = uploads.take()
    assert alone == 0
    assert 0 < staying <= changed.stat().st_size + 16
    assert torch.equal(epoch(ours), epoch(theirs))
    assert uploads.take() == (0, 0)


def test_loops_that_are_left_keep_nothing_that_was_not_uploaded(photos: Path) -> None:
    """Steps that were planned and never launched are uploaded by later ones; after close all begins anew."""
    dataset = open_dataset(photos)
    ours = loader_of(dataset, batch_size=2, execution=Execution(prefetch=3))
    theirs = loader_of(dataset, "cpu", batch_size=2)
    cache = ours._production.cache
    assert cache is not None
    for loader in (ours, theirs):
        assert len(list(islice(loader, 2))) == 2
    assert 0 < cache.num_files < COUNT
    for _ in range(2):
        assert torch.equal(epoch(ours), epoch(theirs))
    assert cache.num_files == COUNT
    ours.close()
    anew = ours._production.cache
    assert anew is not None
    assert (anew.num_files, anew.num_bytes) == (0, 0)
    assert torch.equal(epoch(ours), epoch(theirs))
    assert anew.num_files == COUNT


def test_close_leaves_a_loop_what_it_reads(photos: Path) -> None:
    """The older one of two loops goes on, and its memory goes back once it is over."""
    dataset = open_dataset(photos)
    ours, theirs = (loader_of(dataset, name, batch_size=2) for name in ("cuda", "cpu"))
    for loader in (ours, theirs):
        epoch(loader)
    cache = ours._production.cache
    assert cache is not None
    pieces = [weakref.ref(piece) for piece in cache._pieces]
    del cache
    older, newer = iter(ours), iter(ours)
    found = [next(older).images]
    next(newer)
    ours.close()
    gc.collect()

    assert all(piece() is not None for piece in pieces)
    found += [batch.images for batch in older]
    assert torch.equal(torch.cat(found), epoch(theirs))
    assert all(piece() is None for piece in pieces)


def test_files_with_equal_digests_are_told_apart() -> None:
    """By their lengths; and what shall be kept is what is not there."""
    cache = DeviceCache(torch.device("cpu"))
    cache._add(np.array([7, 9], np.uint64), np.array([100, 200]), np.array([4096, 8192]), np.array([0, 16]))  # fmt: skip
    files = np.zeros(3, FILE)
    files["num_bytes"] = (100, 201, 300)
    cache.look_up(files, np.array([7, 9, 11], np.uint64))

    assert (files["kept"].tolist(), files["kept_start"].tolist()) == ([4096, 0, 0], [0, 0, 0])
    assert files["keep"].tolist() == [0, 0, 1]


def test_the_cache_is_for_our_decoder_on_a_gpu(photos: Path, free: list[int]) -> None:
    """What cannot be is refused with what would work; what will be is told."""
    dataset = open_dataset(photos)
    with pytest.raises(LoaderError, match="cache='disk' is not known; allowed are None"):
        Loader(dataset, RECIPE, batch_size=8, decoder="cuda", execution=Execution(cache="disk"))  # type: ignore[arg-type]
    for decoder in ("auto", "cpu", "dali"):
        with pytest.raises(
            LoaderError, match=f'what decoder="cuda" decodes, and decoder=.{decoder}'
        ):
            Loader(
                dataset,
                RECIPE,
                batch_size=8,
                decoder=decoder,
                device="cpu",
                execution=Execution(cache="device"),
            )  # type: ignore[arg-type]
    free[0] = 160_000_000_000
    assert "80.0 GB, 727,272 images of 110 kB" in loader_of(dataset).explain()
