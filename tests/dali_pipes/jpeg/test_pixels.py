"""Our JPEG decoder against OpenCV's and Pillow's libjpeg-turbo: the same pixels, bit for bit."""

from pathlib import Path

import numpy as np
import pytest

from dali_pipes.jpeg import REASONS
from tests.support.jpegs import SAMPLINGS, decode, encode, opencv, ours, picture, pillow


@pytest.mark.parametrize("sampling", [*SAMPLINGS, "gray"])
def test_all_sizes_equal_opencv_and_pillow(sampling: str) -> None:
    """Odd and tiny sizes, qualities from worst to best, restarts and optimised tables."""
    rng = np.random.default_rng(7)
    for trial in range(60):
        height, width = (int(side) for side in rng.integers(1, 70, 2))
        data = encode(
            picture(height, width, trial),
            sampling,
            quality=int(rng.integers(1, 101)),
            restart=int(rng.integers(0, 6)),
            optimise=bool(trial % 2),
        )

        status, pixels = ours(data, (height, width))

        assert REASONS[status] == "decoded"
        np.testing.assert_array_equal(pixels, opencv(data))
        np.testing.assert_array_equal(pixels, pillow(data))


def test_photographs_equal_opencv(photos: list[Path]) -> None:
    """Whole photographs, a part of them progressive."""
    for path in photos:
        data = path.read_bytes()
        image = opencv(data)

        status, pixels = ours(data, (image.shape[0], image.shape[1]))

        assert REASONS[status] == "decoded"
        assert (pixels == image).all()


def test_noise_equals_opencv() -> None:
    """Noise at the best quality has the longest codes and numbers."""
    noise = np.random.default_rng(0).integers(0, 256, (90, 70, 3)).astype(np.uint8)
    data = encode(noise, "4:4:4", quality=100)

    status, pixels = ours(data, (90, 70))

    assert status == 0
    np.testing.assert_array_equal(pixels, opencv(data))


def test_memory_views_are_read_in_place() -> None:
    """A slice of a larger file decodes like the file itself."""
    data = encode(picture(40, 50), "4:2:0")
    archive = memoryview(b"before" + data + b"behind")
    out = np.zeros((40, 50, 3), np.uint8)

    status = decode(archive[6 : 6 + len(data)], (40, 50), (0, 0, 40, 50), out)

    assert status == 0
    np.testing.assert_array_equal(out, opencv(data))
