"""Choose the videos that DALI decodes: those whose frames it numbers like FFmpeg, except kinds that it has refused."""

import warnings
from collections import Counter
from typing import Literal, NamedTuple

from dali_pipes.video.codec import stored_size
from dali_pipes.video.color import LUMA_WEIGHTS
from dali_pipes.video.packet_headers import has_lengths, is_packed
from readers.video import VideoInfo
from readers.video.info import UNSPECIFIED_MATRIX

Backend = Literal["cpu", "mixed"]
Kind = tuple[str, str, int, int]
"""Codec, pixel format, height and width."""

# After this many consecutive refusals, a kind of video is not tried again; one or two such videos may be damaged.
_ENOUGH = 3


class Limits(NamedTuple):
    """What videos of one codec a decoder supports.

    Attributes:
        pixel_formats: Supported formats, by FFmpeg's names.
        smallest: Smallest height and width.
        largest: Largest height and width.
    """

    pixel_formats: frozenset[str]
    smallest: tuple[int, int] = (1, 1)
    largest: tuple[int, int] = (1 << 14, 1 << 14)


_PLAIN = frozenset({"yuv420p", "yuvj420p"})
"""4:2:0 with 8 bits."""
_DEEP = _PLAIN | {"yuv420p10le", "yuv420p12le"}
"""4:2:0 with 8, 10 or 12 bits."""

# Source: NVIDIA's Video Codec SDK 13, NVDEC application note; smallest sizes from cuvidGetDecoderCaps.
# Motion JPEG is missing: only FFmpeg notices damaged pictures, and only with err_detect=explode (codec.py).
# DALI takes NV12 (4:2:0) from NVDEC, whatever chroma subsampling the video has.
NVDEC = {
    "h264": Limits(_PLAIN, (16, 48), (4096, 4096)),
    "hevc": Limits(_DEEP, (144, 144), (8192, 8192)),
    "av1": Limits(_DEEP - {"yuv420p12le"}, (128, 128), (8192, 8192)),
    "vp9": Limits(_DEEP, (128, 128), (8192, 8192)),
    "vp8": Limits(_PLAIN, (16, 48), (4096, 4096)),
    "mpeg4": Limits(_PLAIN, (16, 48), (1024, 2032)),
}
LIBAVCODEC = {
    name: Limits(_PLAIN | {"yuv422p", "yuvj422p", "yuv444p", "yuvj444p"}) for name in ("vp8", "vp9")
}


def decodes(info: VideoInfo, backend: Backend) -> bool:
    """Return whether DALI's decoder of a backend supports a video, judged by its headers."""
    limits = (NVDEC if backend == "mixed" else LIBAVCODEC).get(info.codec)
    if limits is None or info.pixel_format not in limits.pixel_formats:
        return False
    if len(info.packet_offsets) == 0 or info.damage or is_packed(info.codec, info.extradata):
        return False
    if info.matrix not in {*LUMA_WEIGHTS, UNSPECIFIED_MATRIX}:
        return False  # DALI converts with BT.601, and this matrix has no correction
    size = stored_size(info)
    fits = all(
        low <= side <= high
        for low, side, high in zip(limits.smallest, size, limits.largest, strict=True)
    )
    if backend == "cpu":
        # That backend takes the range from the name of the pixel format alone.
        return fits and info.full_range == info.pixel_format.startswith("yuvj")
    even = size[0] % 2 == size[1] % 2 == 0
    lengths = info.codec not in ("h264", "hevc") or has_lengths(info.codec, info.extradata)
    return fits and even and lengths


class Refusals:
    """Counts, for each kind of video, how many videos in a row DALI has refused when it got them singly."""

    def __init__(self) -> None:
        self._refused: Counter[Kind] = Counter()

    def is_hopeless(self, info: VideoInfo) -> bool:
        """Return whether DALI has refused several consecutive videos of this kind."""
        return self._refused[_kind(info)] >= _ENOUGH

    def note(self, info: VideoInfo, *, decoded: bool, said: str) -> None:
        """Count the outcome for a video that DALI got alone; warn when DALI is given up for its kind.

        Args:
            info: Metadata of the video.
            decoded: Whether DALI decoded it.
            said: DALI's message if it refused the video.
        """
        kind = _kind(info)
        self._refused[kind] = 0 if decoded else self._refused[kind] + 1
        if self._refused[kind] == _ENOUGH:
            codec, pixel_format, height, width = kind
            warnings.warn(
                f"DALI refuses videos of {codec}, {pixel_format}, {width}x{height}, which are decoded on the CPU "
                f"from now on; error of DALI: {said}",
                RuntimeWarning,
                stacklevel=2,
            )


def _kind(info: VideoInfo) -> Kind:
    return info.codec, info.pixel_format, info.height, info.width
