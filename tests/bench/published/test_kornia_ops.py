"""Kornia's benchmarks: every library does the work of a row."""

import pytest
import torch

from bench.published.kornia_ops import (
    FLAGSHIP_OPS,
    PIPELINE,
    TORCHVISION_OPS,
    make_images,
    works_of,
)
from bench.published.operations import Op

OPS = (*FLAGSHIP_OPS, *TORCHVISION_OPS, PIPELINE)
IMAGES = make_images(2, 40)


@pytest.mark.parametrize(
    "op",
    [pytest.param(op, id=op.name, marks=[pytest.mark.long] * (op is not OPS[0])) for op in OPS],
)
def test_all_libraries_make_batches_of_one_size(op: Op) -> None:
    works = {name: make() for name, make in works_of(op, IMAGES).items()}
    works.pop("Albumentations, uint8", None)
    made = {name: work() for name, work in works.items()}

    assert set(made) == {"Kornia", "torchvision", "gpu-aug"}
    assert {batch.dtype for batch in made.values()} == {torch.float32}  # type: ignore[attr-defined]
    assert len({tuple(batch.shape) for batch in made.values()}) == 1  # type: ignore[attr-defined]


def test_every_call_of_ours_draws_anew() -> None:
    [affine] = [op for op in OPS if op.name == "Affine"]
    work = works_of(affine, IMAGES)["gpu-aug"]()

    assert not torch.equal(work(), work())  # type: ignore[arg-type]
