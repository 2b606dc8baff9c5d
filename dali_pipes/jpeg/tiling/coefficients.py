"""All quantised coefficients of a JPEG, exactly as they are stored: no pixel is computed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.tiling.huffman_codes import define_tables, empty_lookup
from dali_pipes.jpeg.tiling.progressive import (
    read_ac_first,
    read_ac_refine,
    read_dc_first,
    read_dc_refine,
)
from dali_pipes.jpeg.tiling.scan_order import Progress, check_metadata
from dali_pipes.jpeg.tiling.scans import SPARE, Coefficients, Plan, strip
from dali_pipes.jpeg.tiling.segments import (
    DHT,
    DQT,
    DRI,
    EOI,
    SOS,
    Frame,
    Scan,
    Segment,
    Untiled,
    read_frame,
    read_interval,
    read_scan,
    walk_segments,
)
from dali_pipes.jpeg.tiling.sequential import read_sequential
from readers.sample import Payload

_MOST_BLOCKS = 1 << 23  # 1 GiB of coefficients; 358 megapixels of 4:2:0


@dataclass(frozen=True, slots=True)
class Picture:
    """A JPEG taken apart.

    Attributes:
        header: Segments up to the first scan that say what the picture is and what goes with it:
            metadata, quantisation tables and the frame, in their order.
        frame: The frame header.
        interval: Restart interval of the last scan, 0 for none.
        num_scans: How many scans there were.
        scan_bytes: Compressed bytes of all scans.
        blocks: int16 [number of blocks, 64] in zigzag order, component by component, in rows; rows and
            columns fill whole units of a scan that holds all components.
        grid: int64 [components, 4]: first block of a component, blocks in a row of it, blocks of a unit
            across and down.
    """

    header: list[Segment]
    frame: Frame
    interval: int
    num_scans: int
    scan_bytes: int
    blocks: Coefficients
    grid: NDArray[np.int64]


def read_coefficients(data: Payload) -> Picture:
    """Read every coefficient of a baseline, sequential or progressive JPEG.

    What follows the end marker is ignored, as libjpeg does.

    Raises:
        Untiled: If it is no such JPEG, or libjpeg would not read it without a warning.
    """
    if bytes(data[:2]) != b"\xff\xd8":
        raise Untiled("not a JPEG")
    return _Reader(data).read()


class _Reader:
    """The state of reading one file: tables, restart interval and what was read."""

    def __init__(self, data: Payload) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self.bytes.flags.writeable = False  # so that the kernels are compiled for one kind of array
        self.lookup = empty_lookup()
        self.huffman: set[int] = set()
        self.quantisers: set[int] = set()
        self.header: list[Segment] = []
        self.interval = 0
        self.scan_bytes = 0
        self.frame: Frame | None = None

    def read(self) -> Picture:
        position = 2
        while True:
            for segment in walk_segments(self.data, position):
                self._take(segment)
            if segment.marker == EOI:
                break
            position = self._read_scan(segment)
        if self.frame is None:
            raise Untiled("damaged")
        self.progress.check_complete()
        check_metadata(self.header, self.frame)
        return Picture(
            self.header,
            self.frame,
            self.interval,
            self.progress.num_scans,
            self.scan_bytes,
            self.blocks,
            self.grid,
        )

    def _take(self, segment: Segment) -> None:
        """Note what a segment that is no scan header says."""
        marker = segment.marker
        if marker == DHT:
            self.huffman |= define_tables(segment.body, self.lookup)
        elif marker == DRI:
            self.interval = read_interval(segment)
        elif marker in (SOS, EOI):
            return
        elif self.scan_bytes:  # it would change its place
            raise Untiled("metadata after a scan" if segment.is_metadata else "odd tables")
        elif marker == DQT:
            self.quantisers |= _quantisers(segment.body)
            self.header.append(segment)
        elif segment.is_metadata:
            self.header.append(segment)
        elif self.frame is not None:
            raise Untiled("damaged")
        else:
            self.header.append(segment)
            self._begin(read_frame(segment))

    def _begin(self, frame: Frame) -> None:
        """Make room for the coefficients of a picture."""
        rows, columns = frame.mcus
        grid, total = [], 0
        for part in frame.components:
            across, down = (1, 1) if len(frame.components) == 1 else (part.across, part.down)
            grid.append((total, columns * across, across, down))
            total += rows * down * columns * across
        # A block takes at least a bit, so a large picture in a small file is no picture.
        if total > 8 * len(self.data):
            raise Untiled("truncated")
        if total > _MOST_BLOCKS:
            raise Untiled("too large")
        self.frame = frame
        self.progress = Progress(frame)
        self.grid = np.array(grid, np.int64)
        self.blocks = np.zeros((total, 64), np.int16)
        self.clean = np.empty(len(self.data) + SPARE, np.uint8)

    def _read_scan(self, segment: Segment) -> int:
        """Read the scan behind a scan header; returns the offset of the marker behind it."""
        frame = self.frame
        if frame is None:
            raise Untiled("damaged")
        scan = read_scan(segment, frame)
        self.progress.take(scan)
        self._check_tables(scan, frame)
        plan = self._plan(scan, frame)
        starts = np.zeros(-(-plan.units // plan.interval) + 1, np.int64)
        end = strip(self.bytes, segment.end, self.clean, starts)
        if end < 0:
            raise Untiled("truncated" if end == -1 else "damaged")
        if not _reading(scan, frame)(self.clean, starts, plan, self.lookup, self.blocks):
            raise Untiled("damaged")
        self.scan_bytes += end - segment.end
        return end

    def _check_tables(self, scan: Scan, frame: Frame) -> None:
        needed = {dc for dc, _ in scan.tables if not scan.first and not scan.high}
        needed |= {4 + ac for _, ac in scan.tables if scan.last}
        quantisers = {frame.components[number].table for number in scan.components}
        if not needed <= self.huffman or not quantisers <= self.quantisers:
            raise Untiled("odd tables")

    def _plan(self, scan: Scan, frame: Frame) -> Plan:
        rows, columns = frame.mcus
        grid = self.grid[list(scan.components)]
        if len(scan.components) == 1:  # only the blocks that the picture touches
            part = frame.components[scan.components[0]]
            rows = -(-frame.height * part.down // (8 * frame.down))
            columns = -(-frame.width * part.across // (8 * frame.across))
            grid[:, 2:] = 1
        tables = np.array([(dc, 4 + ac) for dc, ac in scan.tables], np.int64)
        return Plan(
            units=rows * columns,
            per_row=columns,
            interval=self.interval or rows * columns,
            parts=np.hstack([grid, tables]),
            first=scan.first,
            last=scan.last,
            low=scan.low,
        )


def _reading(scan: Scan, frame: Frame) -> Any:
    if frame.marker != 0xC2:
        return read_sequential
    if scan.first:
        return read_ac_refine if scan.high else read_ac_first
    return read_dc_refine if scan.high else read_dc_first


def _quantisers(body: bytes) -> set[int]:
    """Return the numbers of the tables that a DQT segment defines."""
    found, at = set(), 0
    while at < len(body):
        found.add(body[at] & 15)
        at += 129 if body[at] >> 4 else 65
    if at != len(body) or max(found, default=0) > 3:
        raise Untiled("odd tables")
    return found
