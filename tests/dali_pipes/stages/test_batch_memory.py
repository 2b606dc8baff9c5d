"""The memory of batches: used again once nobody refers to it, never before."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import Loader
from dali_pipes.stages import canvas_memory
from dali_pipes.stages.canvas_memory import BatchMemory
from gpu_aug import Recipe
from tests.support.loaders import write_images

SHAPE = (4, 3, 8, 8)

USERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a row": lambda images: images[2],
    "an array": lambda images: images[1:].numpy(),
    "a tensor by DLPack": lambda images: torch.from_dlpack(images),
    "an array by DLPack": lambda images: np.from_dlpack(images),
    "a storage": lambda images: images.untyped_storage(),
    "a graph of gradients": lambda images: torch.ones((), requires_grad=True) * images,
}


def test_memory_is_used_again() -> None:
    """A tensor that is dropped gives its memory to the next one of its size."""
    memory = BatchMemory()
    images = memory.empty(SHAPE, torch.float32)
    address = images.data_ptr()
    del images
    assert memory.empty(SHAPE, torch.float32).data_ptr() == address
    assert memory.empty(SHAPE[1:], torch.float32).data_ptr() != address


@pytest.mark.parametrize("user", USERS)
def test_memory_in_use_is_not_used_again(user: str) -> None:
    """Whatever shares the memory of a dropped tensor keeps it."""
    memory = BatchMemory()
    images = memory.empty(SHAPE, torch.float32)
    address = images.data_ptr()
    kept = USERS[user](images)
    del images
    assert memory.empty(SHAPE, torch.float32).data_ptr() != address
    del kept
    assert memory.empty(SHAPE, torch.float32).data_ptr() == address


def test_little_memory_stays_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The unused memory has a limit, but one batch of any size stays."""
    num_bytes = 4 * int(np.prod(SHAPE)) + 64
    for limit, expected in ((0, 1), (2 * num_bytes, 2), (100 * num_bytes, 5)):
        monkeypatch.setattr(canvas_memory, "_MOST_UNUSED_BYTES", limit)
        memory = BatchMemory()
        batches = [memory.empty(SHAPE, torch.float32) for _ in range(5)]
        batches.clear()
        assert len(memory._unused) == expected


def test_kept_batches_stay(tmp_path: Any, jpeg: Callable[..., bytes]) -> None:
    """Batches that the user keeps are not overwritten by later ones, in this loop and the next."""
    data = write_images(tmp_path, [jpeg(40, 40, seed=number) for number in range(12)])
    recipe = Recipe.imagenet_train(16)
    with Loader(data, recipe, batch_size=2, device="cpu", seed=1) as loader:
        kept, copies = [], []
        for number, batch in enumerate(batch for _ in range(2) for batch in loader):
            if number % 2:
                kept.append(batch.images[1])
                copies.append(batch.images[1].clone())
    assert all(map(torch.equal, kept, copies))
    assert len({images.data_ptr() for images in kept}) == len(kept) == 6
