"""Which bits of a JPEG's coefficients have been read, and whether a scan may come when it comes."""

import numpy as np

from dali_pipes.jpeg.tiling.segments import Frame, Scan, Segment, Untiled

_MOST_SCANS = 100  # files with thousands exist only to keep decoders busy
_SMOOTHED = (
    10  # of the first so many coefficients libjpeg makes up what a progressive file left out
)


class Progress:
    """What is still to come of each coefficient.

    Args:
        frame: The picture's format.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        # Lowest bit that was read of each coefficient of each component; -1 before the first scan.
        self._low = np.full((len(frame.components), 64), -1)
        self.num_scans = 0

    def take(self, scan: Scan) -> None:
        """Note a scan.

        Raises:
            Untiled: If it is malformed, or comes before those that it builds on or twice.
        """
        self.num_scans += 1
        proper = _is_proper(scan, progressive=self._frame.marker == 0xC2)
        if not proper or self.num_scans > _MOST_SCANS:
            raise Untiled("odd scans")
        band = slice(scan.first, scan.last + 1)
        for component in scan.components:
            if scan.first and self._low[component, 0] < 0:
                raise Untiled("odd scans")
            if (self._low[component, band] != (scan.high or -1)).any():
                raise Untiled("odd scans")
            self._low[component, band] = scan.low

    def check_complete(self) -> None:
        """Refuse a picture of which decoders would make up a part.

        Raises:
            Untiled: If scans are missing.
        """
        if (self._low[:, 0] < 0).any():
            raise Untiled("odd scans")
        if (self._low[:, :_SMOOTHED] != 0).any():
            raise Untiled("unfinished progressive")


def _is_proper(scan: Scan, *, progressive: bool) -> bool:
    if not progressive:
        return (scan.first, scan.last, scan.high, scan.low) == (0, 63, 0, 0)
    band = scan.last == 0 if scan.first == 0 else scan.first <= scan.last <= 63
    alone = len(scan.components) == 1 or scan.first == 0
    return band and alone and scan.low <= 13 and scan.high in (0, scan.low + 1)


def check_metadata(header: list[Segment], frame: Frame) -> None:
    """Refuse versions and colour transforms of which libjpeg warns that it does not know them.

    Raises:
        Untiled: If there are any.
    """
    transforms = {3: b"\0\1", 4: b"\0\2"}.get(len(frame.components), bytes(range(256)))
    for segment in header:
        body = segment.body
        is_jfif = segment.marker == 0xE0 and len(body) >= 14 and body.startswith(b"JFIF\0")
        is_adobe = segment.marker == 0xEE and len(body) >= 12 and body.startswith(b"Adobe")
        if (is_jfif and body[5] != 1) or (is_adobe and body[11] not in transforms):
            raise Untiled("damaged")
