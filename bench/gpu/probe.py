"""Is the GPU still there? ``python -m bench.gpu.probe`` takes memory, fills it on the device, and reads it back."""

import ctypes

_VALUE = 0x5A5A5A5A
_COUNT = 1 << 20


def probe() -> None:
    """Ask the driver alone, since torch takes longer to load than a probe may.

    Raises:
        OSError: There is no driver.
        RuntimeError: A call fails, or the memory holds something else.
    """
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        if status := getattr(cuda, name)(*arguments):
            raise RuntimeError(f"{name} fails with CUDA's error {status}")

    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4 * _COUNT))
    call("cuMemsetD32_v2", memory, ctypes.c_uint(_VALUE), ctypes.c_size_t(_COUNT))
    call("cuCtxSynchronize")
    found = ctypes.c_uint()
    last = ctypes.c_uint64(memory.value + 4 * (_COUNT - 1))
    call("cuMemcpyDtoH_v2", ctypes.byref(found), last, ctypes.c_size_t(4))
    if found.value != _VALUE:
        raise RuntimeError(f"memory holds {found.value:#x} instead of {_VALUE:#x}")


if __name__ == "__main__":
    probe()
