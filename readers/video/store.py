"""Read and write the file with the metadata of many videos: a row for each video, and blocks with their packets.

The file holds, in this order, all numbers little-endian:

    128 bytes   format, fingerprint of the data, offsets of rows and text, their checksum, checksum of all these
    blocks      for each video: int64 [P] time stamps, int64 [P or 0] offsets, int64 [K] keyframes,
                int64 [P or 0, 2] locations of packets in pieces, int32 [P] sizes
    rows        of fixed length, see `ROW`; each holds the checksum of its block
    text        names of codecs, reasons, extradata; each text once

The file holds neither code nor pickles. Opening it reads rows and text; a block is read and verified when its video is needed.
"""

import math
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.storage.blob.mapped import copied
from readers.storage.blob.mmap_pages import map_file
from readers.storage.side_file import CheckedStruct, DamagedFileError, write_all
from readers.storage.unreadable import reason_of
from readers.video.containers.open import VideoError
from readers.video.info import VideoInfo

_FORMAT = b"gpu-aug videos 5"
"""First bytes of each file. A new layout needs a new number."""
_HEAD = CheckedStruct("16s32sQQQI")
"""Layout of the head: format, fingerprint of the data, offsets of rows, text and end, CRC-32 of rows and text."""
_HEAD_BYTES = 128
"""Number of bytes before the blocks, a multiple of 8, so that their numbers are aligned."""
ROW = np.dtype(
    [
        ("block", "<u8"),
        ("num_packets", "<u4"),
        ("num_frames", "<u4"),  # 0 for a bad video
        ("num_offsets", "<u4"),
        ("num_keyframes", "<u4"),
        ("crc", "<u4"),
        ("pin", "<u4"),
        ("time_numerator", "<i8"),
        ("time_denominator", "<i8"),
        ("last_duration", "<i8"),
        ("duration_seconds", "<f8"),
        ("segment_seconds", "<f8", 2),  # NaN, NaN for the whole video
        ("names", "<u8"),
        ("extradata", "<u8"),
        ("names_bytes", "<u4"),
        ("extradata_bytes", "<u4"),
        ("height", "<u4"),
        ("width", "<u4"),
        ("rotation", "<u2"),
        ("stream_index", "<u2"),
        ("matrix", "<i4"),
        ("full_range", "?"),
        ("has_audio", "?"),
        ("constant_rate", "?"),
        ("interlaced", "?"),
        ("is_slow", "?"),
        ("", "V1"),
        ("num_streams", "<u2"),
    ]
)
# Attributes of VideoInfo that are texts; they are stored as one text, separated by zero bytes.
_NAMES = ("container", "codec", "decoder", "codec_tag", "pixel_format", "damage", "wrapping")
# Attributes of VideoInfo that are stored in rows unchanged.
_SAME = (
    *("height", "width", "rotation", "stream_index", "matrix", "full_range", "has_audio"),
    *("last_duration", "duration_seconds", "constant_rate", "interlaced", "num_streams", "is_slow"),
)


class StoreWriter:
    """Writes the metadata of videos one by one, in any order, into an open file.

    Args:
        descriptor: Open descriptor of the file, which must be empty.
        num_videos: Number of videos in the file.
    """

    def __init__(self, descriptor: int, num_videos: int) -> None:
        self._descriptor = descriptor
        self._rows = np.zeros(num_videos, ROW)
        self._offset = _HEAD_BYTES
        self._text = bytearray()
        self._texts: dict[bytes, int] = {}

    def add(
        self,
        number: int,
        found: VideoInfo | VideoError,
        pin: int,
        seconds: tuple[float, float] | None = None,
    ) -> None:
        """Write the metadata of a video.

        Args:
            number: Index of the video, 0 <= number < num_videos.
            found: Metadata of the video, or the reason why it cannot be used.
            pin: Checksum of the video's first and last bytes; 0 if they cannot be read.
            seconds: Start and end of the clip of the video's first sample, in seconds; None for the whole video.
        """
        row = self._rows[number]
        row["pin"] = pin
        row["segment_seconds"] = seconds or math.nan
        if isinstance(found, VideoError):
            self._set_text(row, "names", str(found))
            return
        for name in _SAME:
            row[name] = getattr(found, name)
        row["time_numerator"], row["time_denominator"] = found.time_base.as_integer_ratio()
        row["num_frames"], row["num_packets"] = len(found), len(found.packet_pts)
        row["num_offsets"], row["num_keyframes"] = len(found.packet_offsets), len(found.keyframes)
        self._set_text(row, "names", "\0".join(getattr(found, name) for name in _NAMES))
        self._set_text(row, "extradata", found.extradata)
        pieces = found.packet_places.reshape(-1)
        numbers = (found.packet_pts, found.packet_offsets, found.keyframes, pieces)
        block = np.concatenate(numbers).astype("<i8").tobytes()
        block += found.packet_sizes.astype("<i4").tobytes()
        row["block"], row["crc"] = self._offset, zlib.crc32(block)
        write_all(self._descriptor, block + bytes(-len(block) % 8), self._offset)
        self._offset += len(block) + -len(block) % 8

    def finish(self, fingerprint: str) -> None:
        """Complete the file: write the rows, the text, and the head with the fingerprint of the data."""
        rows, text = self._rows.tobytes(), bytes(self._text)
        write_all(self._descriptor, rows + text, self._offset)
        middle = self._offset + len(rows)
        crc = zlib.crc32(text, zlib.crc32(rows))
        fields = (_FORMAT, fingerprint.encode(), self._offset, middle, middle + len(text), crc)
        write_all(self._descriptor, _HEAD.pack(*fields).ljust(_HEAD_BYTES, b"\0"), 0)

    def _set_text(self, row: Any, name: str, text: str | bytes) -> None:
        data = text.encode("utf-8", "replace") if isinstance(text, str) else text
        if data not in self._texts:
            self._texts[data] = len(self._text)
            self._text += data
        row[name], row[f"{name}_bytes"] = self._texts[data], len(data)


