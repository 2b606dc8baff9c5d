"""Rows for flips, crops, borders and resamplings."""

from typing import Any

import albumentations as A
import cv2
import torch
from torchvision.transforms.v2 import functional as tv

from gpu_aug import (
    D4,
    AtLeastOneBBoxRandomCrop,
    BBoxSafeRandomCrop,
    CenterCrop,
    CropAndPad,
    FixedCrop,
    HorizontalFlip,
    LongestMaxSize,
    Pad,
    PadIfNeeded,
    RandomCrop,
    RandomCropFromBorders,
    RandomCropNearBBox,
    RandomIoUCrop,
    RandomResize,
    RandomResizedCrop,
    RandomRotate90,
    RandomScale,
    RandomShortestSize,
    RandomSizedBBoxSafeCrop,
    RandomSizedCrop,
    RandomZoomOut,
    Resize,
    ScaleJitter,
    SmallestMaxSize,
    Transpose,
    VerticalFlip,
)
from tests.support.rows.row import SIZE, Row, inject

CV2 = {
    "bilinear": cv2.INTER_LINEAR,
    "bicubic": cv2.INTER_CUBIC,
    "area": cv2.INTER_AREA,
    "nearest": cv2.INTER_NEAREST_EXACT,
    "nearest_floor": cv2.INTER_NEAREST,
}
TV = {
    "bilinear": tv.InterpolationMode.BILINEAR,
    "bicubic": tv.InterpolationMode.BICUBIC,
    "nearest": tv.InterpolationMode.NEAREST_EXACT,
    "nearest_floor": tv.InterpolationMode.NEAREST,
}
BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "edge": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT_101,
    "symmetric": cv2.BORDER_REFLECT,
}


def pads(p: dict) -> list[int]:
    """Left, top, right, bottom of what a rectangle needs around the image."""
    (top, left), (height, width) = p["start"].tolist(), p["shape"].tolist()
    return [
        max(-left, 0),
        max(-top, 0),
        max(left + width - SIZE[1], 0),
        max(top + height - SIZE[0], 0),
    ]


def torchvision_crop(fill: Any = 0, mode: str = "constant") -> Any:
    def crop(x: torch.Tensor, p: dict) -> torch.Tensor:
        border = pads(p)
        padded = tv.pad(x, border, fill=fill, padding_mode=mode)
        (top, left), shape = p["start"].tolist(), p["shape"].tolist()
        return tv.crop(padded, top + border[1], left + border[0], *shape)

    return crop


def opencv_border(fill: float, mode: str) -> Any:
    """As often mirrored as necessary, which torchvision is not."""

    def crop(x: torch.Tensor, p: dict) -> torch.Tensor:
        left, top, right, bottom = pads(p)
        call = A.Pad(border_mode=BORDERS[mode], fill=fill)
        sides = {"pad_top": top, "pad_bottom": bottom, "pad_left": left, "pad_right": right}
        padded = inject(call, x, **sides)
        first, second = p["start"].tolist()
        return tv.crop(padded, first + top, second + left, *p["shape"].tolist())

    return crop


def torchvision_resize(way: str, *, antialias: bool) -> Any:
    def resize(x: torch.Tensor, p: dict) -> torch.Tensor:
        box = [*p["start"].tolist(), *p["shape"].tolist()]
        size = p["resize"].tolist()
        return tv.resized_crop(x, *box, size, TV[way], antialias=antialias)

    return resize


def opencv_resize(way: str) -> Any:
    def resize(x: torch.Tensor, p: dict) -> torch.Tensor:
        (top, left), (height, width) = p["start"].tolist(), p["shape"].tolist()
        size = tuple(p["resize"].tolist())
        call = A.RandomResizedCrop(size, interpolation=CV2[way])
        return inject(call, x, crop_coords=(left, top, left + width, top + height))

    return resize


def crop_and_pad(operation: CropAndPad) -> Any:
    """Albumentations' own CropAndPad; it crops first, then pads."""

    def move(x: torch.Tensor, p: dict) -> torch.Tensor:
        (top, left), (height, width) = p["start"].tolist(), p["shape"].tolist()
        border = pads(p)
        box = [max(left, 0), max(top, 0), min(left + width, SIZE[1]), min(top + height, SIZE[0])]
        call = A.CropAndPad(
            px=0,
            keep_size=operation.keep_size,
            interpolation=CV2[operation.interpolation],
            border_mode=BORDERS[operation.padding_mode],
        )
        return inject(
            call,
            x,
            crop_params=box,
            pad_params=[border[1], border[3], border[0], border[2]],
            fill=operation.fill,
        )

    return move


