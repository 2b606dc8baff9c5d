"""How busy the engines of a GPU are, as its driver's library NVML says; no package is needed for that."""

import ctypes
from collections.abc import Callable
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_ENGINES = {
    "NVDEC": "nvmlDeviceGetDecoderUtilization",
    "the JPEG engine": "nvmlDeviceGetJpgUtilization",
}
_SAMPLE_SECONDS = 1 / 6
"""Over which drivers average what they say of the whole GPU; NVML's reference: up to a second on some."""


class NvmlError(RuntimeError):
    """The driver does not answer; the text says what it said instead."""


class _Rates(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Meter:
    """The engines of one GPU.

    Args:
        uuid: UUID of the GPU, without "GPU-".
        library: NVML; None loads the driver's.

    Raises:
        NvmlError: It knows no such GPU.
        OSError: There is no driver.
    """

    def __init__(self, uuid: str, library: Any = None) -> None:
        self._nvml: Any = library or ctypes.CDLL(_LIBRARY)
        self._call("nvmlInit_v2")
        self._handle = ctypes.c_void_p()
        try:
            name = ctypes.c_char_p(f"GPU-{uuid}".encode())
            self._call("nvmlDeviceGetHandleByUUID", name, ctypes.byref(self._handle))
        except NvmlError:
            self._take_the_only_one()

    def readers(self) -> dict[str, Callable[[], tuple[int, float]]]:
        """By name of an engine what reads it: percent of the time at work, and over how many seconds.

        Each may raise NvmlError.
        """
        found: dict[str, Callable[[], tuple[int, float]]] = {
            name: lambda function=function: self._engine(function)  # type: ignore[misc]
            for name, function in _ENGINES.items()
        }
        return {**found, "the GPU": self._gpu}

    def _take_the_only_one(self) -> None:
        """A part of a GPU has a UUID of another form."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        if count.value != 1:
            raise NvmlError(f"none of the {count.value} GPUs that NVML sees is torch's")
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(0), ctypes.byref(self._handle))

    def _engine(self, function: str) -> tuple[int, float]:
        percent, micros = ctypes.c_uint(), ctypes.c_uint()
        self._call(function, self._handle, ctypes.byref(percent), ctypes.byref(micros))
        return percent.value, micros.value / 1e6

    def _gpu(self) -> tuple[int, float]:
        rates = _Rates()
        self._call("nvmlDeviceGetUtilizationRates", self._handle, ctypes.byref(rates))
        return int(rates.gpu), _SAMPLE_SECONDS

    def _call(self, function: str, *arguments: Any) -> None:
        try:
            code = getattr(self._nvml, function)(*arguments)
        except AttributeError as error:
            raise NvmlError(f"this driver has no {function}") from error
        if code:
            raise NvmlError(f"{function}: NVML error {code}")
