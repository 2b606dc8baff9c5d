"""What a faster input could bring: verdicts for a step that is slow, and for an input that is slow."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dali_pipes import BadSampleError, Batch, Loader, LoaderError
from dali_pipes.headroom import Headroom, Rate
from gpu_aug import RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from readers.dataset import IndexedDataset
from tests.support.kinds import by_opencv, noise, write_tar

RECIPE = Recipe([RandomResizedCrop(8)])
SLOW_SECONDS = 0.03


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> IndexedDataset:
    """Twelve small images."""
    root = tmp_path_factory.mktemp("images")
    for number in range(12):
        (root / f"{number:02d}.jpg").write_bytes(jpeg(24, 24, seed=number))
    return open_dataset(root)


class Slow:
    """A dataset that takes its time for every read."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def __len__(self) -> int:
        return len(self._dataset)

    def fetch(self, indices: Any) -> Any:
        """Read, after a while."""
        time.sleep(SLOW_SECONDS)
        return self._dataset.fetch(indices)


def load(dataset: Any, **options: Any) -> Loader:
    usual = {"batch_size": 4, "device": "cpu", "decoder": "cpu", "num_threads": 1}
    return Loader(dataset, RECIPE, **{**usual, **options})


class TestVerdict:
    def test_an_input_that_is_slow(self, dataset: Dataset) -> None:
        """Storage that sleeps makes a step in that time, but for the three that are made ahead; repeats cost nothing."""
        found = load(Slow(dataset)).headroom(lambda _: None, steps=6, rounds=2)
        assert not found.nothing_to_gain
        assert found.fresh.high < 2 / SLOW_SECONDS
        assert found.gain_range[0] > 2
        assert repr(found).startswith("a faster input would make training at most ")
        assert "from memory again and again" in repr(found)

    def test_a_step_that_is_slow(self, dataset: Dataset) -> None:
        """Both rates are those of a step that sleeps, at most."""
        found = load(dataset).headroom(lambda _: time.sleep(SLOW_SECONDS), steps=4, rounds=2)
        for rate in (found.memory, found.fresh):
            assert 0 < rate.low <= rate.steps_per_second <= rate.high <= 1 / SLOW_SECONDS
            assert rate.images_per_second == pytest.approx(4 * rate.steps_per_second)

    @pytest.mark.parametrize(
        ("gain", "low", "words"),
        [
            (
                1.5,
                1.2,
                "a faster input would make training at most 1.50 times as fast (1.20 to 2.00)",
            ),
            (
                1.3,
                0.99,
                "not clear, for the rounds differ: a faster input would make training at most 1.30",
            ),
            (1.01, 0.9, "nothing to gain: a faster input would make training at most 1.01 times"),
            (0.98, 0.97, "nothing to gain: "),
        ],
    )
    def test_words(self, gain: float, low: float, words: str) -> None:
        """Below 2 % it is nothing; what not every round shows is not clear."""
        rate = Rate(10.0, 9.0, 11.0, 40.0)
        found = Headroom(rate, rate, gain, (low, 2.0), 4)
        assert repr(found).startswith(words)
        assert found.nothing_to_gain is words.startswith("nothing")
        assert found.unclear is words.startswith("not clear")
        assert "10 steps/s (9 to 11), 40 images/s on the same 4 batches from memory" in repr(found)


def test_what_the_step_gets(dataset: Dataset) -> None:
    """Repeats of a few batches, then as many as were made ahead and fresh ones, in turns, in the order of the loops."""
    seen: list[tuple[int, ...]] = []

    def step(batch: Batch) -> None:
        seen.append(tuple(batch.indices.tolist()))

    loader = load(dataset)
    epochs = [
        tuple(batch.indices.tolist()) for epoch in range(6) for batch in load_epoch(dataset, epoch)
    ]
    loader.headroom(step, steps=3, rounds=2, kept=2)
    memory = [epochs[0], epochs[1], epochs[0]]
    warm = 3  # prefetch + 1
    assert seen[:6] == memory + memory
    fresh = seen[6 : 6 + warm + 3]
    first = 3  # the last one of the first epoch was made ahead of the kept ones, and dropped
    assert fresh == epochs[first : first + len(fresh)]
    assert seen[6 + warm + 3 :][:3] == memory
    assert len(seen) == 3 + 2 * (3 + warm + 3)


