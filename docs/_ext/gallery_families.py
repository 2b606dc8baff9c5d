"""Which operations stand on which page of the gallery."""

from dataclasses import dataclass

import gpu_aug
from gpu_aug import Operation


@dataclass(frozen=True)
class Family:
    """A page of the gallery.

    Attributes:
        title: What its operations have in common.
        modules: Where they are defined, below `gpu_aug.ops`.
    """

    title: str
    modules: tuple[str, ...]


FAMILIES = {
    "crops": Family(
        "Crops and borders",
        (
            "geometric.crops",
            "geometric.resized_crops",
            "geometric.box_crops",
            "geometric.iou_crop",
            "imported.crops",
            "geometric.pads",
        ),
    ),
    "sizes": Family("Sizes", ("geometric.resizes", "geometric.random_resizes")),
    "turns": Family(
        "Flips, rotations and perspective",
        ("geometric.flips", "geometric.rotate", "geometric.affine", "geometric.perspective"),
    ),
    "distortions": Family(
        "Distortions", ("imported.distortion", "geometric.elastic", "imported.control_points")
    ),
    "factors": Family("Brightness, contrast and colour", ("color.jitter", "color.adjust")),
    "tables": Family(
        "Tone curves and channels", ("color.lookup_tables", "imported.tones", "color.matrices")
    ),
    "light": Family(
        "Light, stains and normalisation",
        ("imported.shading", "imported.planckian", "imported.color", "color.normalize"),
    ),
    "blur": Family(
        "Blur and sharpening",
        ("blur.blurs", "imported.filters", "blur.edges"),
    ),
    "noise": Family(
        "Noise and compression",
        ("noise.noise", "imported.noise", "noise.compression"),
    ),
    "dropout": Family(
        "Dropout and shuffled tiles", ("dropout.dropout", "dropout.erase", "imported.dropout")
    ),
    "mixing": Family("Mixing samples", ("mix",)),
    "policies": Family("Policies and choices", ("policy.policy", "combine")),
    "others": Family(
        "Boxes, frames and other libraries",
        ("boxes", "temporal", "foreign.transforms", "foreign.function"),
    ),
}
"""The pages, by name, in their order."""


def operations(family: Family) -> list[str]:
    """Return the names of a family's operations, as they stand in the code."""
    found = []
    for module in family.modules:
        for name, made in Operation._classes.items():
            if made.__module__ == f"gpu_aug.ops.{module}" and name in gpu_aug.__all__:
                found.append(name)
    return found
