"""Whether two runs made the same batches, to the bit."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from dali_pipes import Batch


def assert_same(actual: Sequence[Batch], expected: Sequence[Batch]) -> None:
    """All that batches hold is the same to the bit, in the same memory format, and in memory of its own."""
    assert len(actual) == len(expected) > 0
    for one, other in zip(actual, expected, strict=True):
        for name in (field.name for field in fields(Batch)):
            parts, wanted = list(_flat(getattr(one, name))), list(_flat(getattr(other, name)))
            assert len(parts) == len(wanted), name
            for part, whole in zip(parts, wanted, strict=True):
                assert type(part) is type(whole), name
                if isinstance(part, torch.Tensor):
                    assert (part.dtype, part.shape, part.stride()) == (
                        whole.dtype,
                        whole.shape,
                        whole.stride(),
                    ), name
                    assert _bits(part) == _bits(whole), name
                elif isinstance(part, np.ndarray):
                    assert part.flags.writeable == whole.flags.writeable, name
                    np.testing.assert_array_equal(part, whole)
                else:
                    assert part == whole, name


def images_by_index(batches: Iterable[Batch]) -> dict[int, torch.Tensor]:
    """Return the image or clip of each sample on the CPU, by its index."""
    return {
        index: image
        for batch in batches
        for index, image in zip(batch.indices.tolist(), batch.images.cpu(), strict=True)
    }


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name in value:
            yield name
            yield from _flat(value[name])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _bits(tensor: torch.Tensor) -> bytes:
    dense = tensor.detach().contiguous().reshape(-1)
    return dense.view(torch.uint8).numpy().tobytes() if dense.numel() else b""
