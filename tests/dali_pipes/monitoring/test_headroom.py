"""What a faster input could bring: verdicts for a step that is slow, and for an input that is slow."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dali_pipes import BadSampleError, Batch, Execution, LoaderError
from dali_pipes.monitoring import headroom
from dali_pipes.monitoring.headroom import Headroom, StepRate
from gpu_aug import RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from readers.datasets.dataset import IndexedDataset
from tests.support.kinds import by_opencv, noise, write_tar
from tests.support.loaders import loader_maker, write_images

RECIPE = Recipe([RandomResizedCrop(8)])


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> IndexedDataset:
    """Twelve small images."""
    images = [jpeg(24, 24, seed=number) for number in range(12)]
    return write_images(tmp_path_factory.mktemp("images"), images)


load = loader_maker(RECIPE)


class Moments:
    """A clock that goes on only while the training step runs or a fresh batch is waited for.

    Args:
        of_step: Seconds of a step.
        of_batch: Seconds until a batch comes.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, of_step: float, of_batch: float) -> None:
        self._now, self._of_step = 0.0, of_step
        usual = headroom._Source.next

        def wait(source: headroom._Source) -> Batch:
            self._now += of_batch
            return usual(source)

        monkeypatch.setattr(headroom, "clock", lambda: self._now)
        monkeypatch.setattr(headroom._Source, "next", wait)

    def step(self, _: Batch) -> None:
        """Train."""
        self._now += self._of_step


class TestVerdict:
    def test_an_input_that_is_slow(self, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
        """A step on a fresh batch takes the time of both, one on a repeat that of the step alone."""
        moments = Moments(monkeypatch, of_step=1.0, of_batch=3.0)
        found = load(dataset).headroom(moments.step, steps=6, rounds=2)
        assert not found.nothing_to_gain
        assert (found.memory, found.fresh) == (StepRate(1, 1, 1, 4), StepRate(0.25, 0.25, 0.25, 1))
        assert (found.gain, found.gain_range) == (4, (4, 4))
        assert repr(found).startswith(
            "a faster input would make training at most 4.00 times as fast (4.00 to 4.00)"
        )
        assert "from memory again and again" in repr(found)

    def test_a_step_that_is_slow(self, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where batches come at once both rates are those of the step."""
        moments = Moments(monkeypatch, of_step=0.5, of_batch=0.0)
        found = load(dataset).headroom(moments.step, steps=4, rounds=2)
        assert found.memory == found.fresh == StepRate(2, 2, 2, 8)
        assert found.nothing_to_gain

    def test_waiting_is_on_the_clock(self, dataset: Dataset) -> None:
        """A step that sleeps is never faster than its sleep, however busy the machine is."""
        found = load(dataset).headroom(lambda _: time.sleep(0.01), steps=2, rounds=1)
        for rate in (found.memory, found.fresh):
            assert 0 < rate.low <= rate.steps_per_second <= rate.high <= 1 / 0.01
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
        rate = StepRate(10.0, 9.0, 11.0, 40.0)
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

    loader, other = load(dataset), load(dataset)
    epochs = [tuple(batch.indices.tolist()) for _ in range(6) for batch in other]
    loader.headroom(step, steps=3, rounds=2, kept=2)
    memory = [epochs[0], epochs[1], epochs[0]]
    warm = 3  # prefetch + 1
    assert seen[:6] == memory + memory
    fresh = seen[6 : 6 + warm + 3]
    # The last one of the first epoch was made ahead of the kept ones, and dropped.
    assert fresh == epochs[3 : 3 + len(fresh)]
    assert seen[6 + warm + 3 :][:3] == memory
    assert len(seen) == 3 + 2 * (3 + warm + 3)


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"execution": Execution(helper_process=True)}, marks=pytest.mark.long)],
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


def test_bad_samples_are_not_logged(
    tmp_path: Path, jpeg: Callable[..., bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """The loops that come tell of them; what counts is different samples, of all epochs."""
    dataset = write_images(tmp_path, [jpeg(24, 24), jpeg(24, 24)[:100]] * 2)
    loader = load(dataset, batch_size=2, on_bad_sample="skip", max_bad_samples=2)
    caplog.clear()  # of what was logged at INFO, which other libraries may have switched on
    with caplog.at_level("WARNING", logger="gpu_aug"):
        loader.headroom(lambda _: None, steps=4, rounds=1)
    assert not caplog.records
    few = load(dataset, batch_size=1, on_bad_sample="skip", max_bad_samples=1)
    words = r"^2 bad samples, the last of them 0[13].jpg .*a ledger.*lists all of them"
    with pytest.raises(BadSampleError, match=words):
        few.headroom(lambda _: None, steps=4, rounds=1)
    assert not few.bad_samples


class TestRefusals:
    def test_epochs_without_a_batch(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A stream that is shorter than a batch is refused, and not begun again and again."""
        samples = [{"png": by_opencv("png", noise(3, "uint8", seed=one))} for one in range(3)]
        stream = open_dataset(write_tar(tmp_path / "a.tar", samples), format="stream")
        loader = load(stream, shuffle="none", last_batch="drop")
        usual, left = headroom.Production.open, iter(range(4))

        def open_few(production: headroom.Production, largest: Any) -> Any:
            next(left)
            return usual(production, largest)

        monkeypatch.setattr(headroom.Production, "open", open_few)
        words = (
            "an epoch has no batch: its samples are too few for batch_size=4 .* last_batch='drop'"
        )
        for look in (lambda: loader.headroom(print, steps=1, rounds=1), loader.peek):
            with pytest.raises(LoaderError, match=words):
                look()

    def test_arguments(self, dataset: Dataset) -> None:
        """Each says what is allowed."""
        for name, value, allowed in (
            ("step", 3, "a function that takes a Batch"),
            *((name, 0, "an integer of 1") for name in ("steps", "rounds", "kept")),
        ):
            words = f"{name}={value} is not allowed; give {allowed}"
            with pytest.raises(LoaderError, match=words):
                load(dataset).headroom(**{"step": print, name: value})

    def test_a_step_that_changes_its_batch(self, dataset: Dataset) -> None:
        """Repeats would not be what the loader made."""
        with pytest.raises(LoaderError, match="step changes its batch in place"):
            load(dataset).headroom(lambda batch: batch.images.mul_(2), steps=2, rounds=1)

    def test_bad_samples(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """They end it as they end a loop, and come to no ledger."""
        sound = jpeg(24, 24)
        dataset = write_images(tmp_path, [sound, sound, sound[:100], sound])
        with pytest.raises(BadSampleError, match="sample 2"):
            load(dataset).headroom(print, steps=2, rounds=1)
        loader = load(dataset, on_bad_sample="skip")
        found = loader.headroom(lambda _: None, steps=4, rounds=1)
        share = found.fresh.images_per_second / found.fresh.steps_per_second
        assert share == pytest.approx(3)
        assert loader.bad_samples == []


@pytest.mark.needs_cuda
def test_waits_for_the_gpu(dataset: Dataset) -> None:
    """The time of a step is that of the GPU, not of launching it, which takes a thousandth."""
    a = torch.randn(4096, 4096, device="cuda")

    def step(_: Batch) -> None:
        for _number in range(20):
            torch.mm(a, a)

    for _ in range(2):  # the second one counts
        torch.cuda.synchronize()
        began = time.perf_counter()
        step(None)  # type: ignore[arg-type]
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    found = load(dataset, device="cuda").headroom(step, steps=5, rounds=2)
    assert found.memory.steps_per_second < 10 / seconds
