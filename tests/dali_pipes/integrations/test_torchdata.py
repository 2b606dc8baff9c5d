"""A loader in torchdata's pipelines: torchdata's own classes drive it, a bare loader says what must come out."""

import importlib
import itertools
import json
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import Batch, LoaderError, MissingPackageError, StateMismatchError
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset
from tests.support.adapters import MemoryDataset
from tests.support.small import make_small

nodes = pytest.importorskip("torchdata.nodes")
stateful = pytest.importorskip("torchdata.stateful_dataloader")

from dali_pipes.integrations.torchdata import LoaderDataset, LoaderNode  # noqa: E402 - needs torchdata
from tests.support.loaders import loader_maker  # noqa: E402

# torchdata and torch warn of themselves.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])
NUM_IMAGES = 19


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> Dataset:
    """Small pictures."""
    return make_small(jpeg, NUM_IMAGES)


make_loader = loader_maker(RECIPE, seed=3, dtype=torch.uint8, last_batch="partial")


def content(item: Batch | list[Batch]) -> Any:
    """What is compared of a batch, or of a list of them: positions and pixels."""
    if isinstance(item, list):
        return [content(batch) for batch in item]
    return item.indices.tolist(), item.images.numpy().tobytes()


def epochs_of(dataset: Dataset, count: int, **options: Any) -> list[list[Any]]:
    """What a bare loader gives, uninterrupted."""
    with make_loader(dataset, **options) as loader:
        return [[content(batch) for batch in loader] for _ in range(count)]


def contents(loader: Any) -> list[Any]:
    return [content(item) for item in loader]


def check_every_state(
    make: Callable[[], Any], expected: list[list[Any]], *, restart: bool = True
) -> None:
    """Stop at every step of all epochs but the last, and at their ends; go on from the state through JSON."""
    for epoch, (steps, following) in enumerate(itertools.pairwise(expected)):
        for stop in range(len(steps) + 1):
            interrupted = make()
            for wanted in expected[:epoch]:
                assert contents(interrupted) == wanted
            loop = iter(interrupted)
            assert [content(next(loop)) for _ in range(stop)] == steps[:stop]
            if stop == len(steps):
                assert next(loop, None) is None
            state = json.loads(json.dumps(interrupted.state_dict()))
            resumed = make()
            resumed.load_state_dict(state)
            if (
                stop < len(steps) or not restart
            ):  # else torchdata's Loader looks ahead: no loop without steps
                assert contents(resumed) == steps[stop:]
            assert contents(resumed) == following


