"""Use loaders in torchdata: as a node of torchdata.nodes, or as a dataset for its StatefulDataLoader."""

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
    """A loader as a source node of torchdata.nodes, which yields batches and resumes exactly.

    It replaces the sampler, mapper and batcher of other pipelines. Useful nodes around it are `Loader`, which loops
    over it; `Batcher`, which returns lists of batches to accumulate gradients over; `Mapper` and `ParallelMapper` in
    threads; `Prefetcher`; and `MultiNodeWeightedSampler`, which mixes several loaders.

    Pass restart_on_stop_iteration=False to torchdata's `Loader`. With True, if version 0.11 resumes from a state from
    the end of an epoch, it keeps returning that state during the entire next epoch. A node that resumes from such a
    state is exhausted, as torchdata expects, so the first loop has no steps.

    A reset without a state starts the next epoch, or the current one if no batch of it was yielded. A surrounding node
    that reads ahead may reset this node after it has yielded batches that the training loop never received.

    Args:
        loader: A loader that is not used elsewhere.

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
        """Resume from a state of `state_dict`; without a state, start an epoch.

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
        """Return the loader's state, which counts the batches that this node has returned."""
        return dict(self._exhausted or self._loader.state_dict())


class LoaderDataset(torch.utils.data.IterableDataset[Batch]):
    """A loader as a dataset of batches for torchdata's StatefulDataLoader.

    It is for code that requires a DataLoader: ``StatefulDataLoader(LoaderDataset(loader), batch_size=None)``. Each loop
    is an epoch, which starts with its first batch. The DataLoader's `state_dict` and `load_state_dict` resume exactly.

    Args:
        loader: A loader that is not used elsewhere.

    Example:
        >>> from torchdata.stateful_dataloader import StatefulDataLoader
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> for images, labels in StatefulDataLoader(LoaderDataset(loader), batch_size=None):
        ...     pass
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[Batch]:
        """Start the next epoch, or continue at the position of a loaded state.

        Raises:
            LoaderError: The method is called in a worker process of a DataLoader.
        """
        info = torch.utils.data.get_worker_info()
        if info is not None:
            raise LoaderError(
                f"num_workers={info.num_workers} is not allowed around a Loader, whose threads do the work of the "
                f"workers; give num_workers=0, and Loader(execution=Execution(helper_process=True)) for a process of its own"
            )
        return self._batches()

    def __len__(self) -> int:
        """Return the number of steps of an epoch."""
        return len(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's state."""
        return dict(self._loader.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set the position of the next loop from a state.

        Raises:
            StateMismatchError: The state belongs to another dataset, recipe, seed or version.
        """
        self._loader.load_state_dict(state)

    def _batches(self) -> Iterator[Batch]:
        """Yield the batches of an epoch, which starts with the first one: StatefulDataLoader makes iterators that it never reads."""
        yield from self._loader
