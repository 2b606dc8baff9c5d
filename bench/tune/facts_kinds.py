"""What kind of image encoded bytes are, as far as it matters for decoding."""

from readers import HeaderError, read_header
from readers.sample import Payload

BASELINE, PROGRESSIVE = "baseline JPEG", "progressive JPEG"
OTHER_JPEG = "other JPEG"  # arithmetic, lossless, hierarchical

_NAMES = {
    "png": "PNG",
    "webp": "WebP",
    "gif": "GIF",
    "bmp": "BMP",
    "tiff": "TIFF",
    "ppm": "raw pixels",
}
_NO_LENGTH = frozenset((0x01, 0xD8, *range(0xD0, 0xD8)))
_START_OF_SCAN = 0xDA
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def kind_of(data: Payload) -> str:
    """Return "baseline JPEG", "progressive JPEG", "other JPEG", "PNG" and so on; "no image" for other bytes.

    Example:
        >>> with open("photos/cat/000.jpg", "rb") as file:
        ...     kind_of(file.read())
        'baseline JPEG'
    """
    try:
        name = read_header(data).format
    except HeaderError:
        return "no image"
    return _kind_of_jpeg(data) if name == "jpeg" else _NAMES.get(name, name)


def _kind_of_jpeg(data: Payload) -> str:
    """Walk over the segments to the frame header, whose marker tells the process (T.81, table B.1)."""
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # padding
            position += 1
        elif marker in _FRAMES:
            return {0xC0: BASELINE, 0xC1: BASELINE, 0xC2: PROGRESSIVE}.get(marker, OTHER_JPEG)
        elif marker == _START_OF_SCAN:
            break
        else:
            length = (
                0
                if marker in _NO_LENGTH
                else int.from_bytes(data[position + 2 : position + 4], "big")
            )
            position += 2 + length
    return OTHER_JPEG