class TestNode:
    @pytest.mark.parametrize(
        ("last_batch", "restart"),
        [("partial", True), ("drop", False)]
        + [
            pytest.param(*case, marks=pytest.mark.long)
            for case in (("partial", False), ("drop", True))
        ],
    )
    def test_every_state_of_torchdatas_loader(
        self, dataset: Dataset, last_batch: str, restart: bool
    ) -> None:
        """The batches are a bare loader's, from every state of two epochs and at their ends."""

        def make() -> Any:
            node = LoaderNode(make_loader(dataset, last_batch=last_batch))
            return nodes.Loader(node, restart_on_stop_iteration=restart)

        check_every_state(make, epochs_of(dataset, 3, last_batch=last_batch), restart=restart)

    @pytest.mark.parametrize("around", ["prefetcher", "snapshots", "mapper", "parallel mapper"])
    def test_every_state_of_nodes_around(self, dataset: Dataset, around: str) -> None:
        """Nodes that read ahead, save states now and then, or work in threads, change nothing."""
        wrap: dict[str, Callable[[Any], Any]] = {
            "prefetcher": lambda node: nodes.Prefetcher(node, prefetch_factor=2),
            "snapshots": lambda node: nodes.Prefetcher(
                node, prefetch_factor=3, snapshot_frequency=2
            ),
            "mapper": lambda node: nodes.Mapper(node, lambda batch: batch),
            "parallel mapper": lambda node: nodes.ParallelMapper(node, lambda batch: batch, 2),
        }

        def make() -> Any:
            return nodes.Loader(wrap[around](LoaderNode(make_loader(dataset, batch_size=10))))

        check_every_state(make, epochs_of(dataset, 3, batch_size=10))

    def test_every_state_of_a_batcher(self, dataset: Dataset) -> None:
        """Batches in lists, for the accumulation of gradients, and a shorter list at the end of an epoch."""
        expected = [
            [steps[start : start + 2] for start in range(0, len(steps), 2)]
            for steps in epochs_of(dataset, 3)
        ]

        def make() -> Any:
            node = LoaderNode(make_loader(dataset))
            return nodes.Loader(nodes.Batcher(node, batch_size=2, drop_last=False))

        assert [len(steps) for steps in expected[0]] == [2, 2, 1]
        check_every_state(make, expected)

    def test_mixed_loaders_resume(self, dataset: Dataset, jpeg: Callable[..., bytes]) -> None:
        """Two loaders mixed by torchdata's weights go on exactly, each in its own order."""
        other = make_small(jpeg, 9, name="other")

        def make() -> Any:
            sources = {"all": make_loader(dataset), "few": make_loader(other)}
            mixed = nodes.MultiNodeWeightedSampler(
                {name: LoaderNode(loader) for name, loader in sources.items()},
                {"all": 0.6, "few": 0.4},
                stop_criteria="ALL_DATASETS_EXHAUSTED",
                seed=1,
            )
            return nodes.Loader(mixed)

        whole = contents(make())
        assert sorted(whole) == sorted(epochs_of(dataset, 1)[0] + epochs_of(other, 1)[0])
        for stop in range(len(whole)):
            interrupted = make()
            list(itertools.islice(iter(interrupted), stop))
            resumed = make()
            resumed.load_state_dict(interrupted.state_dict())
            assert contents(resumed) == whole[stop:]

    def test_resets_without_reading_skip_nothing(self, dataset: Dataset) -> None:
        """An epoch of which no batch was given is not over."""
        node = LoaderNode(make_loader(dataset))
        for _ in range(3):
            node.reset()

        assert contents(node) == epochs_of(dataset, 1)[0]

    def test_a_reset_within_an_epoch_begins_the_next(self, dataset: Dataset) -> None:
        """As a second `for` over a bare loader does; its state says so before anything was read."""
        node = LoaderNode(make_loader(dataset))
        next(node)
        node.reset()
        state = node.state_dict()

        assert (state["epoch"], state["consumed"]) == (1, 0)
        assert contents(node) == epochs_of(dataset, 2)[1]

    def test_a_state_of_other_data_is_refused(
        self, dataset: Dataset, jpeg: Callable[..., bytes]
    ) -> None:
        """The difference is named."""
        node = LoaderNode(make_loader(make_small(jpeg, 9, name="other")))

        with pytest.raises(StateMismatchError, match="dataset is 'other' in the state"):
            LoaderNode(make_loader(dataset)).reset(node.state_dict())

    def test_a_reset_beside_a_slow_prefetcher(self, jpeg: Callable[..., bytes]) -> None:
        """A Prefetcher gives its thread half a second; what that still reads then disturbs nothing."""
        held, reading = threading.Event(), threading.Event()

        class Slow(MemoryDataset):
            def fetch(self, indices: Any) -> Any:
                if (
                    threading.current_thread() is not threading.main_thread()
                ):  # where states are made
                    reading.set()
                    held.wait(60)
                return super().fetch(indices)

        slow = Slow([jpeg(20, 20)], 8)
        root = nodes.Prefetcher(LoaderNode(make_loader(slow)), prefetch_factor=1)
        root.reset()
        assert reading.wait(60)
        threading.Timer(1.0, held.set).start()  # while the second reset has given up waiting
        root.reset()
        received = contents(root)

        assert sorted(itertools.chain(*(step[0] for step in received))) == list(range(8))


class TestDataset:
    def test_every_state_of_a_stateful_dataloader(self, dataset: Dataset) -> None:
        """StatefulDataLoader over a loader: a bare loader's batches, from every state of two epochs."""

        def make() -> Any:
            return stateful.StatefulDataLoader(LoaderDataset(make_loader(dataset)), batch_size=None)

        check_every_state(make, epochs_of(dataset, 3))

    def test_length(self, dataset: Dataset) -> None:
        """A progress bar knows the steps, without a warning of torch that there were more."""
        loader = torch.utils.data.DataLoader(LoaderDataset(make_loader(dataset)), batch_size=None)

        assert len(loader) == len(list(loader)) == 5

    def test_workers_are_refused(self, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
        """A worker process, which torch's function tells of, says in words that it must not be."""
        worker = types.SimpleNamespace(id=0, num_workers=2)
        monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: worker)

        with pytest.raises(LoaderError, match="num_workers=2 is not allowed around a Loader"):
            iter(LoaderDataset(make_loader(dataset)))


def test_without_torchdata(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says how to install it."""
    monkeypatch.setitem(sys.modules, "torchdata.nodes", None)
    monkeypatch.delitem(sys.modules, "dali_pipes.integrations.torchdata")

    with pytest.raises(MissingPackageError, match=r"pip install 'gpu-aug\[torchdata\]'"):
        importlib.import_module("dali_pipes.integrations.torchdata")


def test_pixels_are_compared(dataset: Dataset) -> None:
    """Negative control: other draws for the same positions are another content."""
    first, second = epochs_of(dataset, 2, shuffle="none", batch_size=NUM_IMAGES)

    assert first[0][0] == second[0][0]
    assert first != second
    assert np.frombuffer(first[0][1], np.uint8).std() > 10
