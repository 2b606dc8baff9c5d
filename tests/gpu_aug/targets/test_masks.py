"""Masks: moved once for all engines, judged by torch, torchvision, OpenCV and numpy."""

from itertools import product

import cv2
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gpu_aug.targets import masks as m

SIZE = (61, 84)
MODES = {
    "constant": cv2.BORDER_CONSTANT,
    "edge": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT_101,
    "symmetric": cv2.BORDER_REFLECT,
}


@pytest.fixture(scope="module")
def masks() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 250, (3, *SIZE)).astype(np.uint8)


@pytest.mark.parametrize("resize", [(61, 84), (17, 9), (122, 200), (1, 1), (60, 85)])
@pytest.mark.parametrize("floor", [True, False])
def test_resampling_is_torchs(masks, resize, floor):
    """Both kinds of nearest take torch's pixels, of a rectangle too."""
    start, shape = np.array([3, 10]), np.array([50, 70])

    result = m.resample(masks, start, shape, np.array(resize), "constant", 0, floor=floor)

    part = torch.from_numpy(masks[:, 3:53, 10:80].copy())[None]
    expected = F.interpolate(part, resize, mode="nearest" if floor else "nearest-exact")[0]
    assert (result == expected.numpy()).all()


@pytest.mark.parametrize("mode", MODES)
def test_one_pixel_mirrors_to_itself(mode):
    """A mask of one pixel can be padded in every mode."""
    result = m.cut(np.full((1, 1, 1), 5), np.array([-2, -2]), np.array([4, 5]), mode, 5)
    assert (result == 5).all()


@pytest.mark.parametrize(
    ("transpose", "top_bottom", "left_right"), list(product((False, True), repeat=3))
)
@pytest.mark.parametrize(
    "change",
    [
        lambda masks: masks,
        lambda masks: masks > 99,
        lambda masks: masks.astype(np.int64),
        lambda masks: masks[:, ::-1, ::2],
        lambda masks: masks[:0],
    ],
    ids=["bytes", "bool", "int64", "reversed view", "no masks"],
)
def test_turns_and_mirrors_are_exact(masks, change, transpose, top_bottom, left_right):
    """All eight are numpy's."""
    masks = change(masks)
    expected = masks.transpose(0, 2, 1) if transpose else masks
    expected = expected[:, :: -1 if top_bottom else 1, :: -1 if left_right else 1]
    result = m.reorient(masks, transpose, top_bottom, left_right)
    assert result.dtype == masks.dtype
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("mode", MODES)
def test_a_remap_is_opencvs_nearest(masks, mode):
    """All but pixels on ties are those of OpenCV's remap."""
    rng = np.random.default_rng(1)
    field = cv2.GaussianBlur(rng.uniform(-60, 60, (*SIZE, 2)), (0, 0), 4)
    field = field.transpose(2, 0, 1).astype(np.float32)
    y, x = np.mgrid[: SIZE[0], : SIZE[1]].astype(np.float32)

    result = m.remap(masks, field, mode, 7)

    expected = cv2.remap(
        masks[0],
        x + field[0],
        y + field[1],
        cv2.INTER_NEAREST,
        borderMode=MODES[mode],
        borderValue=7,
    )
    assert (result[0] != expected).mean() < 0.005
    assert (result != masks).mean() > 0.5


@pytest.mark.parametrize(
    "dtype", [bool, np.uint8, np.int8, np.uint16, np.int32, np.int64, np.uint64]
)
def test_every_integer_type_stays(dtype):
    """A mask keeps its type, and its largest value, through every function."""
    largest = 1 if dtype is bool else np.iinfo(dtype).max
    mask = np.full((2, 9, 7), largest, dtype)

    results = [
        m.cut(mask, np.array([1, 1]), np.array([4, 4]), "constant", 0),
        m.resample(mask, np.array([0, 0]), np.array([9, 7]), np.array([20, 3]), "constant", 0),
        m.reorient(mask, True, True, False),
        m.warp(mask, np.eye(3), (9, 7), "constant", 0),
        m.remap(mask, np.zeros((2, 9, 7), np.float32), "constant", 0),
    ]

    assert all(result.dtype == mask.dtype and (result == largest).all() for result in results)


def test_a_warp_that_flattens_all_leaves_the_fill():
    """A matrix without inverse shows nothing of the mask, and does not fail."""
    assert (m.warp(np.ones((1, 5, 5), np.uint8), np.zeros((3, 3)), (4, 6), "edge", 9) == 9).all()
