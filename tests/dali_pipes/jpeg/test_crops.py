"""Crops that our JPEG decoder cuts out are those of the whole picture, bit for bit."""

import numpy as np
import pytest

from dali_pipes.jpeg import REASONS
from tests.support.jpegs import REDUCED, SAMPLINGS, draw_crop, encode, opencv, ours, picture, turned


@pytest.mark.parametrize("restart", [0, 1, 7])
@pytest.mark.parametrize("sampling", [*SAMPLINGS, "gray"])
def test_crops_equal_cuts(sampling: str, restart: int) -> None:
    """Any crop, with and without restart markers to jump over."""
    rng = np.random.default_rng(restart)
    for trial in range(8):
        height, width = (int(side) for side in rng.integers(1, 150, 2))
        data = encode(picture(height, width, trial), sampling, restart=restart)
        whole = opencv(data)
        for _ in range(15):
            crop = draw_crop(rng, height, width)
            top, left, rows, columns = crop

            status, pixels = ours(data, (height, width), crop)

            assert REASONS[status] == "decoded"
            cut = whole[top : top + rows, left : left + columns]
            np.testing.assert_array_equal(pixels, cut, err_msg=f"{height}x{width}, {crop}")


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_crops_are_upright(orientation: int, progressive: bool) -> None:
    """The crop is one of the picture as EXIF turns it."""
    rng = np.random.default_rng(orientation)
    for sampling in SAMPLINGS:
        data = turned(encode(picture(45, 61), sampling, progressive=progressive), orientation)
        whole = opencv(data)
        size = whole.shape[0], whole.shape[1]
        assert size == ((61, 45) if orientation >= 5 else (45, 61))
        for _ in range(8):
            crop = draw_crop(rng, *size)
            top, left, rows, columns = crop

            status, pixels = ours(data, size, crop)

            assert status == 0
            np.testing.assert_array_equal(pixels, whole[top : top + rows, left : left + columns])


@pytest.mark.parametrize("shrink", [2, 4, 8])
@pytest.mark.parametrize("sampling", [*SAMPLINGS, "gray"])
def test_shrunk_crops_equal_cuts_of_reduced_pictures(sampling: str, shrink: int) -> None:
    """Decoding at 1/2, 1/4 and 1/8 is OpenCV's, and libjpeg's, reduced decoding."""
    rng = np.random.default_rng(shrink)
    for trial in range(12):
        height, width = (int(side) for side in rng.integers(1, 150, 2))
        data = encode(picture(height, width, trial), sampling)
        whole = opencv(data, REDUCED[shrink])
        for crop in ((0, 0, height, width), draw_crop(rng, height, width)):
            status, pixels = ours(data, (height, width), crop, shrink)

            assert status == 0
            rows, columns = pixels.shape[:2]
            top, left = crop[0] // shrink, crop[1] // shrink
            np.testing.assert_array_equal(pixels, whole[top : top + rows, left : left + columns])


def test_shrunk_and_turned() -> None:
    """A turned picture is reduced as it is stored, and cut where it is upright."""
    for orientation in range(1, 9):
        data = turned(encode(picture(45, 61), "4:2:0"), orientation)
        whole = opencv(data, REDUCED[2])
        size = (61, 45) if orientation >= 5 else (45, 61)

        status, pixels = ours(data, size, (9, 4, 31, 40), 2)

        assert status == 0
        np.testing.assert_array_equal(pixels, whole[4:20, 2:22])


@pytest.mark.parametrize("crop", [(-1, 0, 5, 5), (0, -1, 5, 5), (30, 0, 11, 5), (0, 45, 5, 6)])
def test_crops_outside_are_refused(crop: tuple[int, int, int, int]) -> None:
    """A crop that does not lie in the picture gets a status."""
    data = encode(picture(40, 50), "4:2:0")

    status, _ = ours(data, (40, 50), crop)

    assert REASONS[status] == "the crop lies outside the image"


def test_another_size_is_refused() -> None:
    """The size that was promised must be the one in the header."""
    status, _ = ours(encode(picture(40, 50), "4:2:0"), (50, 40))

    assert REASONS[status] == "another size than expected"
