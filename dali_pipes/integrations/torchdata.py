"""Loaders in torchdata: as a node of torchdata.nodes, or as a dataset for its StatefulDataLoader."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch.utils.data

from dali_pipes.batch import Batch
from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.loader import Loader
from dali_pipes.state import at_start_of

try:
    from torchdata.nodes import BaseNode
except ImportError as error:
    raise MissingPackageError(
        "dali_pipes.integrations.torchdata needs torchdata, which is not installed: pip install 'gpu-aug[torchdata]'"
    ) from error


class LoaderNode(BaseNode[Batch]):  # type: ignore[misc]  # torchdata is not typed
    """A loader as a source of torchdata.nodes, which yields batches and resumes exactly.

    It replaces the sampler, mapper and batcher of other pipelines. Useful nodes around it are `Loader`, which
    loops over it, `Batcher`, which gives lists of batches to accumulate gradients over, `Mapper` and
    `ParallelMapper` in threads, `Prefetcher`, and `MultiNodeWeightedSampler`, which mixes several loaders.

    Give torchdata's `Loader` restart_on_stop_iteration=False: with True, version 0.11 returns the state that it resumed
    with during the entire next epoch if that state is from the end of an epoch. A node that resumes there is exhausted,
    as torchdata expects, so the first loop has no steps.

    A reset without a state begins the next epoch, or the current one if it has yielded no batch of it. A node around it
    that reads ahead may be reset when this node has yielded batches that the training loop never received.

    Args:
        loader: A loader that nothing else uses.

    Example:
        >>> import torchdata.nodes
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> nodes = torchdata.nodes.Loader(LoaderNode(loader), restart_on_stop_iteration=False)
        >>> for images, labels in nodes:
        ...     pass
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self._loader = loader
        self._loop: Iterator[Batch] | None = None
        self._exhausted: dict[str, Any] | None = None

    def reset(self, initial_state: Mapping[str, Any] | None = None) -> None:
        """Resume from a state that `state_dict` returned, or without one begin an epoch.

        Raises:
            StateMismatchError: The state belongs to another dataset, recipe, seed or version.
        """
        super().reset(initial_state)
        # Not closed: the thread of a Prefetcher may still be in this loop, and waits half a second.
        self._loop = self._exhausted = None
        if initial_state is None:
            state = self._loader.state_dict()
            epoch = state["epoch"] + (state["consumed"] > 0)
            initial_state = at_start_of(state, epoch)
        self._loader.load_state_dict(initial_state)
        if self._loader.epoch > initial_state["epoch"]:  # the state is from the end of its epoch
            self._loop, self._exhausted = iter(()), dict(initial_state)

    def next(self) -> Batch:
        """Return the next batch of the epoch."""
        if self._loop is None:
            self._loop = iter(self._loader)
        return next(self._loop)

    def get_state(self) -> dict[str, Any]:
        """Return the loader's state, which counts the batches that this node returned."""
        return dict(self._exhausted or self._loader.state_dict())


class LoaderDataset(torch.utils.data.IterableDataset[Batch]):
    """A loader as a dataset of batches for torchdata's StatefulDataLoader.

    For code that requires a DataLoader: ``StatefulDataLoader(LoaderDataset(loader), batch_size=None)``. Each loop is
    an epoch, which begins with its first batch, and the DataLoader's `state_dict` and `load_state_dict` resume exactly.

    Args:
        loader: A loader that nothing else uses.

    Example:
        >>> from torchdata.stateful_dataloader import StatefulDataLoader
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> for images, labels in StatefulDataLoader(LoaderDataset(loader), batch_size=None):
        ...     pass
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[Batch]:
        """Begin the next epoch, or continue at the position of a loaded state.

        Raises:
            LoaderError: In a worker process.
        """
        info = torch.utils.data.get_worker_info()
        if info is not None:
            raise LoaderError(
                f"num_workers={info.num_workers} is not allowed around a Loader, whose threads do the work of the "
                f"workers; give num_workers=0, and Loader(execution=Execution(helper_process=True)) for a process of its own"
            )
        return self._batches()

    def __len__(self) -> int:
        """Steps of an epoch."""
        return len(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's state."""
        return dict(self._loader.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next loop continue at the position of a state.

        Raises:
            StateMismatchError: The state belongs to another dataset, recipe, seed or version.
        """
        self._loader.load_state_dict(state)

    def _batches(self) -> Iterator[Batch]:
        """Begin with the first batch: at the end of an epoch a StatefulDataLoader makes an iterator that it never reads."""
        yield from self._loader
