"""Choose the matrix that converts luma and chroma to RGB; matrices have the numbers of ITU-T H.273, table 4."""

from typing import Any

from readers.video.containers.open import VideoError
from readers.video.info import UNSPECIFIED_MATRIX

# Numbers of table 4.
YCGCO = 8
_CHROMA_DERIVED = 12
_LUMA_AND_DIFFERENCES = frozenset({1, 4, 5, 6, 7, 9, 10})
_RESERVED = 3  # FFmpeg treats it as unspecified
_IDENTITY = 0
_CONVERTED = _LUMA_AND_DIFFERENCES | {_IDENTITY, UNSPECIFIED_MATRIX, _RESERVED, YCGCO}

# For each number of primaries in table 2, the matrix that follows from them.
_OF_PRIMARIES = {1: 1, 9: 9}

# Names of matrices for which there is no conversion, for the error.
_NAMES = {
    11: "Y'D'zD'x of SMPTE ST 2085",
    _CHROMA_DERIVED: "derived from primaries other than those of BT.709 and BT.2020",
    13: "derived from the primaries, of constant luminance",
    14: "ICtCp of BT.2100",
    15: "IPT-PQ-C2",
    16: "YCgCo-Re",
    17: "YCgCo-Ro",
}


def matrix_of(frame: Any) -> int:
    """Return the number of the matrix (ITU-T H.273, table 4) that converts the colours of a frame to RGB.

    It is the number that the frame states, but 12 is replaced by the matrix that follows from the frame's primaries. For
    frames in RGB or grey, or with a palette, the number has no meaning.

    Args:
        frame: An `av.VideoFrame`.

    Raises:
        VideoError: This package has no conversion for the matrix.
    """
    matrix = int(frame.colorspace)
    if matrix == _CHROMA_DERIVED:
        matrix = _OF_PRIMARIES.get(int(frame.color_primaries), _CHROMA_DERIVED)
    if matrix in _CONVERTED or not _has_chroma(frame.format):
        return matrix
    name = _NAMES.get(matrix, "unknown")
    raise VideoError(
        f"its colours are made by the matrix {matrix} of ITU-T H.273 ({name}), for which there is no "
        "conversion: convert it to BT.709"
    )


def _has_chroma(format_: Any) -> bool:
    return len(format_.components) >= 3 and not format_.is_rgb and not format_.has_palette
