"""The kernels on a GPU: the bits of the same text compiled by g++, and loaders whose batches are the CPU's."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dali_pipes import Loader
from dali_pipes.decode.cuda_jpeg.batch import Arenas, Planner, launch
from dali_pipes.decode.cuda_jpeg.on_gpu import gpu_kernels
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset
from tests.support.cuda_jpegs import assert_canvases, files_of, size_of, wanted_of, whole
from tests.support.jpegs import SAMPLINGS, encode, opencv, picture, turned

pytestmark = pytest.mark.needs_cuda

_DEVICE = torch.device("cuda", 0)


@pytest.mark.parametrize("every", [0, 3])
def test_all_kinds_equal_opencv(every: int) -> None:
    """All samplings, sizes and turns, by restart markers and by seek points."""
    rng = np.random.default_rng(7)
    encoded = []
    for trial in range(120):
        height, width = (int(side) for side in rng.integers(1, 150, 2))
        sampling, restart = [*SAMPLINGS, "gray"][trial % 6], 0 if every else 1 + trial % 6
        plain = encode(picture(height, width, trial), sampling, restart=restart)
        encoded.append(turned(plain, 1 + trial // 6 % 8))
    sizes = [size_of(data) for data in encoded]
    canvases = [torch.full((*size, 3), 171, dtype=torch.uint8, device=_DEVICE) for size in sizes]
    wanted = wanted_of(sizes, [[whole(data) for data in encoded]], [canvases])

    planned = Planner(Arenas(pinned=True)).plan(files_of(encoded, every), wanted)
    launched = launch(planned, gpu_kernels(_DEVICE))

    assert not planned.statuses.any()
    assert not launched.statuses.cpu().any()
    assert_canvases(canvases, map(opencv, encoded))


def test_batches_of_a_loader_are_those_of_the_cpu(tmp_path: Path) -> None:
    """Two epochs of crops, a PNG and a progressive file among them."""
    for number in range(40):
        sampling = [*SAMPLINGS, "gray"][number % 6]
        data = encode(picture(90 + number, 120, number), sampling, restart=4 * (number % 3))
        (tmp_path / f"{number:03}.jpg").write_bytes(turned(data, 1 + number % 8))
    import cv2

    cv2.imwrite(str(tmp_path / "200.png"), picture(40, 50))
    cv2.imwrite(str(tmp_path / "201.jpg"), picture(40, 50), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])
    dataset, recipe = open_dataset(tmp_path), Recipe([RandomResizedCrop(64)])
    found = []
    for decoder in ("cuda", "cpu"):
        loader = Loader(dataset, recipe, batch_size=16, device=_DEVICE, decoder=decoder, engine="fused", dtype=torch.uint8)  # type: ignore[arg-type]  # fmt: skip
        found.append([batch.images.cpu() for _ in range(2) for batch in loader])
    for mine, other in zip(*found, strict=True):
        assert torch.equal(mine, other)
