"""What remote workers make of every kind of data is what a local loader makes, under every policy and on every rank."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from dali_pipes import BadSampleError, Clips, Execution, ImageOptions, MultiScale
from dali_pipes.integrations.ray.workers import RayWorkers
from gpu_aug import CutMix, HorizontalFlip, Normalize, RandomResizedCrop, Recipe
from gpu_aug.views import Views
from readers import Buckets, open_dataset
from tests.support.loaders import loader_maker
from tests.support.same_batches import assert_same

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("ray_cluster")]

CROP = Recipe([RandomResizedCrop(24), HorizontalFlip()])
VIEWS = Views(
    [
        Recipe([RandomResizedCrop(24), CutMix(p=0.8), Normalize()]),
        Recipe([RandomResizedCrop((16, 20)), Normalize()]),
    ]
)


def sized(size: tuple[int, int]) -> Recipe:
    """A recipe of a size."""
    return Recipe([RandomResizedCrop(size), HorizontalFlip()])


KINDS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "views": (
        "photos",
        VIEWS,
        {"dtype": torch.bfloat16, "execution": Execution(channels_last=False)},
    ),
    "uint8": (
        "photos",
        CROP,
        {"dtype": torch.uint8, "execution": Execution(decode="fast"), "last_batch": "pad"},
    ),
    "buckets": ("photos", sized, {"buckets": Buckets([(16, 16), (12, 24), (24, 12)])}),
    "sizes": ("photos", sized, {"sizes": MultiScale([(16, 16), (24, 24)], every=8)}),
    "fields": ("captions.tar", CROP, {"fields": ["txt", "npy"]}),
    "annotated": ("VOCdevkit", CROP, {"split": "train"}),
    "boxes": ("yolo", CROP, {"split": "train"}),
    "bands": ("bands.tar", CROP, {"images": ImageOptions(channels=5, depth=16)}),
    "several": ("stereo.tar", CROP, {"images": ImageOptions(fields=["left.png", "right.png"])}),
    "parquet": ("data.parquet", CROP, {}),
    "skip": ("damaged", CROP, {"on_bad_sample": "skip"}),
    "replace": ("damaged", CROP, {"on_bad_sample": "replace"}),
}


load = loader_maker(CROP, seed=3, last_batch="partial", num_threads=None)


@pytest.mark.parametrize("kind", KINDS)
def test_equal(kind: str, data: Path) -> None:
    """Everything in every batch is equal, and so are the bad samples."""
    name, recipe, options = KINDS[kind]
    dataset = open_dataset(data / name, split=options.get("split"))
    options = {name: value for name, value in options.items() if name != "split"}
    local = load(dataset, recipe, **options)
    expected = list(local)
    with load(dataset, recipe, workers=RayWorkers(2), **options) as loader:
        assert_same(list(loader), expected)
        assert loader.bad_samples == local.bad_samples
        assert (kind in ("skip", "replace")) == bool(loader.bad_samples)


def test_clips(data: Path) -> None:
    """Clips of videos are equal, with their frames and times."""
    clips = Clips(open_dataset(data / "videos"), num_frames=3, stride=2)
    with load(clips, workers=RayWorkers(2)) as loader:
        batches = list(loader)
    assert_same(batches, list(load(clips)))
    assert batches[0].frames is not None


def test_raise_and_budget(data: Path) -> None:
    """A bad sample ends the run where it ends a local one, by the same error, after the same batches."""
    for options in ({}, {"on_bad_sample": "skip", "max_bad_samples": 0}):
        said = []
        for workers in (None, RayWorkers(2)):
            batches: list[Any] = []
            with (
                load(
                    open_dataset(data / "damaged"), batch_size=1, workers=workers, **options
                ) as loader,
                pytest.raises(BadSampleError) as caught,
            ):
                batches.extend(loader)
            said.append((str(caught.value), [batch.keys for batch in batches]))
        assert said[0] == said[1]


def test_two_trainers(data: Path) -> None:
    """Ranks 0 and 1 of one job share a cluster; each gets what it gets without workers."""
    dataset = open_dataset(data / "photos")
    options = {"world_size": 2, "batch_size": 3}
    workers = RayWorkers(2, num_cpus=0.5)
    with (
        load(dataset, rank=0, workers=workers, **options) as one,
        load(dataset, rank=1, workers=workers, **options) as other,
    ):
        pairs = list(zip(one, other, strict=True))
    for rank in (0, 1):
        expected = list(load(dataset, rank=rank, **options))
        assert_same([pair[rank] for pair in pairs], expected)


def test_resume(data: Path) -> None:
    """A run goes on with another number of workers, and then with none."""
    dataset = open_dataset(data / "photos")
    expected = list(load(dataset))
    had: list[Any] = []
    state = None
    for workers in (RayWorkers(2), RayWorkers(1), None):
        with load(dataset, workers=workers) as loader:
            if state is not None:
                loader.load_state_dict(state)
            had += islice(loader, 3 if workers is not None else None)
            state = loader.state_dict()
    assert_same(had, expected)


def test_nothing_else_is_disturbed(data: Path) -> None:
    """Peek in a loop, headroom and a loop left early share the workers, and the loop after them is whole."""
    dataset = open_dataset(data / "photos")
    local = load(dataset)
    epochs = [list(local), list(local)]
    with load(dataset, workers=RayWorkers(2, num_cpus=2)) as loader:
        assert_same([loader.peek()], epochs[0][:1])
        loop = iter(loader)
        first = next(loop)
        loader.peek()
        assert loader.headroom(lambda batch: batch.images.sum(), steps=2, rounds=1).gain > 0
        assert_same([first, next(loop)], epochs[0][:2])
        loop.close()
        assert_same(list(loader), epochs[1])


def test_little_is_under_way(data: Path, ray_cluster: Any) -> None:
    """Many times what fits into the object store goes through it, and nothing is written to disk."""
    from ray._private.internal_api import memory_summary

    big = Recipe([RandomResizedCrop(400)])
    options = {"batch_size": 8, "dtype": torch.float32, "last_batch": "drop"}
    num_bytes = 0
    with load(open_dataset(data / "photos"), big, workers=RayWorkers(2), **options) as loader:
        for _ in range(12):
            for batch in loader:
                num_bytes += batch.images.nbytes
                pool = loader._production._remote._pool  # type: ignore[union-attr]
                assert pool is not None
                under_way = [step for _, step in pool._pending.values() if step is not None]
                assert len(under_way) + len(pool._unsent) <= 2 + 2
    summary = memory_summary(ray_cluster.address, stats_only=True)
    assert num_bytes > 2 * 150 * 2**20
    assert "Plasma" in summary
    assert "pilled" not in summary
