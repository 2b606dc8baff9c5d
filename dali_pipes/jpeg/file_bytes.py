"""Reading bytes of open files, in compiled code."""

from gpu_aug.compiled.jit import c_function, inlined

# Offsets and lengths have 64 bits on the 64-bit Linux that this runs on.
_pread = c_function("pread", 64, 32, 64, 64, 64)


@inlined
def read_bytes(file: int, address: int, length: int, start: int) -> bool:
    """Read bytes from offset `start` of a file to an address; False where the file has fewer, or cannot be read."""
    while length > 0:
        count = _pread(file, address, length, start)
        if count <= 0:
            return False
        address, length, start = address + count, length - count, start + count
    return True
