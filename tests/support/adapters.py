"""Small datasets, and our loader and readers in the shapes that other people's checks ask for."""

import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes import Batch, Loader
from readers import BadSample, Dataset, Order, Sample, part


class MemoryDataset:
    """Any number of samples that share a few pictures.

    Args:
        pictures: Encoded images, taken in turns.
        length: Number of samples.
        key: What their names begin with.
        bad: Indices of samples that cannot be read.
    """

    def __init__(
        self, pictures: Sequence[bytes], length: int, key: str = "sample", bad: Sequence[int] = ()
    ) -> None:
        self.pictures, self.length, self.key, self.bad = list(pictures), length, key, set(bad)

    class_names = ()

    @property
    def fingerprint(self) -> str:
        """Over what was given."""
        sizes = [len(picture) for picture in self.pictures]
        return f"{self.length:08x}{sum(sizes):08x}{len(self.key):08x}{len(sizes):08x}"

    def __len__(self) -> int:
        return self.length

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples with a label each."""
        return [self._one(int(index)) for index in indices]

    def _one(self, index: int) -> Sample | BadSample:
        key = f"{self.key}{index}"
        if index in self.bad:
            return BadSample(index, key, "read", "made to be bad")
        picture = self.pictures[index % len(self.pictures)]
        return Sample(index, key, {"jpg": picture}, label=index % 7)


def write_tar(path: Path, pictures: Sequence[bytes]) -> Path:
    """Write images, named by their numbers, into a shard."""
    with tarfile.open(path, "w") as tar:
        for number, picture in enumerate(pictures):
            info = tarfile.TarInfo(f"{number:05d}.jpg")
            info.size = len(picture)
            tar.addfile(info, io.BytesIO(picture))
    return path


class ReaderIterator:
    """One epoch of samples, read alone, with a state of two numbers.

    This is all that readers need for exact resume: an order and a position.

    Args:
        dataset: What to read.
        order: Of its samples.
        epoch: Which epoch.
        share: Which share of the epoch, of how many.
    """

    def __init__(
        self, dataset: Dataset, order: Order, epoch: int = 0, share: tuple[int, int] = (0, 1)
    ) -> None:
        self.dataset, self.order = dataset, order
        self.epoch, self.share = epoch, share
        self.start, self.stop = part(0, len(order), *share)
        self.position = self.start

    def __iter__(self) -> "ReaderIterator":
        return self

    def __next__(self) -> int:
        if self.position >= self.stop:
            raise StopIteration
        indices = self.order.indices(self.epoch, np.array([self.position]))
        sample = self.dataset.fetch(indices)[0]
        assert isinstance(sample, Sample)
        self.position += 1
        return sample.index

    def state_dict(self) -> dict[str, Any]:
        """Return epoch and position."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there."""
        self.epoch, self.position = state["epoch"], state["position"]

    get_state, set_state = state_dict, load_state_dict  # as Grain calls them


class ReaderIterable(torch.utils.data.IterableDataset[int]):
    """Epochs of samples for StatefulDataLoader: one after the other, shared out among its workers."""

    def __init__(self, dataset: Dataset, seed: int = 0) -> None:
        self.dataset, self.order = dataset, Order(len(dataset), seed=seed)
        self.epoch, self.position, self.began = 0, 0, False
        self.calls = 0

    def __iter__(self) -> Iterator[int]:
        self.calls += 1
        if self.began:
            self.epoch, self.position = self.epoch + 1, 0
        self.began = True
        info = torch.utils.data.get_worker_info()
        share = (info.id, info.num_workers) if info else (0, 1)
        reader = ReaderIterator(self.dataset, self.order, self.epoch, share)
        reader.position += self.position
        return self._counted(reader)

    def _counted(self, reader: ReaderIterator) -> Iterator[int]:
        for index in reader:
            self.position = reader.position - reader.start
            yield index

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and how much of this worker's share was read."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next loop go on there."""
        self.epoch, self.position, self.began = state["epoch"], state["position"], False


class LoaderIterator:
    """One epoch of a loader, as numpy arrays.

    Args:
        loader: Serves this iterator alone.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.loop: Iterator[Batch] | None = None

    def __iter__(self) -> "LoaderIterator":
        return self

    def __next__(self) -> dict[str, NDArray[Any]]:
        if self.loop is None:
            self.loop = iter(self.loader)
        return as_arrays(next(self.loop))

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's state."""
        return dict(self.loader.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there."""
        self.loader.load_state_dict(state)
        self.loop = None

    get_state, set_state = state_dict, load_state_dict


def as_arrays(batch: Batch) -> dict[str, NDArray[Any]]:
    """Return what a check compares."""
    return {"images": batch.images.numpy(), "indices": batch.indices.numpy()}
