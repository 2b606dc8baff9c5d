"""Compiling the kernels for GPUs, and handing them to the driver, without a GPU."""

import ctypes
import itertools
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dali_pipes.decode.cuda_jpeg.on_gpu import NAMES, THREADS, Driver, compile_kernels
from dali_pipes.decode.cuda_jpeg.records import JOB
from dali_pipes.errors import LoaderError

_NVRTC = (13, 2)
"""The compiler to which the numbers of `_REGISTERS` belong."""
_REGISTERS = {
    "sm_80": {"read_codes": (40, 8), "invert": (92, 0), "color": (31, 0), "resize": (96, 0)},
    "sm_90": {"read_codes": (45, 0), "invert": (93, 0), "color": (30, 0), "resize": (96, 0)},
    "sm_100": {"read_codes": (48, 0), "invert": (93, 0), "color": (32, 0), "resize": (96, 0)},
}
"""Registers and bytes of stack per thread: a stack of 0 means that nothing is spilled."""
_DRIVER = """
#include <string.h>
struct Asked { unsigned grid[3], block[3], shared; unsigned long long stream, first_word; char name[32]; void *context, *event; };
static Asked asked;
static char names[8][32];
static int num_names;
extern "C" {
int cuModuleLoadData(void** module, const char* image) { *module = (void*)7; return memcmp(image, "cubin", 5) ? 200 : 0; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  strncpy(names[num_names], name, 31);
  *function = names[num_names++];
  return module == (void*)7 ? 0 : 400;
}
int cuLaunchKernel(void* f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned shared,
                   void* stream, void** arguments, void** extra) {
  asked = {{a, b, c}, {d, e, g}, shared, (unsigned long long)stream, *(unsigned long long*)arguments[0], {0}, 0, 0};
  strcpy(asked.name, (char*)f);
  return extra ? 1 : 0;
}
int cuCtxGetCurrent(void** context) { *context = (void*)77; return 0; }
int cuCtxSetCurrent(void* context) { asked.context = context; return 0; }
int cuMemsetD8Async(unsigned long long to, unsigned char byte, size_t count, void* stream) {
  memset((void*)to, byte, count);
  asked.stream = (unsigned long long)stream;
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t count, void* stream) {
  memcpy(to, (void*)from, count);
  asked.stream = (unsigned long long)stream;
  return 0;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  asked.stream = (unsigned long long)stream;
  asked.event = event;
  return flags;
}
Asked* last() { return &asked; }
}
"""


class _Asked(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_ulonglong),
        ("first_word", ctypes.c_ulonglong),
        ("name", ctypes.c_char * 32),
        ("context", ctypes.c_void_p),
        ("event", ctypes.c_void_p),
    ]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A driver that notes what it is asked for."""
    path = tmp_path_factory.mktemp("driver") / "libcuda.so"
    command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(path)]
    subprocess.run(command, input=_DRIVER.encode(), check=True)
    return path


@pytest.fixture(scope="module", params=_REGISTERS)
def architecture(request: pytest.FixtureRequest) -> str:
    """One that we compile for."""
    return str(request.param)


@pytest.fixture(scope="module")
def cubin(architecture: str) -> bytes:
    """The kernels, compiled once."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings comes with torch for CUDA")
    return compile_kernels(architecture)


def test_kernels_compile(cubin: bytes) -> None:
    """NVRTC makes a cubin that has every kernel."""
    assert cubin.startswith(b"\x7fELF")
    assert all(b".text." + name.encode() in cubin for name in NAMES)


def test_registers_and_stacks(architecture: str, cubin: bytes, tmp_path: Path) -> None:
    """The compiler makes of the kernels what it made when they were measured; a change here changes their speed."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="it comes with torch for CUDA")
    triton = pytest.importorskip("triton", reason="its cuobjdump reads cubins")
    if (version := nvrtc.nvrtcVersion()[1:]) != _NVRTC:
        pytest.skip(f"the numbers are of NVRTC {_NVRTC}; this is NVRTC {version}")
    (tmp_path / "kernels.cubin").write_bytes(cubin)

    command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", tmp_path / "kernels.cubin"]
    usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"Function (\w+):\s+REG:(\d+) STACK:(\d+)", usage)

    assert {name: tuple(map(int, numbers)) for name, *numbers in found} == _REGISTERS[architecture]
    assert {name for name, _, _ in found} == set(NAMES)


def test_a_refusal_names_the_fault() -> None:
    """What NVRTC says is part of the error."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings comes with torch for CUDA")
    with pytest.raises(LoaderError, match=r"sm_1\b.*architecture"):
        compile_kernels("sm_1")


def test_a_launch_reaches_the_driver(driver: Path) -> None:
    """Grid, block, stream and the argument arrive as the driver takes them."""
    job = np.zeros(1, JOB)
    job["workspace"] = 2**45 + 3
    stream = 2**46 + 5

    Driver(b"cubin", lambda: stream, str(driver)).launch("color", (70, 256), job)

    asked = _asked(driver)
    assert (list(asked.grid), list(asked.block), asked.shared) == ([70, 256, 1], [THREADS, 1, 1], 0)
    assert (asked.stream, asked.first_word, asked.name) == (stream, 2**45 + 3, b"color")


def _asked(driver: Path) -> _Asked:
    library = ctypes.CDLL(str(driver))
    library.last.restype = ctypes.POINTER(_Asked)
    asked: _Asked = library.last().contents
    return asked


def test_memory_and_events_reach_the_driver(driver: Path) -> None:
    """Zeros and copies have their address, number of bytes and stream; any thread has the context then."""
    memory, target = np.full(16, 7, np.uint8), np.zeros(4, np.int32)
    streams, event = itertools.count(2**46 + 5), 2**45 + 9
    one, stream = Driver(b"cubin", lambda: next(streams), str(driver)), 2**46 + 5
    asked = _asked(driver)

    one.zero(memory.ctypes.data, 12)
    assert memory.tolist() == [0] * 12 + [7] * 4
    assert (asked.context, asked.stream) == (77, stream)
    one.download(target, memory.ctypes.data)
    assert (target[3], asked.stream) == (0x07070707, stream + 1)
    one.wait(event)
    assert (asked.event, asked.stream) == (event, stream + 2)


def test_a_failure_of_the_driver_is_named(driver: Path) -> None:
    """The call and CUDA's number stand in the error."""
    with pytest.raises(LoaderError, match="cuModuleLoadData returned CUDA's error 200"):
        Driver(b"other", int, str(driver))
