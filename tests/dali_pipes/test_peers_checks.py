"""Other people's checks of what a resumable loader must do, on our loader and on our readers alone.

Grain's check is its own code. The behaviours that torchdata asks for are checked through its StatefulDataLoader and
its nodes. The adapters stand in tests/support/adapters.py and are a few lines each.
"""

import itertools
import json
import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import torch

from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, Order, open_dataset
from tests.support.adapters import (
    LoaderIterator,
    ReaderIterable,
    ReaderIterator,
    write_tar,
)
from tests.support.loaders import loader_maker

NUM_IMAGES = 19
RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """A shard of small images."""
    pictures = [jpeg(12, 14, seed=number) for number in range(NUM_IMAGES)]
    return open_dataset(write_tar(tmp_path_factory.mktemp("tar") / "train.tar", pictures))


make_loader = loader_maker(RECIPE, seed=3, dtype=torch.uint8, last_batch="partial")


class TestGrain:
    """grain.experimental.assert_equal_output_after_checkpoint: from every state the same rest, states of one form."""

    @pytest.fixture
    def check(self) -> Callable[[Any], None]:
        """Grain's own check; it takes what iterates with get_state and set_state."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries that it imports
            testing = pytest.importorskip("grain.experimental")
        return testing.assert_equal_output_after_checkpoint  # type: ignore[no-any-return]

    @pytest.mark.parametrize("options", [{}, {"rank": 1, "world_size": 3}], ids=str)
    def test_loader(
        self, dataset: Dataset, check: Callable[[Any], None], options: dict[str, Any]
    ) -> None:
        """Our loader gives the same images and indices from every one of its states."""
        with ExitStack() as closed:

            class Checked:
                def __iter__(self) -> LoaderIterator:
                    loader = make_loader(dataset, **options)
                    return LoaderIterator(closed.enter_context(loader))

            check(Checked())

    def test_readers(self, dataset: Dataset, check: Callable[[Any], None]) -> None:
        """So does an order with a position, over readers alone."""

        class Checked:
            def __iter__(self) -> ReaderIterator:
                return ReaderIterator(dataset, Order(len(dataset), seed=3), epoch=2, share=(1, 2))

        check(Checked())

    def test_sees_a_wrong_state(self, dataset: Dataset, check: Callable[[Any], None]) -> None:
        """Negative control: a state that counts one batch too many is found out."""

        class Wrong(LoaderIterator):
            def state_dict(self) -> dict[str, Any]:
                state = super().state_dict()
                return {**state, "consumed": min(state["consumed"] + 4, NUM_IMAGES)}

            get_state = state_dict

        class Checked:
            def __iter__(self) -> Wrong:
                return Wrong(make_loader(dataset))

        with pytest.raises(AssertionError):
            check(Checked())


@contextmanager
def their_warnings() -> Iterator[None]:
    """Let torchdata and torch warn of themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class TestStatefulDataLoader:
    """What torchdata's StatefulDataLoader asks of a dataset, at 0 workers and at 2."""

    @pytest.fixture(params=[0, pytest.param(2, marks=pytest.mark.long)])
    def make(
        self, request: pytest.FixtureRequest, dataset: Dataset
    ) -> Iterator[Callable[..., Any]]:
        """A maker of StatefulDataLoaders over readers alone."""
        with their_warnings():
            stateful = pytest.importorskip("torchdata.stateful_dataloader")
        made = []

        def make(**options: Any) -> Any:
            options["num_workers"] = request.param
            if request.param:
                # A forked worker would lack this process's threads; a persistent one knows its epoch.
                context = multiprocessing.get_context("forkserver")
                context.set_forkserver_preload(["tests.support.adapters"])
                options |= {"multiprocessing_context": context, "persistent_workers": True}
            iterable = ReaderIterable(dataset, seed=3)
            with their_warnings():
                made.append(stateful.StatefulDataLoader(iterable, batch_size=4, **options))
            return made[-1]

        yield make
        for loader in made:
            loader._iterator = None  # ends its workers

    def test_resume_through_json(self, make: Callable[..., Any]) -> None:
        """From the start, the middle and the end of an epoch (with workers, the middle) the rest and the next epoch are the same."""
        whole = make()
        first, second = read(whole), read(whole)
        assert sorted(itertools.chain(*first)) == list(range(NUM_IMAGES))
        assert sorted(first) != sorted(second)
        for stop in (2,) if whole.num_workers else (0, 2, len(first)):
            interrupted = make()
            with their_warnings():
                loop = iter(interrupted)
                list(itertools.islice(loop, stop))
                state = json.loads(json.dumps(interrupted.state_dict()))
            resumed = make()
            resumed.load_state_dict(state)
            assert read(resumed) == first[stop:]
            assert read(resumed) == second

    def test_resume_in_a_later_epoch(self, make: Callable[..., Any]) -> None:
        """A state from within the second epoch gives its rest; one from behind the first epoch all of it."""
        whole = make()
        read(whole)
        second = read(whole)
        interrupted = make()
        read(interrupted)
        ended = interrupted.state_dict()
        with their_warnings():
            next(iter(interrupted))
        for state, rest in ((ended, second), (interrupted.state_dict(), second[1:])):
            resumed = make()
            resumed.load_state_dict(state)
            assert read(resumed) == rest


def read(loader: Any) -> list[list[int]]:
    """One loop over a StatefulDataLoader."""
    with their_warnings():
        return [batch.tolist() for batch in loader]
