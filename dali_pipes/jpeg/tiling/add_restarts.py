"""Lossless rewriting of a JPEG so that parts of it can be cut out without decoding the rest.

The coefficients stay as they are, so no pixel changes in any decoder. Restart markers are put between the
compressed bytes so that each interval can be decoded on its own, and no interval crosses the end of a row of units (MCUs):
the file becomes a grid of tiles. A progressive file becomes a baseline one. It is what ``jpegtran -copy all
-optimize -restart NB`` does; the Huffman tables are made for the picture, which often wins back what the
markers cost.
"""

import dataclasses

from dali_pipes.jpeg.tiling.coefficients import Picture, read_coefficients
from dali_pipes.jpeg.tiling.encode import Scan, plan_scan, write_scan
from dali_pipes.jpeg.tiling.segments import DQT, Frame, Reason, Segment, Untiled, write_frame
from readers.sample import Payload

__all__ = ["Reason", "Untiled", "add_restarts", "tile_jpeg"]

GROWTH = 0.0065
"""What restart markers may cost of a file's compressed bytes beyond what better Huffman tables save."""

_INTERVAL_BYTES = 4.2  # an interval's marker and padding, and DC values that begin anew, on average
_MOST_GROWTH = 0.02
_NARROWEST = 64  # pixels: finer tiles hardly save a crop any bytes


def add_restarts(data: Payload) -> bytes:
    """Rewrite a JPEG with restart markers; every decoder gives the same pixels as before.

    The number of units between markers divides the units of a row, so that the intervals are tiles. It is
    the smallest that makes tiles of at least 64 pixels and whose markers cost no more than 0.65 %
    of the file and what better Huffman tables save. Where there is none, as of a prime number of units, it
    is the whole row, with which a crop still steps over the rows above and below it.

    Kept as they are: size, sampling, component names, quantisation tables, application segments (EXIF
    with its orientation, ICC profile, Adobe), comments. Dropped: what follows the end marker, such as the
    second picture of a camera, and the list of pictures that points there. A file that has such markers
    already, and not much farther apart, is returned as it is.

    Args:
        data: A whole file.

    Returns:
        A baseline JPEG of one scan.

    Raises:
        Untiled: If the file is no JPEG, is of a rare kind (arithmetic, lossless, hierarchical, 12 bits,
            odd sampling), has so little data that markers would cost more than 2 %, or is damaged in a
            way for which libjpeg prints at least a warning.
    """
    picture = read_coefficients(data)
    scan = plan_scan(picture, _choose_interval(picture, GROWTH))
    saved = 1 - (scan.num_bytes - _cost(picture, scan.interval)) / picture.scan_bytes
    if _is_tiled(picture, scan):
        return bytes(data)
    if saved > 0 and (interval := _choose_interval(picture, GROWTH + saved)) != scan.interval:
        scan = plan_scan(picture, interval)
    frame = picture.frame
    small_steps = not any(_has_16_bits(segment) for segment in picture.header)
    written = dataclasses.replace(frame, marker=0xC0 if small_steps else 0xC1)
    header = b"".join(_rewritten(segment, frame, written) for segment in picture.header)
    return b"\xff\xd8" + header + write_scan(picture, scan) + b"\xff\xd9"


def tile_jpeg(data: Payload) -> tuple[Payload, str]:
    """Add restart markers to a JPEG where that is possible, for `readers.prepare.pack` and `readers.prepare.tile`.

    Returns:
        The tiled bytes and "", or the given bytes and the reason.
    """
    try:
        return add_restarts(data), ""
    except Untiled as verdict:
        return data, verdict.reason


def _choose_interval(picture: Picture, growth: float) -> int:
    """Return the smallest number of units whose markers cost at most a share of the compressed bytes."""
    columns = picture.frame.mcus[1]
    unit = -(-picture.frame.width // columns)
    for number in range(-(-_NARROWEST // unit), columns):
        if columns % number == 0 and _cost(picture, number) <= growth * picture.scan_bytes:
            return number
    if _cost(picture, columns) > _MOST_GROWTH * picture.scan_bytes:
        raise Untiled("too little data")
    return columns


def _cost(picture: Picture, interval: int) -> float:
    """Return about how many bytes restart markers cost."""
    rows, columns = picture.frame.mcus
    return _INTERVAL_BYTES * rows * columns / interval


def _is_tiled(picture: Picture, scan: Scan) -> bool:
    found, frame = picture.interval, picture.frame
    one_scan = frame.marker != 0xC2 and picture.num_scans == 1
    return one_scan and found > 0 and frame.mcus[1] % found == 0 and found <= 2 * scan.interval


def _has_16_bits(segment: Segment) -> bool:
    return segment.marker == DQT and len(segment.body) % 65 != 0


def _rewritten(segment: Segment, frame: Frame, written: Frame) -> bytes:
    if segment.marker == frame.marker:
        return write_frame(written)
    if segment.marker == 0xE2 and segment.body.startswith(b"MPF\0"):  # points behind the end marker
        return b""
    return bytes(segment)
