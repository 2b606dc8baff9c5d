"""Rows for policies: torchvision's own functions on uint8, with the drawn operations."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.autoaugment import _apply_op
from torchvision.transforms.functional import pil_to_tensor, to_pil_image
from torchvision.transforms.v2._utils import _setup_fill_arg

from gpu_aug import AugMix, AutoAugment, RandAugment, TrivialAugmentWide
from gpu_aug.ops.policy.space import BLENDS
from tests.support.rows.row import SIZE, Row

WARPS = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")

Chosen = tuple[str, float]
"""torchvision's name of an operation, and its magnitude."""


def read(stage: list[dict[str, Any]]) -> Chosen | None:
    """What one sample's parameters of one stage mean in torchvision's words; None is nothing."""
    active = [carrier for carrier, params in enumerate(stage) if params["apply"]]
    assert len(active) <= 1
    if not active:
        return None
    params = stage[active[0]]
    if active[0] == 0:
        return read_matrix(params["matrix"])
    if active[0] == 1:
        return BLENDS[params["kind"]], params["factor"] - 1
    if active[0] == 2:
        return "Posterize", float(params["bits"])
    if active[0] == 3:
        return "Solarize", float(params["threshold"])
    return ("AutoContrast", "Equalize", "Invert")[active[0] - 4], 0.0


def read_matrix(matrix: np.ndarray) -> Chosen:
    if matrix[0, 0] != 1 or matrix[0, 1] == -matrix[1, 0] != 0:
        return "Rotate", math.degrees(math.atan2(matrix[0, 1], matrix[0, 0]))
    if matrix[0, 1] or matrix[1, 0]:
        return ("ShearX", -matrix[0, 1]) if matrix[0, 1] else ("ShearY", -matrix[1, 0])
    return ("TranslateX", matrix[0, 2]) if matrix[0, 2] else ("TranslateY", matrix[1, 2])


def stages(drawn: list[dict[str, Any]], num_carriers: int) -> Iterator[list[dict[str, Any]]]:
    """One stage after the other."""
    for first in range(0, len(drawn), num_carriers):
        yield drawn[first : first + num_carriers]


def carry_out(x: torch.Tensor, chosen: Chosen | None, mode: str, fill: float) -> torch.Tensor:
    """What torchvision's function makes of uint8."""
    if chosen is None:
        return x
    if mode == "bicubic" and chosen[0] in WARPS:  # torchvision has it for Pillow images alone
        image, color = to_pil_image(x), None if fill == 0 else [round(fill * 255)] * 3
        return pil_to_tensor(_apply_op(image, *chosen, InterpolationMode.BICUBIC, color))
    policy = v2.RandAugment()
    values = _setup_fill_arg(None if fill == 0 else round(fill * 255))
    return policy._apply_image_or_video_transform(x, *chosen, InterpolationMode(mode), values)


def by_torchvision(
    num_carriers: int, mode: str = "nearest", fill: float = 0.0
) -> Callable[[torch.Tensor, Any], torch.Tensor]:
    def oracle(x: torch.Tensor, drawn: list[dict[str, Any]]) -> torch.Tensor:
        x = (x * 255).round().to(torch.uint8)
        for stage in stages(drawn, num_carriers):
            x = carry_out(x, read(stage), mode, fill)
        return x.float() / 255

    return oracle


def augmix_by_torchvision(operation: AugMix) -> Callable[[torch.Tensor, Any], torch.Tensor]:
    num_carriers = len(operation.carriers)

    def oracle(x: torch.Tensor, drawn: dict[str, Any]) -> torch.Tensor:
        image = (x * 255).round().to(torch.uint8)
        weights = drawn["weights"]
        mixed = weights[0] * image.double()
        for chain in range(operation.mixture_width):
            changed = image
            for link in range(operation.num_links):
                keys = [f"{chain}.{link}.{carrier}." for carrier in range(num_carriers)]
                stage = [
                    {
                        name.removeprefix(key): value
                        for name, value in drawn.items()
                        if name.startswith(key)
                    }
                    for key in keys
                ]
                changed = carry_out(changed, read(stage), operation.interpolation, 0.0)
            mixed += weights[1 + chain] * changed
        return (mixed / 255).float()

    return oracle


# Of nearest resampling torchvision breaks ties by its own float32 noise, and its autocontrast on tensors
# differs from Pillow's by one step on some values of smooth pictures.
TIES = 0.01
QUARTER_TURN = 0.03  # one image of 24 is turned by 90 degrees, where every pixel is a tie
GATE = {"apply": 1}
MIX = AugMix()
NEAR = AugMix(5, 2, 2, 0.5, interpolation="nearest")
ROWS = {
    "randaugment": Row(RandAugment(), GATE, by_torchvision(6), 0.001, TIES),
    "strong randaugment": Row(RandAugment(3, 30), GATE, by_torchvision(6), 0.001, TIES),
    "bilinear randaugment": Row(
        RandAugment(2, 15, interpolation="bilinear", fill=0.2, blend="twice"),
        GATE,
        by_torchvision(6, "bilinear", 0.2),
        1.001,
        TIES,
    ),
    "bicubic randaugment": Row(
        RandAugment(2, 15, interpolation="bicubic", fill=0.2),
        GATE,
        by_torchvision(6, "bicubic", 0.2),
        1.001,
        TIES,
    ),
    "trivialaugment": Row(TrivialAugmentWide(), GATE, by_torchvision(6), 0.001, QUARTER_TURN),
    "autoaugment": Row(AutoAugment(), GATE, by_torchvision(7), 0.001, TIES),
    "autoaugment cifar10": Row(
        AutoAugment("cifar10", fill=0.4), GATE, by_torchvision(7, fill=0.4), 0.001, TIES
    ),
    "autoaugment svhn": Row(AutoAugment("svhn"), GATE, by_torchvision(7), 0.001, TIES),
    "augmix": Row(MIX, {"weights": 0.002}, augmix_by_torchvision(MIX), 1.001, TIES),
    "augmix nearest": Row(NEAR, {"weights": 0.002}, augmix_by_torchvision(NEAR), 0.001, TIES),
}
assert SIZE == (61, 84)
