"""Epochs of a loader: none without steps, none used up unseen, and no attribute that changes nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import BadSampleError, Batch, Loader, LoaderError, Monitoring, StateMismatchError
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from tests.support.loaders import loader_maker
from tests.support.small import SmallDataset, make_small

RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])
NUM_IMAGES, NUM_EPOCHS = 19, 3


@pytest.fixture
def dataset(jpeg: Callable[..., bytes]) -> SmallDataset:
    """19 small pictures."""
    return make_small(jpeg, NUM_IMAGES)


load = loader_maker(RECIPE, seed=3)


def train(ranks: list[Loader], stop: int | None = None) -> tuple[list[list[int]], Any]:
    """The README's loop on all ranks: indices by epoch, and the state after the last step, or so many steps."""
    seen: list[list[int]] = [[] for _ in range(NUM_EPOCHS)]
    num_steps = 0
    for epoch in range(ranks[0].epoch, NUM_EPOCHS):
        in_epoch = 0
        for shares in zip(*ranks, strict=True):
            seen[epoch] += torch.cat([batch.indices for batch in shares]).tolist()
            in_epoch += 1
            num_steps += 1
            if num_steps == stop:
                return seen, json.loads(json.dumps(ranks[0].state_dict()))
        assert in_epoch, "an epoch without steps"  # averages would be divided by zero
    return seen, ranks[0].state_dict()


@pytest.mark.parametrize(
    ("last_batch", "world_size", "batch_size"),
    [
        *(("drop", 2, 2), ("drop", 1, 19), ("partial", 3, 3)),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("drop", 1, 4),
                ("drop", 3, 3),
                ("partial", 1, 4),
                ("partial", 2, 2),
                ("partial", 1, 19),
            )
        ),
    ],
)
def test_no_epoch_without_steps(
    dataset: SmallDataset, last_batch: str, world_size: int, batch_size: int
) -> None:
    """From a state after any step, on other ranks with other batches, every epoch has steps and no sample twice."""

    def make(world_size: int, batch_size: int) -> list[Loader]:
        options = {"batch_size": batch_size, "world_size": world_size, "last_batch": last_batch}
        return [load(dataset, rank=rank, **options) for rank in range(world_size)]

    whole, _ = train(make(1, 4))
    per_epoch = len(make(1, 4)[0])
    for stop in range(1, 2 * per_epoch + 1):
        before, state = train(make(1, 4), stop)
        ranks = make(world_size, batch_size)
        for loader in ranks:
            loader.load_state_dict(state)
        if stop % per_epoch == 0:
            assert {loader.epoch for loader in ranks} == {stop // per_epoch}
        after, _ = train(ranks)
        for had, rest, expected in zip(before, after, whole, strict=True):
            both = had + rest
            assert len(set(both)) == len(both)
            if last_batch == "partial":
                assert both == expected


def test_set_epoch_that_goes_back_says_so(dataset: SmallDataset) -> None:
    """Who counts epochs and resumes from the end of one would go through it again."""
    loader = load(dataset)
    list(loader)
    resumed = load(dataset)
    resumed.load_state_dict(loader.state_dict())
    resumed.set_epoch(1)  # where it stands
    with pytest.warns(UserWarning, match=r"set_epoch\(0\) repeats that epoch"):
        resumed.set_epoch(0)


def test_epochs_are_whole_numbers(dataset: SmallDataset) -> None:
    """NumPy's are, and become Python's, as a state needs them."""
    loader = load(dataset)
    loader.set_epoch(np.int64(3))
    assert json.dumps(loader.state_dict()["epoch"]) == "3"
    wrong: list[Any] = [True, 1.0, "1", -1]
    for epoch in wrong:
        with pytest.raises(LoaderError, match="give an integer from 0"):
            loader.set_epoch(epoch)


def content(batch: Batch) -> Any:
    return batch.indices.tolist(), batch.images.numpy().tobytes()


class TestPeek:
    def test_is_what_comes_next(self, dataset: SmallDataset, tmp_path: Path) -> None:
        """Before the first loop, within one, after it and from a state: always the first batch of the next loop."""
        path = tmp_path / "audit.jsonl"
        with load(dataset, monitoring=Monitoring(audit=path)) as loader, load(dataset) as bare:
            first, second = ([content(batch) for batch in bare] for _ in range(2))
            assert content(loader.peek()) == content(loader.peek()) == first[0]
            assert loader.audit.steps == loader.epoch == 0
            assert not path.exists()
            loop = iter(loader)
            assert [content(next(loop)) for _ in range(2)] == first[:2]
            before = loader.state_dict(), loader.audit, path.read_text()
            assert content(loader.peek()) == second[0]
            assert (loader.state_dict(), loader.audit, path.read_text()) == before
            assert [content(batch) for batch in loop] == first[2:]
            assert content(loader.peek()) == second[0]
            loader.load_state_dict(before[0])
            assert content(loader.peek()) == first[2]
            assert [content(batch) for batch in loader] == first[2:]

    def test_bad_samples(self, dataset: SmallDataset, tmp_path: Path) -> None:
        """They raise as in the loop, and are written down by the loop alone."""
        dataset.images[1] = b""
        options = {"shuffle": "none", "monitoring": Monitoring(ledger=tmp_path / "bad.jsonl")}
        with pytest.raises(BadSampleError, match="sample 1"):
            load(dataset, **options).peek()
        loader = load(dataset, on_bad_sample="skip", **options)
        assert (loader.peek().indices.tolist(), loader.bad_samples) == ([0, 2, 3], [])
        assert not (tmp_path / "bad.jsonl").exists()


def test_a_look_that_used_up_an_epoch_is_told_once(dataset: SmallDataset) -> None:
    """next(iter(loader)) is an epoch of its own; the loop after it says so, and that peek() is not."""
    loader = load(dataset)
    next(iter(loader))
    with pytest.warns(
        UserWarning, match=r"epoch 0 is over and this is epoch 1.*loader.peek\(\)"
    ) as told:
        next(iter(loader))
    assert told[0].filename == __file__
    next(iter(loader))  # told already
    assert loader.epoch == 2


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("recipe", RECIPE, "make another loader, and give it the state of this one"),
        ("batch_size", 3, "make another loader"),
        ("epoch", 5, r"call loader.set_epoch\(5\)"),
        ("device", "cpu", "make another loader"),
        ("bach_size", 3, "use batch_size"),
        ("drop_last", True, 'use last_batch="drop"'),
        ("colour", 1, "a loader has no 'colour'$"),
        ("audit", None, "make another loader"),
        ("bad_samples", [], "make another loader"),
    ],
)
def test_attributes_that_would_change_nothing(
    dataset: SmallDataset, name: str, value: Any, said: str
) -> None:
    """Setting one is refused, with what to do instead."""
    with pytest.raises(AttributeError, match=said):
        setattr(load(dataset), name, value)


