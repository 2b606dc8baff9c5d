"""Find out whether this process can use NVDEC, the video decoder of a GPU, and how many engines it has."""

import ctypes
from dataclasses import dataclass
from functools import cache

import torch

LIBRARY = "libnvcuvid.so.1"
"""Part of NVIDIA's driver; a container has it only with the driver capability "video"."""

# The largest number of any GPU so far (H100, H200); more decoders than engines only delay each other.
_ENGINES_MAX = 7
_H264, _YUV420 = 4, 1  # every NVDEC decodes this


@dataclass(frozen=True, slots=True)
class Nvdec:
    """The video decoder of a GPU.

    Attributes:
        engines: Count of videos that it decodes at once; _ENGINES_MAX if the driver does not state it.
        problem: Why this process cannot use it, and what to do; "" if it can.
    """

    engines: int
    problem: str = ""


@cache
def find_nvdec(device_id: int) -> Nvdec:
    """Return the properties of a GPU's NVDEC.

    Args:
        device_id: Index of the GPU.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        return Nvdec(
            0,
            f"videos on a GPU need {LIBRARY} of NVIDIA's driver, got: {error}; start the container with "
            'NVIDIA_DRIVER_CAPABILITIES=compute,utility,video, or use decoder="cpu"',
        )
    engines = _num_engines(library, device_id)
    if engines == 0:
        return Nvdec(
            0,
            f"videos on a GPU need an NVDEC engine, got none on GPU {device_id} (a part of a GPU may have none); use "
            'another GPU, or decoder="cpu"',
        )
    return Nvdec(engines or _ENGINES_MAX)


class _Caps(ctypes.Structure):
    """CUVIDDECODECAPS of NVIDIA's cuviddec.h, with the query and its result."""

    _fields_ = (
        ("codec", ctypes.c_int),
        ("chroma", ctypes.c_int),
        ("bits_over_8", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 3),
        ("is_supported", ctypes.c_ubyte),
        ("engines", ctypes.c_ubyte),
        ("rest", ctypes.c_ubyte * 62),
    )


def _num_engines(library: ctypes.CDLL, device_id: int) -> int | None:
    """Return the count of engines that the driver states; None if it does not state one."""
    with torch.cuda.device(device_id):
        torch.empty(1, device="cuda")  # the driver call needs a CUDA context
        caps = _Caps(codec=_H264, chroma=_YUV420)
        if library.cuvidGetDecoderCaps(ctypes.byref(caps)) != 0:
            return None
    return (int(caps.engines) or None) if caps.is_supported else 0
