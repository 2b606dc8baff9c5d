"""The kernels on a CPU, compiled by g++: for tests and rehearsals on machines without a GPU."""

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


class CpuKernels:
    """Calls the functions that the kernels consist of.

    Args:
        flags: Further ones for g++, such as those of a sanitizer.

    Raises:
        RuntimeError: g++ is missing or refuses, or the records of both languages differ.
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
        """See `Kernels`: the arena itself."""
        del num_bytes, reader
        return arena, _nothing

    def zero(self, address: int, num_bytes: int) -> None:
        """See `Kernels`."""
        ctypes.memset(address, 0, num_bytes)

    def download(self, target: NDArray[np.int32], address: int) -> None:
        """See `Kernels`."""
        ctypes.memmove(target.ctypes.data, address, target.nbytes)

    def launch(self, name: str, grid: tuple[int, int], job: "NDArray[np.void]") -> None:
        """Do the work of a kernel.

        Args:
            name: One of `on_gpu.NAMES`.
            grid: Its blocks of threads in x and y.
            job: JOB [1].
        """
        self.run(name, 0, grid[0] if name == "read_codes" else grid[1], job)

    def run(self, name: str, first: int, last: int, job: "NDArray[np.void]") -> None:
        """Do a part of the work: units `first` to `last` (half open)."""
        address = ctypes.c_void_p(job.ctypes.data)
        self._library[name](address, ctypes.c_uint32(first), ctypes.c_uint32(last))


class NoKernels:
    """Kernels that do nothing, for measurements of the host: every image gets the status GOOD."""

    device = torch.device("meta")

    def upload(
        self, arena: torch.Tensor, num_bytes: int, reader: Any = None
    ) -> tuple[torch.Tensor, Callable[[], None]]:
        """See `Kernels`."""
        del num_bytes, reader
        return arena, _nothing

    def zero(self, address: int, num_bytes: int) -> None:
        """See `Kernels`."""

    def launch(self, name: str, grid: tuple[int, int], job: "NDArray[np.void]") -> None:
        """See `Kernels`."""

    def download(self, target: NDArray[np.int32], address: int) -> None:
        """See `Kernels`."""
        del address
        target[:] = GOOD


def _nothing() -> None:
    """Return at once: nothing is under way."""


def build(flags: Sequence[str] = ()) -> Path:
    """Compile the kernels to a library, once for each text and flags; return its path."""
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
