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

import numpy as np
import pytest
import torch

from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, Order, open_dataset
from tests.support.adapters import (
    LoaderIterable,
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

    @pytest.fixture(params=[0, 2])
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


def test_one_call_of_iter(dataset: Dataset) -> None:
    """StatefulDataLoader calls __iter__ of our dataset once for a loop, also when a state was loaded."""
    with their_warnings():
        stateful = pytest.importorskip("torchdata.stateful_dataloader")
        iterable = ReaderIterable(dataset)
        loader = stateful.StatefulDataLoader(iterable, batch_size=4)
        next(iter(loader))
        again = ReaderIterable(dataset)
        resumed = stateful.StatefulDataLoader(again, batch_size=4)
        resumed.load_state_dict(loader.state_dict())
        list(resumed)

    assert (iterable.calls, again.calls) == (1, 1)


def test_our_loader_inside_of_theirs(dataset: Dataset) -> None:
    """Our whole loader inside StatefulDataLoader: states of every step of two epochs, through JSON."""
    with their_warnings():
        stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def make() -> Any:
        return stateful.StatefulDataLoader(LoaderIterable(make_loader(dataset)), batch_size=None)

    def images(loader: Any) -> list[np.ndarray]:
        return [np.asarray(batch["images"]) for batch in loader]

    with their_warnings():
        whole = make()
        expected = [images(whole), images(whole), images(whole)]
        for epoch, stop in itertools.product((0, 1), (0, 2, 5)):
            interrupted = make()
            for _ in range(epoch):
                list(interrupted)
            loop = iter(interrupted)
            list(itertools.islice(loop, stop))
            resumed = make()
            resumed.load_state_dict(json.loads(json.dumps(interrupted.state_dict())))
            # A state from the end of an epoch stands at the next one.
            np.testing.assert_equal(images(resumed), expected[epoch][stop:] or expected[epoch + 1])


class TestNodes:
    """The behaviours of a torchdata node: reset, states of the beginning, the middle and the end, and restarts."""

    @pytest.fixture(params=["readers", "loader"])
    def make(self, request: pytest.FixtureRequest, dataset: Dataset) -> Callable[[], Any]:
        """A maker of nodes over readers alone, or over our loader."""
        with their_warnings():
            nodes = pytest.importorskip("torchdata.nodes")

        class Node(nodes.BaseNode[Any]):  # type: ignore[misc, name-defined]
            """An iterator with a state as a node; each reset without a state is the next epoch."""

            def __init__(self) -> None:
                super().__init__()
                self.epoch = -1
                self.source: Any = None

            def reset(self, initial_state: dict[str, Any] | None = None) -> None:
                super().reset(initial_state)
                self.epoch = initial_state["epoch"] if initial_state else self.epoch + 1
                if request.param == "readers":
                    self.source = ReaderIterator(dataset, Order(len(dataset), seed=3), self.epoch)
                else:
                    loader = make_loader(dataset)
                    loader.set_epoch(self.epoch)
                    self.source = LoaderIterator(loader)
                if initial_state:
                    self.source.load_state_dict(initial_state)

            def next(self) -> Any:
                item = next(self.source)
                return item if isinstance(item, int) else item["indices"].tolist()

            def get_state(self) -> dict[str, Any]:
                return self.source.state_dict()

        return Node

    @pytest.mark.parametrize("restart", [True, False])
    def test_states(
        self, make: Callable[[], Any], restart: bool, request: pytest.FixtureRequest
    ) -> None:
        """Initial, middle and end-of-epoch states, in the first epoch and in the second."""
        from torchdata.nodes import Loader as NodeLoader

        goes_on = restart or "loader" in request.node.callspec.id  # ours has no epoch without steps

        def loader() -> Any:
            return NodeLoader(make(), restart_on_stop_iteration=restart)

        whole = loader()
        initial = whole.state_dict()
        first, second, third = list(whole), list(whole), list(whole)
        assert len(first) == len(second) > 3
        assert first != second != third
        fresh = loader()
        fresh.load_state_dict(initial)
        assert [list(fresh), list(fresh)] == [first, second]

        for epoch, expected, following in ((0, first, second), (1, second, third)):
            for stop in (0, 2, len(expected) - 1, len(expected)):
                interrupted = loader()
                for _ in range(epoch):
                    list(interrupted)
                loop = iter(interrupted)
                assert list(itertools.islice(loop, stop)) == expected[:stop]
                if stop == len(expected):
                    assert next(loop, None) is None
                state = json.loads(json.dumps(interrupted.state_dict()))
                resumed = loader()
                resumed.load_state_dict(state)
                rest = list(resumed)
                if stop < len(expected):
                    assert rest == expected[stop:]
                    assert list(resumed) == following
                else:  # at its end: the next epoch at once, or first a loop without steps
                    assert rest == (following if goes_on else [])
