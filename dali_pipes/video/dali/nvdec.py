"""NVDEC, the video decoder of a GPU: may this process use it, and how many engines has it?"""

import ctypes
from dataclasses import dataclass
from functools import cache

import torch

LIBRARY = "libnvcuvid.so.1"
"""Comes with NVIDIA's driver; a container gets it only where it asks for it."""

# Of any GPU so far (H100, H200); more decoders at once than engines only make each one later.
_ENGINES_MAX = 7
_H264, _YUV420 = 4, 1  # every NVDEC decodes this


@dataclass(frozen=True, slots=True)
class Nvdec:
    """What a GPU decodes videos with.

    Attributes:
        engines: How many videos it decodes at once; the bound that is kept where the driver does not tell.
        problem: Why it cannot be used here, and what to do; "" if it can.
    """

    engines: int
    problem: str = ""


@cache
def find_nvdec(device_id: int) -> Nvdec:
    """Look for NVDEC; the answer is remembered.

    Args:
        device_id: The number of the GPU.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        return Nvdec(
            0,
            f"videos on a GPU need {LIBRARY} of NVIDIA's driver, got: {error}; start the container with "
            'NVIDIA_DRIVER_CAPABILITIES=compute,utility,video, or use decoder="cpu"',
        )
    engines = _ask(library, device_id)
    if engines == 0:
        return Nvdec(
            0,
            f"videos on a GPU need an NVDEC engine, got none on GPU {device_id} (a part of a GPU may have none); use "
            'another GPU, or decoder="cpu"',
        )
    return Nvdec(engines or _ENGINES_MAX)


class _Caps(ctypes.Structure):
    """CUVIDDECODECAPS of NVIDIA's cuviddec.h: what is asked, and the answer."""

    _fields_ = (
        ("codec", ctypes.c_int),
        ("chroma", ctypes.c_int),
        ("bits_over_8", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 3),
        ("is_supported", ctypes.c_ubyte),
        ("engines", ctypes.c_ubyte),
        ("rest", ctypes.c_ubyte * 62),
    )


def _ask(library: ctypes.CDLL, device_id: int) -> int | None:
    """The number of engines that the driver states; None where it does not."""
    with torch.cuda.device(device_id):
        torch.empty(1, device="cuda")  # the driver answers within a context of CUDA
        caps = _Caps(codec=_H264, chroma=_YUV420)
        if library.cuvidGetDecoderCaps(ctypes.byref(caps)) != 0:
            return None
    return (int(caps.engines) or None) if caps.is_supported else 0
