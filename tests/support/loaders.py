"""Small loaders on the CPU: what the tests of loaders have in common."""

import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from dali_pipes import Batch, Loader
from dali_pipes.decode.dali.feed import FeedOptions
from dali_pipes.stages import dali_feeds as pipeline_make
from readers import Dataset, open_dataset

USUAL: dict[str, Any] = {"batch_size": 4, "device": "cpu", "decoder": "cpu", "num_threads": 1}
"""The arguments of every such loader, unless its test says otherwise."""


def loader_maker(recipe: Any = None, **usual: Any) -> Callable[..., Loader]:
    """Return a function `make(dataset, recipe, **options)` with the usual arguments of one test file.

    Args:
        recipe: The recipe where a call gives none.
        usual: Arguments on top of USUAL; those of a call go before them.
    """

    def make(dataset: Any, recipe: Any = recipe, **options: Any) -> Loader:
        return Loader(dataset, recipe, **{**USUAL, **usual, **options})

    return make


def write_images(folder: Path, images: Iterable[bytes], **options: Any) -> Any:
    """Write images as 00.jpg, 01.jpg, ... and open the folder, with options of `open_dataset`."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(images):
        (folder / f"{number:02d}.jpg").write_bytes(data)
    return open_dataset(folder, **options)


def indices_of(batches: Iterable[Batch]) -> list[int]:
    """Return the indices of all rows, in their order."""
    return [index for batch in batches for index in batch.indices.tolist()]


def rows_of(batches: Iterable[Batch]) -> list[tuple[int, torch.Tensor]]:
    """Return index and image of all rows, in their order, on the CPU."""
    pairs = (zip(b.indices.tolist(), b.images.cpu(), strict=True) for b in batches)
    return list(itertools.chain.from_iterable(pairs))


def images_by_index(batches: Iterable[Batch]) -> dict[int, torch.Tensor]:
    """Return index -> image, on the CPU."""
    return dict(rows_of(batches))


def assert_same_images(actual: Iterable[Batch], expected: Iterable[Batch]) -> None:
    """Batches hold the same samples, in any order, whose images are equal to the bit."""
    one, other = images_by_index(actual), images_by_index(expected)
    assert sorted(one) == sorted(other)
    assert [index for index, image in one.items() if not torch.equal(image, other[index])] == []


def draw_canvases_in_dali(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """Have DALI's graph draw the canvases, as on a GPU; `more` are further options of its feed."""
    forced = {"canvases": True, **more}
    monkeypatch.setattr(
        pipeline_make, "FeedOptions", lambda **given: FeedOptions(**{**given, **forced})
    )


class Fleet:
    """All ranks of a world, in one process, taking their steps together.

    Args:
        dataset: What they read.
        world_size: Number of ranks.
        options: Arguments of each Loader, on top of those of this class.
    """

    def __init__(self, dataset: Dataset, world_size: int, **options: Any) -> None:
        usual = {"seed": 3, "dtype": torch.uint8, "last_batch": "partial"}
        load = loader_maker(**{**usual, **options})
        self.ranks = [load(dataset, rank=rank, world_size=world_size) for rank in range(world_size)]
        self.rows: list[tuple[int, torch.Tensor]] = []

    @property
    def indices(self) -> list[int]:
        """Indices of all rows that were received."""
        return [index for index, _ in self.rows]

    def load(self, state: Any) -> None:
        """Go on with a state that went through JSON."""
        for rank in self.ranks:
            rank.load_state_dict(json.loads(json.dumps(state)))

    def run(self, num_steps: int | None = None) -> None:
        """Take some steps of the next loop, or all of them, and keep what they gave."""
        loops = [iter(rank) for rank in self.ranks]
        for batches in itertools.islice(zip(*loops, strict=True), num_steps):
            assert len({batch.images.shape[1:] for batch in batches}) == 1
            self.rows += rows_of(batches)
        for rank in self.ranks:
            rank.close()

    def state(self) -> Any:
        """The state, which all ranks agree on."""
        states = [rank.state_dict() for rank in self.ranks]
        assert all(state == states[0] for state in states)
        return states[0]
