"""The rounding and clipping that libraries apply to 8-bit images, made explicit for floats."""

from gpu_aug.ops.color.normalize import ToDtype
from gpu_aug.ops.combine import RandomApply
from gpu_aug.ops.operation import Operation


def within_8_bits(operation: Operation) -> list[Operation]:
    """Return an operation on 8-bit images; after bicubic resampling values are cut to what 8 bits hold.

    The bicubic kernel has negative weights: beside an edge it leaves [0, 1].
    """
    overshoots = any(
        getattr(leaf, "interpolation", None) == "bicubic" and not leaf.leaves_unit_range
        for leaf in operation.leaves
    )
    if not overshoots:
        return [operation]
    if isinstance(operation, RandomApply):
        return [RandomApply([*operation.operations, ToDtype("uint8")], operation.p)]
    return [operation, ToDtype("uint8")]


def rounded_once(operations: list[Operation]) -> list[Operation]:
    """Leave out the second of two roundings to 8 bits with nothing between them."""
    rounding = ToDtype("uint8")
    return [
        operation
        for number, operation in enumerate(operations)
        if number == 0 or not operation == operations[number - 1] == rounding
    ]
