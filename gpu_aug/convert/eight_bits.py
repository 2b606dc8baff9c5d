"""What libraries do to 8-bit images of themselves, and floats need to be told."""

from gpu_aug.ops.colour import ToDtype
from gpu_aug.ops.operation import Operation


def within_8_bits(operation: Operation) -> list[Operation]:
    """Return an operation on 8-bit images; after bicubic resampling values are cut to what 8 bits hold.

    The bicubic kernel has negative weights: beside an edge it leaves [0, 1].
    """
    overshoots = any(
        getattr(leaf, "interpolation", None) == "bicubic" and not leaf.leaves_unit_range
        for leaf in operation.leaves
    )
    return [operation, ToDtype("uint8")] if overshoots else [operation]