def test_subclasses_have_attributes_of_their_own(dataset: SmallDataset) -> None:
    """But none that would hide one of ours."""

    class Named(Loader):
        name: str

    loader = Named(dataset, RECIPE, batch_size=4, device="cpu")
    loader.name = "mine"
    assert loader.name == "mine"
    with pytest.raises(AttributeError, match="make another loader"):
        loader.batch_size = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("batchsize", "no argument 'batchsize': use batch_size"),
        (
            "num_worker",
            r"no argument 'num_worker': use num_threads, .*\(helper_process=True\), or workers=",
        ),
        ("num_workers", r"use num_threads, .*\(helper_process=True\), or workers="),
        ("prefech", r"use execution=Execution\(prefetch=...\)"),
        ("shufle", "use shuffle"),
        ("mesh", r'no argument .mesh.: use rank=mesh\["dp"\], without world_size'),
        ("zebra", "no argument 'zebra'; help"),
    ],
)
def test_keywords_that_are_not_there(dataset: SmallDataset, name: str, said: str) -> None:
    """The error names the one that was meant, or what other libraries' word is here."""
    with pytest.raises(TypeError, match=said):
        load(dataset, **{name: 1})
    with pytest.raises(TypeError, match=said):
        Loader.eval(dataset, RECIPE, batch_size=4, **{name: 1})


@pytest.mark.parametrize("name", ["epoch", "consumed", "seed", "length", "version"])
@pytest.mark.parametrize(
    "value",
    [10**30, -1, True, 1.5, "1", None, 10**5000],
    ids=["10**30", "-1", "True", "1.5", "text", "None", "5000 digits"],
)
def test_damaged_states(dataset: SmallDataset, name: str, value: Any) -> None:
    """Whatever stands in a number of a state is refused in words that name it."""
    loader = load(dataset)
    with pytest.raises(StateMismatchError, match=name) as caught:
        loader.load_state_dict({**loader.state_dict(), name: value})
    assert len(str(caught.value)) < 400
    assert loader.epoch == 0


def test_a_loop_of_which_nobody_takes_a_batch_is_none(dataset: SmallDataset) -> None:
    """Trainers make iterators that they never read."""
    loader = load(dataset)
    iter(loader)
    next(iter(loader))
    assert loader.epoch == 0
