"""What a loader says of itself after real epochs."""

import gc
import io
import json
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dali_pipes import Execution, LoaderError, Monitoring
from dali_pipes.monitoring import STAGES
from dali_pipes.monitoring.counts import Counts
from gpu_aug import ColorJitter, HorizontalFlip, RandomResizedCrop, Recipe
from readers import open_dataset
from tests.support.loaders import loader_maker
from tests.support.remote_data import MakeJpeg, set_up, write_shards
from tests.support.s3_server import storage
from tests.support.small import SmallDataset

NUM_IMAGES = 22
RECIPE = Recipe([RandomResizedCrop(16), HorizontalFlip(), ColorJitter(brightness=0.2)])


class SlowDataset(SmallDataset):
    """Reading takes a while."""

    seconds = 0.03

    def fetch(self, indices: Any) -> Any:
        """Wait, then fetch."""
        time.sleep(self.seconds)
        return super().fetch(indices)


@pytest.fixture(scope="module")
def images(jpeg: Callable[..., bytes]) -> list[bytes]:
    return [jpeg(40, 30, seed=number) for number in range(NUM_IMAGES)]


load = loader_maker(RECIPE, num_threads=2)


@pytest.fixture
def dataset(images: list[bytes]) -> SmallDataset:
    return SmallDataset(images, [0] * NUM_IMAGES)


@pytest.mark.parametrize("helper_process", [False, pytest.param(True, marks=pytest.mark.long)])
def test_what_is_counted(dataset: SmallDataset, images: list[bytes], helper_process: bool) -> None:
    """Samples and bytes of an epoch are those of the data, wherever the work was done."""
    with load(
        dataset, last_batch="partial", execution=Execution(helper_process=helper_process)
    ) as loader:
        for _ in range(2):
            batches = list(loader)
        stats, run = loader.stats(), loader.stats("run")
    stages = stats.stages
    assert (stats.epoch, stats.steps, stats.samples) == (1, 6, NUM_IMAGES)
    assert (run.steps, run.samples) == (12, 2 * NUM_IMAGES)
    for name in ("read", "header", "draw", "decode", "augment", "hand_over"):
        assert stages[name].samples == NUM_IMAGES
        assert stages[name].p50_seconds <= stages[name].p90_seconds <= stages[name].p99_seconds
    assert stages["read"].bytes == stages["decode"].bytes == sum(map(len, images))
    made = sum(batch.images.nbytes for batch in batches)
    assert stages["augment"].bytes == stages["hand_over"].bytes == made
    assert (stages["targets"].calls, stages["transfer"].samples > 0) == (0, helper_process)


def test_what_the_loop_waited_for(images: list[bytes]) -> None:
    """A loop that does nothing else waits for slow storage; who trains long does not wait; a controlled pair."""
    dataset = SlowDataset(images, [0] * NUM_IMAGES)
    with load(dataset, execution=Execution(prefetch=1)) as loader:
        list(loader)
        waiting = loader.stats()
        for _ in loader:
            time.sleep(2.5 * dataset.seconds)
        training = loader.stats()
    assert waiting.limit == max(waiting.late, key=waiting.late.get) == "read"
    assert waiting.wait_share > 0.5
    assert sum(waiting.late.values()) == pytest.approx(waiting.wait_seconds, rel=1e-6)
    assert "read" in waiting.verdict
    assert training.wait_share < waiting.wait_share / 2
    assert training.queue.mean > waiting.queue.mean


def test_differences(dataset: SmallDataset) -> None:
    """What is between two statistics adds up to the whole."""
    with load(dataset) as loader:
        batches = iter(loader)
        next(batches)
        next(batches)
        first = loader.stats()
        list(batches)
        whole = loader.stats()
    rest = whole - first
    assert (rest.steps, rest.samples) == (whole.steps - 2, whole.samples - 8)
    assert rest.seconds == pytest.approx(whole.seconds - first.seconds)
    for name in STAGES:
        assert rest.stages[name].calls == whole.stages[name].calls - first.stages[name].calls


def test_for_machines(dataset: SmallDataset) -> None:
    """JSON takes everything, and nothing is lost on the way."""
    with load(dataset) as loader:
        list(loader)
        stats = loader.stats()
    named = json.loads(json.dumps(stats.to_dict()))
    assert named["samples"] == stats.samples
    assert named["stages"]["decode"]["busy_seconds"] == stats.stages["decode"].busy_seconds
    assert (set(named["stages"]), named["limit"]) == (set(STAGES), stats.limit)


