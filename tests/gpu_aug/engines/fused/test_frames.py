"""What a frame between two steps cuts off stays cut off in the fused engine, as OpenCV and Albumentations cut it one by one."""

from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional as tv

import gpu_aug
from gpu_aug import (
    Affine,
    CenterCrop,
    HorizontalFlip,
    Pad,
    RandomAffine,
    RandomPerspective,
    RandomRotation,
    Recipe,
    Resize,
)
from tests.support.engines import draw_for, render

SIZE, NUM = (48, 60), 12
BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "edge": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT_101,
    "symmetric": cv2.BORDER_REFLECT,
}


def both_ways(operations: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return what the fused engine and OpenCV make of a slope, NUM times, float32 [NUM, H, W, 3] in 0..255.

    The slope is linear: interpolating it twice is interpolating it once.
    """
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]] * 2.0 + 100
    image = np.stack([columns, rows, rows + columns - 100], axis=2).astype(np.uint8)
    recipe = Recipe([Resize(SIZE), HorizontalFlip(0), *operations])
    images = torch.from_numpy(np.stack([image] * NUM))
    draws = draw_for(recipe, images, seed=5)
    steps = [one_by_one(operations, draws.params[1:], image, row) for row in range(NUM)]
    ours = render("fused", recipe, images, draws)
    return ours.permute(0, 2, 3, 1).numpy() * 255, np.stack(steps)


def one_by_one(operations: list[Any], params: Any, image: np.ndarray, row: int) -> np.ndarray:
    """The same steps by OpenCV in float32, each on the frame that the one before left."""
    x = image.astype(np.float32)
    for operation, drawn in zip(operations, params, strict=True):
        border = BORDERS[operation.padding_mode]
        fill = [255 * float(operation.fill)] * 3
        if isinstance(operation, HorizontalFlip):
            x = np.ascontiguousarray(x[:, ::-1])
        elif isinstance(operation, Pad):
            side = operation.padding[0]
            x = cv2.copyMakeBorder(x, side, side, side, side, border, value=fill)
        elif isinstance(operation, CenterCrop):
            (top, left), (height, width) = drawn["start"][row], drawn["shape"][row]
            x = x[top : top + height, left : left + width]
        elif isinstance(operation, Resize):
            x = cv2.resize(x, operation.size[::-1], interpolation=cv2.INTER_LINEAR)
        else:
            size = drawn["shape"][row] if "shape" in drawn else x.shape[:2]
            where = tuple(np.asarray(size).tolist())[::-1]
            x = cv2.warpPerspective(
                x, drawn["matrix"][row], where, flags=cv2.INTER_LINEAR, borderMode=border, borderValue=fill
            )  # fmt: skip
    return x


def turn(**beside: Any) -> RandomAffine:
    return RandomAffine(40, (0.3, 0.3), scale=(0.8, 1.2), **beside)


CHAINS = {
    "warps": [turn(), turn()],
    "warps of two kinds": [RandomPerspective(0.6, p=1), turn()],
    "a growing rotation": [RandomRotation(40, expand=True), turn(), CenterCrop((40, 40))],
    "three warps": [turn(), RandomPerspective(0.6, p=1), turn()],
    "filled": [turn(fill=0.6), turn(fill=0.6)],
    "filled differently": [turn(fill=0.6), turn(fill=0.2)],
    "edges": [turn(padding_mode="edge"), turn(padding_mode="edge")],
    "mirrors": [turn(padding_mode="reflect"), turn(padding_mode="reflect")],
    "mirrors of edges": [turn(padding_mode="symmetric"), turn(padding_mode="symmetric")],
    "an edge of a fill": [turn(fill=0.6), turn(padding_mode="edge")],
    "flip between": [turn(), HorizontalFlip(1), turn()],
    "crop between": [turn(), CenterCrop((30, 40)), turn()],
    "crop before": [CenterCrop((30, 40)), turn(), turn()],
    "padding between": [turn(), Pad(6, fill=0.6), turn()],
    "padding between, cropped": [turn(), Pad(6), CenterCrop((50, 50)), turn()],
    "padding before": [CenterCrop((30, 40)), Pad(6), turn(), turn()],
    "resize between": [turn(), Resize((70, 50), antialias=False), turn()],
}


@pytest.mark.parametrize("label", CHAINS)
def test_a_chain_shows_what_opencv_shows_of_it_one_by_one(label):
    """But for the seams, a pixel wide, the same pixels are the image and the same ones are beside it."""
    ours, theirs = both_ways(CHAINS[label])

    stray = np.abs(ours - theirs).max(axis=3) > 6
    assert stray.mean() < 0.07
    square = np.ones((4, 4), np.uint8)  # no seam is so wide, not even in its corners
    assert not any(cv2.erode(one.astype(np.uint8), square, borderValue=0).any() for one in stray)
    assert np.abs(ours - np.roll(theirs, 3, axis=2)).max(axis=3).mean() > 3


def test_what_was_moved_out_and_back_is_gone_with_its_box():
    """As torchvision moves it; pixels, mask and box agree."""
    image = np.zeros((50, 50, 3), np.uint8)
    image[10:20, 5:15] = 255
    recipe = Recipe(
        [
            Resize((50, 50)),
            *[Affine(translate_percent=((share, share), (0, 0)), p=1) for share in (-0.4, 0.4)],
        ]
    )
    planar = torch.from_numpy(image).permute(2, 0, 1)
    for shift in (-20, 20):
        planar = tv.affine(planar, 0, [shift, 0], 1, [0, 0])
    sample = {"image": image, "boxes": [[5, 10, 15, 20]], "mask": image[..., 0]}

    [result] = gpu_aug.apply(recipe, [sample], engine="fused", seed=0)

    assert torch.equal(result["image"], planar / 255)
    assert not result["image"].any()
    assert (int(result["mask"].sum()), len(result["boxes"])) == (0, 0)
