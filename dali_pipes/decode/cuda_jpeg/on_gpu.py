"""The kernels on a GPU, compiled with NVRTC (which comes with torch) on first use of each GPU architecture."""

import ctypes
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.records import GROUP_MAX, source
from dali_pipes.errors import LoaderError, import_optional

NAMES = ("read_codes", "invert", "color", "resize")
"""The kernels in launch order."""

# Threads per block: each reads the codes of one interval of a group. Must equal the number in kernels/launch_gpu.cuh.
THREADS = GROUP_MAX

MISSING_NVRTC = (
    'decoder="cuda" compiles its kernels with NVRTC, but cuda-bindings, which torch for CUDA installs, is missing: '
    "pip install cuda-bindings"
)
# No fused multiply-add: the CPU code does not use it, and pixels must be equal.
_OPTIONS = ("--fmad=false", "--std=c++17")
_LOCK = threading.Lock()
"""Lets one thread compile the kernels of a device while others wait for the result."""


def compile_kernels(architecture: str) -> bytes:
    """Compile the kernels to a cubin; needs no GPU.

    Args:
        architecture: For instance "sm_90".

    Returns:
        The cubin.

    Raises:
        MissingPackageError: NVRTC is missing.
        LoaderError: NVRTC reports an error.
    """
    nvrtc = import_optional("cuda.bindings.nvrtc", MISSING_NVRTC)
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


_WORD, _COUNT, _SIZE = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t
_CALLS: dict[str, list[Any]] = {
    "cuModuleLoadData": [_WORD, ctypes.c_char_p],
    "cuModuleGetFunction": [_WORD, _WORD, ctypes.c_char_p],
    "cuCtxGetCurrent": [_WORD],
    "cuCtxSetCurrent": [_WORD],
    "cuLaunchKernel": [_WORD, *[_COUNT] * 7, *[_WORD] * 3],
    "cuMemsetD8Async": [_WORD, ctypes.c_ubyte, _SIZE, _WORD],
    "cuMemcpyDtoHAsync_v2": [_WORD, _WORD, _SIZE, _WORD],
    "cuStreamWaitEvent": [_WORD, _WORD, _COUNT],
}
"""The functions of the CUDA driver that are used, with their argument types."""


class Driver:
    """Launches kernels through the CUDA driver API, in the CUDA context of the thread that creates this object.

    Calls keep the GIL: they take microseconds, but a thread that released it waited 1 ms to get it back.

    Args:
        cubin: The compiled kernels.
        stream: Returns the handle of the stream for a call.
        library: File name of the driver.

    Raises:
        LoaderError: A call fails.
    """

    def __init__(
        self, cubin: bytes, stream: Callable[[], int], library: str = "libcuda.so.1"
    ) -> None:
        driver, self._stream = ctypes.PyDLL(library), stream
        self._calls = {name: getattr(driver, name) for name in _CALLS}
        for name, call in self._calls.items():
            call.argtypes = _CALLS[name]
        module = _WORD()
        self._context = _WORD()
        self._call("cuModuleLoadData", ctypes.byref(module), cubin)
        self._call("cuCtxGetCurrent", ctypes.byref(self._context))
        self._functions = {name: _WORD() for name in NAMES}
        for name, function in self._functions.items():
            self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())

    def zero(self, address: int, num_bytes: int) -> None:
        """Enqueue zeroing memory. It is the first call of a launch, so it also binds the device's context to the thread."""
        self._call("cuCtxSetCurrent", self._context)
        self._call("cuMemsetD8Async", address, 0, num_bytes, self._stream())

    def wait(self, event: int) -> None:
        """Make the stream wait for an event."""
        self._call("cuStreamWaitEvent", self._stream(), event, 0)

    def launch(self, name: str, grid: tuple[int, int], job: "NDArray[np.void]") -> None:
        """Enqueue a kernel.

        Args:
            name: One of NAMES.
            grid: Thread blocks in x and y.
            job: JOB [1].
        """
        arguments = (_WORD * 1)(job.__array_interface__["data"][0])
        shape = (*grid, 1, THREADS, 1, 1, 0)
        self._call("cuLaunchKernel", self._functions[name], *shape, self._stream(), arguments, None)

    def download(self, target: NDArray[np.int32], address: int) -> None:
        """Enqueue a copy to pinned host memory."""
        to = target.__array_interface__["data"][0]
        self._call("cuMemcpyDtoHAsync_v2", to, address, target.nbytes, self._stream())

    def _call(self, name: str, *arguments: Any) -> None:
        if status := self._calls[name](*arguments):
            raise LoaderError(
                f'the GPU\'s JPEG decoder failed: {name} returned CUDA\'s error {status}; use decoder="cpu" or "dali"'
            )


class GpuKernels(Driver):
    """Launches the kernels on a CUDA device, on torch's current stream.

    Args:
        device: A CUDA device.

    Attributes:
        device: The CUDA device.

    Raises:
        LoaderError: The kernels cannot be compiled for the device.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        major, minor = torch.cuda.get_device_capability(device)
        cubin = compile_kernels(f"sm_{major}{minor}")
        with torch.cuda.device(device):
            # Driver calls need torch's CUDA context in this thread. A kernel launch binds it; allocating cached memory does not.
            torch.zeros(1, device=device)
            # Triton's way to get the stream: it takes 0.1 us; torch.cuda.current_stream takes 3 us.
            super().__init__(
                cubin, partial(torch._C._cuda_getCurrentRawStream, torch.cuda.current_device())
            )
            make: Any = torch.cuda.Stream
            self._uploads = make(device)

    def upload(
        self, arena: torch.Tensor, num_bytes: int, reader: Any = None
    ) -> tuple[torch.Tensor, Callable[[], None]]:
        """Start the copy on a separate stream, so that it overlaps with the kernels of other batches."""
        reader = torch.cuda.current_stream(self.device) if reader is None else reader
        with torch.cuda.stream(self._uploads):
            memory = torch.empty(num_bytes, dtype=torch.uint8, device=self.device)
            memory.copy_(arena[:num_bytes], non_blocking=True)
            done = self._uploads.record_event()
        # The memory was allocated on the upload stream. record_stream delays its reuse until the reader has finished with it.
        memory.record_stream(reader)
        # Keep the event alive until the stream waits for it.
        return memory, lambda: self.wait(done.cuda_event)


@cache
def _kernels_of(index: int) -> GpuKernels:
    return GpuKernels(torch.device("cuda", index))


def gpu_kernels(device: torch.device) -> GpuKernels:
    """Return the kernels of a device; they are compiled once, and any thread may call it."""
    with _LOCK:
        index = torch.cuda.current_device() if device.index is None else device.index
        return _kernels_of(index)


def _done(result: Any) -> Any:
    """Return the value of an NVRTC call, without its error code.

    Raises:
        LoaderError: The call failed.
    """
    status, *values = result
    if int(status) != 0:
        raise LoaderError(f'NVRTC failed with {status.name}; use decoder="cpu" or "dali"')
    return values[0] if values else None