def load_epoch(dataset: Dataset, epoch: int) -> list[Batch]:
    loader = load(dataset)
    loader.set_epoch(epoch)
    return list(loader)


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"helper_process": True}, marks=pytest.mark.long)]
)
def test_loader_stays_as_it_is(dataset: Dataset, options: dict[str, Any]) -> None:
    """In the middle of a loop: state, statistics, audit, and what comes next."""
    usual = [batch.indices.tolist() for batch in load(dataset)]
    with load(dataset, **options) as loader:
        batches = iter(loader)
        first = next(batches)
        state, audit, counted = loader.state_dict(), loader.audit, loader.stats("run").samples
        loader.headroom(lambda _: None, steps=4, rounds=1)
        assert (loader.state_dict(), loader.audit) == (state, audit)
        assert loader.stats("run").samples == counted == 4
        assert [first.indices.tolist(), *(batch.indices.tolist() for batch in batches)] == usual


def test_what_stages_do_is_not_counted(dataset: Dataset) -> None:
    """It is no part of the run's statistics."""
    loader = load(dataset)
    list(loader)
    before = loader.stats("run").to_dict()
    loader.headroom(lambda _: None, steps=2, rounds=1)
    assert loader.stats("run").to_dict() == before


def test_streams(tmp_path: Path) -> None:
    """A stream is read on to its next epoch."""
    samples = [{"png": by_opencv("png", noise(3, "uint8", seed=one))} for one in range(6)]
    stream = open_dataset(write_tar(tmp_path / "a.tar", samples), format="stream")
    loader = load(stream, batch_size=2, shuffle="none")
    seen: list[list[int]] = []
    loader.headroom(lambda batch: seen.append(batch.indices.tolist()), steps=4, rounds=1, kept=1)
    assert seen[:4] == [[0, 1]] * 4
    # Behind the first batch two were made ahead and dropped; three more begin the stretch.
    assert seen[8:11] == [[0, 1], [2, 3], [4, 5]]
    assert next(iter(loader)).indices.tolist() == [0, 1]


class TestRefusals:
    def test_arguments(self, dataset: Dataset) -> None:
        """Each says what is allowed."""
        loader = load(dataset)
        with pytest.raises(
            LoaderError, match="step=3 is not allowed; give a function that takes a Batch"
        ):
            loader.headroom(3)  # type: ignore[arg-type]
        for name in ("steps", "rounds", "kept"):
            with pytest.raises(LoaderError, match=f"{name}=0 is not allowed; give an integer of 1"):
                loader.headroom(print, **{name: 0})

    def test_a_step_that_changes_its_batch(self, dataset: Dataset) -> None:
        """Repeats would not be what the loader made."""
        with pytest.raises(LoaderError, match="step changes its batch in place"):
            load(dataset).headroom(lambda batch: batch.images.mul_(2), steps=2, rounds=1)

    def test_bad_samples(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """They end it as they end a loop, and come to no ledger."""
        for number in range(4):
            (tmp_path / f"{number}.jpg").write_bytes(jpeg(24, 24)[: 100 if number == 2 else None])
        with pytest.raises(BadSampleError, match="sample 2"):
            load(open_dataset(tmp_path)).headroom(print, steps=2, rounds=1)
        loader = load(open_dataset(tmp_path), on_bad_sample="skip")
        found = loader.headroom(lambda _: None, steps=4, rounds=1)
        share = found.fresh.images_per_second / found.fresh.steps_per_second
        assert share == pytest.approx(3)
        assert loader.bad_samples == []


@pytest.mark.needs_cuda
def test_waits_for_the_gpu(dataset: Dataset) -> None:
    """The time of a step is that of the GPU, not of launching it."""
    a = torch.randn(4096, 4096, device="cuda")

    def step(_: Batch) -> None:
        for _number in range(20):
            torch.mm(a, a)

    torch.cuda.synchronize()
    step(None)  # type: ignore[arg-type]
    torch.cuda.synchronize()
    began = time.perf_counter()
    step(None)  # type: ignore[arg-type]
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    found = load(dataset, device="cuda").headroom(step, steps=5, rounds=2)
    assert found.memory.steps_per_second == pytest.approx(1 / seconds, rel=0.3)
