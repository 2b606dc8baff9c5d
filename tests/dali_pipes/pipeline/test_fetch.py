"""The first stage: which sample stands in the row of a bad one, and with which draws."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from dali_pipes import BadRecord, Loader
from dali_pipes.bad_samples import substitute
from gpu_aug import RandomResizedCrop, Recipe
from readers import mix
from tests.support.small import SmallDataset

NUM_GOOD, LENGTH, SEED = 6, 40, 3


@pytest.mark.parametrize("damage", [lambda _: b"", lambda data: data[: len(data) // 2]])
def test_substitutes_are_drawn_as_where_they_stand(
    jpeg: Callable[..., bytes], damage: Callable[[bytes], bytes]
) -> None:
    """In an epoch that has samples several times a substitute has the draws of the position that it is taken from.

    It makes no difference whether the bad sample is noticed when it is read or when it is decoded.
    """
    images = [jpeg(60, 80, seed=number) for number in range(NUM_GOOD)]
    good, bad = (SmallDataset(data, [0] * len(data)) for data in (images, [damage(images[0])]))
    dataset = mix([good, bad], weights=[4, 1], length=LENGTH)
    loader = Loader(
        dataset, Recipe([RandomResizedCrop(16)]), batch_size=LENGTH, seed=SEED, device="cpu", decoder="cpu",
        num_threads=1, on_bad_sample="replace", max_bad_samples=9,
    )  # fmt: skip
    [batch] = list(loader)
    order = loader._setup.fetcher.order
    indices, repeats = order.places(0, torch.arange(LENGTH).numpy())

    replaced = {}
    for row in (indices == NUM_GOOD).nonzero()[0].tolist():
        record: Any = BadRecord("", NUM_GOOD, "decode", "", 0, 0, 0)
        tries = [record]
        while indices[position := substitute(SEED, tries, LENGTH) or 0] == NUM_GOOD:
            tries.append(record)
        replaced[row] = position
    assert len(replaced) == LENGTH // 5
    assert all(repeats[position] > 0 for position in replaced.values())
    for row, position in replaced.items():
        assert batch.indices[row] == indices[position]
        assert torch.equal(batch.images[row], batch.images[position])
        twins = (indices == indices[position]) & (repeats != repeats[position])
        assert not any(
            torch.equal(batch.images[row], batch.images[twin]) for twin in twins.nonzero()[0]
        )