def test_images_of_other_decoders(jpeg: Callable[..., bytes]) -> None:
    """What our JPEG decoder leaves to others is told by kind, lost ones included."""
    png = io.BytesIO()
    Image.new("RGB", (30, 40)).save(png, "PNG")
    rgb = jpeg(40, 30, seed=2, keep_rgb=True)
    progressive = jpeg(40, 30, seed=3, progressive=True)
    images = [jpeg(40, 30, seed=1), progressive, rgb, png.getvalue(), b"broken"]
    dataset = SmallDataset([*images, jpeg(40, 30, seed=4)[:-40]], [0] * 6)
    with load(dataset, last_batch="partial", on_bad_sample="skip", max_bad_samples=3) as loader:
        list(loader)
        stats = loader.stats()
    cut = "JPEG (does not begin and end like a JPEG)"
    assert stats.whole_images == {"JPEG (neither gray nor YCbCr)": 1, "png": 1, cut: 1}
    assert stats.bad_samples == 2
    assert "bad samples: 2" in repr(stats)


def test_remote_reading(tmp_path: Path, jpeg: MakeJpeg, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests and blocks of the cache are those of the loader that asked, though threads of all share them."""
    pytest.importorskip("obstore")
    set_up(monkeypatch, tmp_path)
    names = write_shards(tmp_path / "data", jpeg, num=3, per_shard=8)
    with storage(tmp_path / "data") as served:
        urls = [f"{served.url}/{name}" for name in names]
        kept, read = open_dataset(urls), open_dataset(urls, cache_bytes=0)
        with load(kept) as near, load(read) as far, load(read) as idle:
            list(near)
            list(far)
            cached, direct, none = (loader.stats().remote for loader in (near, far, idle))
        encoded = sum(len(sample.image) for sample in read.fetch(range(len(read))))
    assert (cached.requests, cached.cache_misses, cached.cache_hits > 0) == (0, 0, True)
    assert (direct.cache_hits, direct.cache_misses, direct.requests > 0) == (0, 0, True)
    assert direct.bytes >= encoded
    assert (none.requests, none.bytes, none.cache_hits) == (0, 0, 0)


def test_bad_scope(dataset: SmallDataset) -> None:
    """It is named, with those that are allowed."""
    with pytest.raises(LoaderError, match=r'scope=.day. is not known; allowed are "epoch", "run"'):
        load(dataset).stats("day")  # type: ignore[arg-type]


def test_who_takes_the_cores(dataset: SmallDataset) -> None:
    """Threads that had no core for most of their work say so; those that had one say nothing."""
    with load(dataset) as loader:
        list(loader)
        loader._meter._sums.wait_seconds = loader._meter._sums.seconds
        counts = Counts()
        decode = counts.stages["decode"]
        decode.seconds, decode.cpu_seconds = 1e4, 0.99e4
        loader._recorder.absorb(counts, 0.0)
        assert "core" not in loader.stats().verdict
        decode.cpu_seconds = 0.01e4
        loader._recorder.absorb(counts, 0.0)
        assert "had a core for only 50% of their work" in loader.stats().verdict


def test_waiting_for_the_end(tmp_path: Path, jpeg: MakeJpeg) -> None:
    """A wait that brings no batch is no part of the time that batches took."""
    [name] = write_shards(tmp_path, jpeg, num=1, per_shard=10)
    with load(open_dataset(tmp_path / name, format="stream"), shuffle="none") as loader:
        list(loader)
        stats = loader.stats()
    assert (stats.steps, stats.queue.asked) == (2, 1)
    assert stats.wait_seconds <= stats.seconds


@pytest.mark.parametrize("metrics", [None, print])
def test_nobody_holds_the_loader(dataset: SmallDataset, metrics: Any) -> None:
    """It goes with its last name, without the garbage collector: what it has opened ends with it."""
    gc.disable()
    try:
        gone = weakref.ref(load(dataset, monitoring=Monitoring(metrics=metrics)))
        assert gone() is None
    finally:
        gc.enable()


def test_statistics_of_two_loops(dataset: SmallDataset) -> None:
    """They count from different moments, so there is nothing between them; those of the run have it."""
    with load(dataset) as loader:
        list(loader)
        first, run = loader.stats(), loader.stats("run")
        list(loader)
        for earlier in (first, run):
            with pytest.raises(ValueError, match="do not count from the same moment"):
                loader.stats() - earlier
        assert (loader.stats("run") - run).steps == first.steps


def test_before_the_second_batch(dataset: SmallDataset) -> None:
    """There is nothing to say, then no rate yet, and nothing is made up."""
    with load(dataset) as loader:
        stats = loader.stats()
        next(iter(loader))
        first = repr(loader.stats()).splitlines()[0]
    assert (stats.steps, stats.images_per_second, stats.limit, stats.verdict) == (0, 0.0, "", "")
    assert repr(stats) == "epoch 0: no batch yet"
    assert first.startswith("epoch 0: 4 samples in 1 batch; the first batch took ")