def d4(x: torch.Tensor, p: dict) -> torch.Tensor:
    x = x.transpose(1, 2) if p["transpose"] else x
    x = tv.vertical_flip(x) if p["top_bottom"] else x
    return tv.horizontal_flip(x) if p["left_right"] else x


def quarter_turn(x: torch.Tensor, p: dict) -> torch.Tensor:
    turns = {
        (False, False, False): 0,
        (True, True, False): 1,
        (False, True, True): 2,
        (True, False, True): 3,
    }
    factor = turns[bool(p["transpose"]), bool(p["top_bottom"]), bool(p["left_right"])]
    return inject(A.RandomRotate90(), x, factor=factor)


MOVED = {"start": 1.0}
CUT = {"shape": -1.0}
SHIFT = CropAndPad((-20, 20), antialias=False)
GRAY = (0.2, 0.4, 0.6)

ROWS = {
    "flip": Row(HorizontalFlip(), {"left_right": 1}, lambda x, _: tv.horizontal_flip(x)),
    "vertical flip": Row(VerticalFlip(), {"top_bottom": 1}, lambda x, _: tv.vertical_flip(x)),
    "transpose": Row(Transpose(1.0), {"left_right": 1}, lambda x, _: inject(A.Transpose(), x)),
    "transpose half": Row(Transpose(), {"left_right": 1}, lambda x, _: x.transpose(1, 2)),
    "quarter turns": Row(RandomRotate90(), {"left_right": 1}, quarter_turn),
    "d4": Row(D4(0.9), {"left_right": 1}, d4),
    "center crop": Row(CenterCrop((40, 33)), MOVED, lambda x, _: tv.center_crop(x, [40, 33])),
    "center crop and pad": Row(
        CenterCrop((70, 51)), MOVED, lambda x, _: tv.center_crop(x, [70, 51])
    ),
    "fixed crop": Row(FixedCrop((40, 33), "bottom_right"), MOVED, torchvision_crop()),
    "random crop": Row(RandomCrop((40, 33)), MOVED, torchvision_crop()),
    "random crop, padded": Row(
        RandomCrop(SIZE, 8, fill=GRAY), MOVED, torchvision_crop(list(GRAY)), 1e-5
    ),
    "random crop, edge": Row(
        RandomCrop((80, 80), padding_mode="edge"), MOVED, torchvision_crop(mode="edge")
    ),
    "random crop, reflect": Row(
        RandomCrop((150, 300), (9, 3), padding_mode="reflect"), MOVED, opencv_border(0, "reflect")
    ),
    "random crop, symmetric": Row(
        RandomCrop((150, 300), padding_mode="symmetric"), MOVED, opencv_border(0, "symmetric")
    ),
    "pad": Row(Pad((3, 4, 5, 6), fill=0.25), MOVED, torchvision_crop(0.25), 1e-5),
    "pad if needed": Row(
        PadIfNeeded((100, None), divisor=(None, 32), position="random"), MOVED, torchvision_crop()
    ),
    "zoom out": Row(RandomZoomOut(fill=GRAY, p=1.0), MOVED, torchvision_crop(list(GRAY)), 1e-5),
    "crop that overlaps a box": Row(RandomIoUCrop(), MOVED, torchvision_crop()),
    "crop with one box at least": Row(
        AtLeastOneBBoxRandomCrop((40, 33)), MOVED, torchvision_crop()
    ),
    "crop near a box": Row(RandomCropNearBBox((0.2, 0.5)), MOVED, torchvision_crop()),
    "crop with all boxes": Row(BBoxSafeRandomCrop(), MOVED, torchvision_crop()),
    "crop with all boxes, resized": Row(
        RandomSizedBBoxSafeCrop((40, 33), antialias=False), MOVED, opencv_resize("bilinear"), 0.01
    ),
    "crop from borders": Row(RandomCropFromBorders(0.1, 0.2, 0.3, 0.4), MOVED, torchvision_crop()),
    "crop and pad": Row(SHIFT, MOVED, crop_and_pad(SHIFT), 0.01),
    "crop and pad, no resize": Row(
        operation := CropAndPad(percent=((-0.2, 0.1), 0.1, (-0.1, 0.3), -0.1), keep_size=False),
        MOVED,
        crop_and_pad(operation),
    ),
    "resize": Row(Resize(31), CUT, torchvision_resize("bilinear", antialias=True), 0.001),
    "resize, longest side": Row(
        Resize(None, max_size=50), CUT, lambda x, _: tv.resize(x, None, max_size=50), 0.001
    ),
    "resize, shortest and longest side": Row(
        Resize(50, max_size=60), CUT, lambda x, _: tv.resize(x, [50], max_size=60), 0.001
    ),
    "shrink": Row(Resize((40, 48), antialias=False), CUT, opencv_resize("bilinear"), 0.01),
    "grow": Row(Resize(100, antialias=False), CUT, opencv_resize("bilinear"), 0.01),
    "bicubic": Row(
        Resize((40, 130), interpolation="bicubic", antialias=False),
        CUT,
        torchvision_resize("bicubic", antialias=False),
        0.01,
    ),
    "bicubic, antialiased": Row(
        Resize((40, 130), interpolation="bicubic"),
        CUT,
        torchvision_resize("bicubic", antialias=True),
        0.01,
    ),
    "area": Row(Resize((40, 48), interpolation="area"), CUT, opencv_resize("area"), 0.01),
    "area, wholes": Row(
        RandomResizedCrop((8, 6), scale=(0.9, 1.0), interpolation="area"),
        CUT,
        opencv_resize("area"),
        0.01,
    ),
    "area, growing": Row(Resize((40, 130), interpolation="area"), CUT, opencv_resize("area"), 0.01),
    "area for downscale": Row(
        Resize((40, 130), antialias=False, area_for_downscale=True),
        CUT,
        opencv_resize("area"),
        0.01,
    ),
    "nearest": Row(
        Resize((40, 130), interpolation="nearest"),
        {"shape": -9.0},
        torchvision_resize("nearest", antialias=False),
        oracle_stray=0.02,
    ),
    "nearest, floor": Row(
        Resize((40, 130), interpolation="nearest_floor"),
        {"shape": -9.0},
        opencv_resize("nearest_floor"),
        oracle_stray=0.02,
    ),
    "random resized crop": Row(
        RandomResizedCrop((40, 48)),
        MOVED | CUT,
        torchvision_resize("bilinear", antialias=True),
        0.001,
    ),
    "random resized crop, not antialiased": Row(
        RandomResizedCrop((40, 48), antialias=False), MOVED | CUT, opencv_resize("bilinear"), 0.01
    ),
    "random resized crop, bicubic": Row(
        RandomResizedCrop(70, antialias=False, interpolation="bicubic"),
        MOVED | CUT,
        opencv_resize("bicubic"),
        0.01,
    ),
    "random sized crop": Row(
        RandomSizedCrop((20, 60), 40, w2h_ratio=1.3, antialias=False),
        MOVED | CUT,
        opencv_resize("bilinear"),
        0.01,
    ),
    "longest side": Row(
        LongestMaxSize((40, 50, 110), antialias=False), CUT, opencv_resize("bilinear"), 0.01
    ),
    "smallest side": Row(
        SmallestMaxSize(max_size_hw=(30, None), antialias=False),
        CUT,
        opencv_resize("bilinear"),
        0.01,
    ),
    "scale": Row(
        RandomScale((0.5, 1.5)), CUT, torchvision_resize("bilinear", antialias=True), 0.001
    ),
    "random resize": Row(
        RandomResize(30, 90), CUT, torchvision_resize("bilinear", antialias=True), 0.001
    ),
    "shortest side": Row(
        RandomShortestSize((30, 50, 90), 100),
        CUT,
        torchvision_resize("bilinear", antialias=True),
        0.001,
    ),
    "scale jitter": Row(
        ScaleJitter(50, (0.5, 1.5)), CUT, torchvision_resize("bilinear", antialias=True), 0.001
    ),
}
