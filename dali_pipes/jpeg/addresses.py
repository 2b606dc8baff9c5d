"""A first look at files in memory, in compiled code."""

from typing import Any

from gpu_aug.compiled.jit import kernel, load_u8


@kernel
def begin_like_jpegs(files: Any, found: Any) -> None:
    """Write which files begin with the marker of JPEGs.

    Args:
        files: int64 [n, 2]: address and length in bytes.
        found: bool [n], written.
    """
    for number in range(len(found)):
        address = files[number, 0]
        found[number] = files[number, 1] >= 2 and load_u8(address) == 0xFF and load_u8(address + 1) == 0xD8  # fmt: skip
