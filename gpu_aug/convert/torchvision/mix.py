"""Converters for mixing and policies of torchvision; transforms and transforms.v2 have equal attributes."""

from typing import Any

from gpu_aug.convert.containers import unit_fill
from gpu_aug.convert.registry import TORCHVISION, Changed, Refused, converts
from gpu_aug.convert.torchvision.warps import interpolation_name, warping
from gpu_aug.ops.mix import CutMix, MixUp
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.policy.policy import AugMix, AutoAugment, RandAugment, TrivialAugmentWide


@converts(TORCHVISION, "MixUp")
def _mixup(transform: Any) -> Changed:
    note = "each image draws its own lam, and not a batch one for all; its partner is the other of a pair"
    return Changed(MixUp(transform.alpha, transform.num_classes), note)


@converts(TORCHVISION, "CutMix")
def _cutmix(transform: Any) -> Changed:
    note = "each image draws its own box, and not a batch one for all; its partner is the other of a pair"
    return Changed(CutMix(transform.alpha, transform.num_classes), note)


@converts(TORCHVISION, "RandAugment")
def _rand_augment(transform: Any) -> Operation | None:
    if transform.num_ops == 0:
        return None
    bins = _bins(transform)
    if not -bins <= transform.magnitude < bins:
        raise Refused(
            f"its magnitude {transform.magnitude} is none of its {bins} magnitudes",
            f"gpu_aug.RandAugment(magnitude={bins - 1})",
        )
    return RandAugment(
        transform.num_ops,
        transform.magnitude % bins,
        bins,
        **_look(transform),
    )


@converts(TORCHVISION, "TrivialAugmentWide")
def _trivial_augment(transform: Any) -> Operation | None:
    return TrivialAugmentWide(_bins(transform), **_look(transform))


@converts(TORCHVISION, "AutoAugment")
def _auto_augment(transform: Any) -> Operation | None:
    return AutoAugment(transform.policy.value, **_look(transform))


@converts(TORCHVISION, "AugMix")
def _augmix(transform: Any) -> Operation | None:
    return AugMix(
        transform.severity,
        transform.mixture_width,
        transform.chain_depth if transform.chain_depth > 0 else -1,
        transform.alpha,
        transform.all_ops,
        **_look(transform),
    )


def _bins(transform: Any) -> int:
    bins: int = transform.num_magnitude_bins
    if bins < 2:
        raise Refused("one magnitude alone divides by zero in torchvision", "num_magnitude_bins=2")
    return bins


def _look(transform: Any) -> dict[str, Any]:
    """Return interpolation and fill of a policy, which works on uint8 images, as keyword arguments."""
    if isinstance(transform.fill, dict):
        raise Refused("its fill depends on the type of the input", "a number, or three")
    if interpolation_name(transform) == "bicubic":
        return {"interpolation": "bicubic", "fill": unit_fill(transform.fill)}
    return warping(transform, transform.fill)
