"""The kernels on a GPU: compiled by NVRTC, which torch brings, when they are first used on a kind of device."""

import ctypes
import threading
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.source import source
from dali_pipes.errors import LoaderError

NAMES = ("read_codes", "invert", "color", "resize")
"""The kernels in the order in which they are launched."""

THREADS = 128
_OPTIONS = ("--fmad=false", "--std=c++17")  # no product is fused with a sum: CPUs do not
_LOCK = threading.Lock()


def compile_kernels(architecture: str) -> bytes:
    """Compile the kernels, which takes no GPU.

    Args:
        architecture: For instance "sm_90".

    Returns:
        A cubin.

    Raises:
        LoaderError: NVRTC is missing, or refuses.
    """
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise LoaderError(
            'decoder="cuda" compiles its kernels with NVRTC, but cuda-bindings, which torch for CUDA installs, is missing: '
            "pip install cuda-bindings"
        ) from error
    program = _done(nvrtc.nvrtcCreateProgram(source("gpu").encode(), b"cuda_jpeg.cu", 0, [], []))
    options = [option.encode() for option in (f"--gpu-architecture={architecture}", *_OPTIONS)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = b" " * _done(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        text = log.decode(errors="replace").strip("\0 ")
        raise LoaderError(f"NVRTC could not compile the JPEG kernels for {architecture}: {text}")
    cubin: bytes = b" " * _done(nvrtc.nvrtcGetCUBINSize(program))
    _done(nvrtc.nvrtcGetCUBIN(program, cubin))
    nvrtc.nvrtcDestroyProgram(program)
    return cubin


class GpuKernels:
    """Launches the kernels on a device.

    Args:
        device: A CUDA device.

    Attributes:
        device: As given.

    Raises:
        LoaderError: The kernels cannot be compiled for it.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        major, minor = torch.cuda.get_device_capability(device)
        cubin = compile_kernels(f"sm_{major}{minor}")
        with torch.cuda.device(device):
            torch.empty(1, device=device)  # the driver's calls need torch's context in this thread
            self._driver = Driver(cubin)

    def launch(self, name: str, grid: tuple[int, int], job: "NDArray[np.void]") -> None:
        """Ask for a kernel on torch's current stream of the device, in a thread that has used the device.

        Args:
            name: One of NAMES.
            grid: Blocks of threads in x and y.
            job: JOB [1].
        """
        stream: Any = torch.cuda.current_stream(self.device).cuda_stream
        self._driver.launch(name, grid, stream, job.ctypes.data)


class Driver:
    """The kernels in the hands of CUDA's driver, in the context of the thread that makes this.

    Args:
        cubin: The compiled kernels.
        library: The driver.

    Raises:
        LoaderError: A call fails.
    """

    def __init__(self, cubin: bytes, library: str = "libcuda.so.1") -> None:
        self._library = ctypes.CDLL(library)
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(cubin))
        self._functions = {name: ctypes.c_void_p() for name in NAMES}
        for name, function in self._functions.items():
            self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())

    def launch(self, name: str, grid: tuple[int, int], stream: int, argument: int) -> None:
        """Ask for a kernel on a stream; `argument` is the address of its only argument."""
        numbers = [ctypes.c_uint(number) for number in (*grid, 1, THREADS, 1, 1, 0)]
        arguments = (ctypes.c_void_p * 1)(argument)
        self._call(
            "cuLaunchKernel", self._functions[name], *numbers, ctypes.c_void_p(stream), arguments, None
        )  # fmt: skip

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            raise LoaderError(
                f'the GPU\'s JPEG decoder failed: {name} returned CUDA\'s error {status}; use decoder="cpu" or "dali"'
            )


@cache
def _kernels_of(index: int) -> GpuKernels:
    return GpuKernels(torch.device("cuda", index))


def gpu_kernels(device: torch.device) -> GpuKernels:
    """The kernels of a device, compiled once; any thread may ask."""
    with _LOCK:
        index = torch.cuda.current_device() if device.index is None else device.index
        return _kernels_of(index)


def _done(result: Any) -> Any:
    """What a call of NVRTC returned.

    Raises:
        LoaderError: It failed.
    """
    status, *values = result
    if int(status) != 0:
        raise LoaderError(f'NVRTC failed with {status.name}; use decoder="cpu" or "dali"')
    return values[0] if values else None
