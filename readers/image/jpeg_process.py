"""Find the coding process of a JPEG, such as baseline or progressive."""

import struct

from readers.sample import Payload

_START, _START_OF_SCAN = b"\xff\xd8", 0xDA  # ITU-T T.81, table B.1
_SEGMENT = struct.Struct(">BBH")  # 0xFF, marker, length (which counts itself)

# Markers of frames: ITU-T T.81, table B.1.
_PROCESSES = {
    0xC0: "baseline",
    0xC1: "extended sequential",
    0xC2: "progressive",
    0xC3: "lossless",
    **dict.fromkeys((0xC5, 0xC6, 0xC7), "hierarchical"),
    **dict.fromkeys((0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF), "arithmetic"),
}


def jpeg_process(data: Payload) -> str | None:
    """Return the coding process of a JPEG, by the marker of its frame header.

    Args:
        data: The bytes of the file, or its beginning.

    Returns:
        "baseline", "extended sequential", "progressive", "lossless", "hierarchical" or "arithmetic" (ITU-T T.81,
        table B.1); None if the file is not a JPEG, or the bytes end before the frame header.

    Example:
        >>> from readers.image.jpeg_process import jpeg_process
        >>> with open("photos/cat/000.jpg", "rb") as file:
        ...     jpeg_process(file.read())
        'baseline'
    """
    if data[:2] != _START:
        return None
    position = 2
    try:
        while True:
            prefix, marker, length = _SEGMENT.unpack_from(data, position)
            if marker in _PROCESSES:
                return _PROCESSES[marker]
            if prefix != 0xFF or marker == _START_OF_SCAN:
                return None
            position += 1 if marker == 0xFF else 2 + length  # 0xFF: padding
    except struct.error:
        return None