class Store:
    """A memory-mapped file that `StoreWriter` has written.

    Args:
        path: Path of the file.
        fingerprint: Fingerprint of the data, which must equal the one in the file.

    Attributes:
        rows: Structured array [videos] of the dtype `ROW`.

    Raises:
        DamagedFileError: The file is damaged, of another format, or belongs to other data.
        OSError: The file cannot be read.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._view = view = map_file(path)
        head = _HEAD.unpack(copied(view[: _HEAD.size]), "head")
        name, made_of, first, middle, end, crc = head
        if name != _FORMAT or made_of != fingerprint.encode():
            raise DamagedFileError("it is of another format or of other data")
        rows, self._text = copied(view[first:middle]), copied(view[middle:end])
        if zlib.crc32(self._text, zlib.crc32(rows)) != crc:
            raise DamagedFileError("its tables are damaged, or its end is missing")
        self.rows: NDArray[Any] = np.frombuffer(rows, ROW)

    def names(self, number: int) -> dict[str, str]:
        """Return the text attributes of `VideoInfo` of a readable video by name: container, codec, decoder and others."""
        return dict(zip(_NAMES, self._names(self.rows[number]).split("\0"), strict=True))

    def video(self, number: int) -> VideoInfo | VideoError:
        """Return the metadata of a video, with read-only arrays; or a `VideoError` with the reason why it cannot be used.

        Raises:
            DamagedFileError: The block of the video is damaged.
        """
        row = self.rows[number]
        if not row["num_frames"]:
            return VideoError(self._names(row))
        names = self.names(number)
        counts = [int(row[f"num_{name}"]) for name in ("packets", "offsets", "keyframes")]
        counts.append(2 * counts[0] if names["wrapping"] else 0)
        begin = int(row["block"])
        try:
            block = copied(self._view[begin : begin + 8 * sum(counts) + 4 * counts[0]])
        except OSError as error:
            raise DamagedFileError(reason_of(error)) from None
        if zlib.crc32(block) != row["crc"]:
            raise DamagedFileError("a block of it is damaged")
        numbers = np.frombuffer(block, "<i8", sum(counts))
        pts, offsets, keyframes, pieces = np.split(numbers, np.cumsum(counts)[:3])
        extra = int(row["extradata"])
        return VideoInfo(
            **names,
            extradata=bytes(self._text[extra : extra + int(row["extradata_bytes"])]),
            height=int(row["height"]),
            width=int(row["width"]),
            rotation=int(row["rotation"]),
            matrix=int(row["matrix"]),
            full_range=bool(row["full_range"]),
            time_base=Fraction(int(row["time_numerator"]), int(row["time_denominator"])),
            last_duration=int(row["last_duration"]),
            has_audio=bool(row["has_audio"]),
            packet_pts=pts,
            packet_offsets=offsets,
            packet_sizes=np.frombuffer(block, "<i4", counts[0], 8 * sum(counts)),
            keyframes=keyframes,
            stream_index=int(row["stream_index"]),
            num_streams=int(row["num_streams"]),
            interlaced=bool(row["interlaced"]),
            packet_places=pieces.reshape(-1, 2),
        )

    def _names(self, row: Any) -> str:
        start = int(row["names"])
        return str(self._text[start : start + int(row["names_bytes"])], "utf-8")
