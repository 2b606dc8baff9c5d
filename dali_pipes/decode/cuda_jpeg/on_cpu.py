"""The CUDA kernels compiled for the CPU by g++, for tests and rehearsals on machines without a GPU."""

import ctypes
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.records import RECORDS, source
from dali_pipes.jpeg.status import GOOD

FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-Wno-unknown-pragmas")
"""`-ffp-contract=off` matches NVRTC's `--fmad=false`: fused multiply-adds would change pixels."""


class CpuKernels:
    """Runs the functions of the CUDA kernels on the CPU.

    Args:
        flags: Additional flags for g++, such as those of a sanitizer.

    Raises:
        RuntimeError: g++ is missing or fails, or the records of Python and C++ have different sizes.
    """

    device = torch.device("cpu")

    def __init__(self, flags: Sequence[str] = ()) -> None:
        self._library = ctypes.CDLL(str(build(flags)))
        sizes = [self._library.record_bytes(number) for number in range(len(RECORDS))]
        expected = [record.itemsize for record in RECORDS]
        if sizes != expected:
            raise RuntimeError(f"records have {sizes} bytes in C++, but {expected} in NumPy")

    def upload(
        self, arena: torch.Tensor, num_bytes: int, reader: Any = None
    ) -> tuple[torch.Tensor, Callable[[], None]]:
        """Return the arena itself, and a function that does nothing."""
        del num_bytes, reader
        return arena, lambda: None

    def zero(self, address: int, num_bytes: int) -> None:
        """Fill memory with zeros at once."""
        ctypes.memset(address, 0, num_bytes)

    def download(self, target: NDArray[np.int32], address: int) -> None:
        """Copy the memory at once."""
        ctypes.memmove(target.ctypes.data, address, target.nbytes)

    def launch(self, name: str, grid: tuple[int, int], job: "NDArray[np.void]") -> None:
        """Run all units of a kernel at once.

        Args:
            name: One of `on_gpu.NAMES`.
            grid: Thread blocks in x and y.
            job: JOB [1].
        """
        self.run(name, 0, grid[0] if name == "read_codes" else grid[1], job)

    def run(self, name: str, first: int, last: int, job: "NDArray[np.void]") -> None:
        """Run units `first` to `last` (half open) of a kernel; a unit is the work of one thread on the GPU."""
        address = ctypes.c_void_p(job.ctypes.data)
        self._library[name](address, ctypes.c_uint32(first), ctypes.c_uint32(last))


class NoKernels:
    """Kernels that do nothing, to measure the host alone; every image gets the status GOOD."""

    device = torch.device("meta")

    def upload(
        self, arena: torch.Tensor, num_bytes: int, reader: Any = None
    ) -> tuple[torch.Tensor, Callable[[], None]]:
        """Return the arena itself, and a function that does nothing."""
        del num_bytes, reader
        return arena, lambda: None

    def zero(self, address: int, num_bytes: int) -> None:
        """Do nothing."""

    def launch(self, name: str, grid: tuple[int, int], job: "NDArray[np.void]") -> None:
        """Do nothing."""

    def download(self, target: NDArray[np.int32], address: int) -> None:
        """Report every image as GOOD."""
        del address
        target[:] = GOOD


def build(flags: Sequence[str] = ()) -> Path:
    """Compile the kernels to a shared library and return its path; a library is cached by source text and flags."""
    text, options = source("cpu"), [*FLAGS, *flags]
    digest = hashlib.sha256("\0".join([text, *options]).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"gpu-aug-cuda-jpeg-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{digest}.so"
    if not library.exists():
        part = folder / f"{digest}.{os.getpid()}.part"
        command = ["g++", *options, "-x", "c++", "-", "-o", str(part)]
        found = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if found.returncode:
            raise RuntimeError(f"g++ could not compile the JPEG kernels: {found.stderr[-2000:]}")
        part.replace(library)
    return library
