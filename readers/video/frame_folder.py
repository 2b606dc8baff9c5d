"""Datasets of videos that are stored as folders of pictures, one picture per frame."""

import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.datasets.inspected import Checks, SampleFacts
from readers.fingerprint import fingerprint_of
from readers.image.header import read_header
from readers.sample import (
    BadSample,
    ColumnName,
    HeaderError,
    PathLike,
    Payload,
    Sample,
    SourceError,
    checked_indices,
    is_image_file,
)
from readers.storage.unreadable import OptionalFile, is_transient, oserror_as_source_error
from readers.storage.whole_files import read_text, read_whole
from readers.video.containers.open import VideoError
from readers.video.info import UNSPECIFIED_MATRIX, VideoInfo

FRAMES_CODEC = "frames"
"""`VideoInfo.codec` of the videos of `FrameFolderDataset`, whose frames `fetch_frames` reads."""

# Reasons of bad samples.
_EMPTY = "its folder holds no pictures"
_CHANGED = "its folder has changed since it was indexed"
_NUMBERS = re.compile(r"([0-9]+)")
"""Matches numbers in names, by which pictures are sorted."""
_LINE = re.compile(r"(.*?\S)((?:\s+-?[0-9]{1,18}){0,2})")
"""Matches a line of a list: a folder, then up to two numbers that fit into 64 bits."""


class FrameFolderDataset(IndexedDataset):
    """Videos that are stored as folders of pictures; frames are sorted by the numbers in the names of the pictures.

    Paths are ``root/<class>/<video>/img_00001.jpg``, with classes numbered in sorted order, or ``root/<video>/img_00001.jpg``
    without classes. The source may also be a list of such folders: a text file with one ``folder``, ``folder label`` or
    ``folder num_frames label`` per line, relative to the list's own folder; if a folder has more pictures, the first
    `num_frames` are used.

    A sample has one field, ``frames``, with the names of its pictures as a JSON list. `fetch_frames` reads the pictures, so
    reading a clip of 16 frames reads 16 files. Names that begin with a dot are skipped.

    Args:
        source: Path of the folder, or of the list.
        fps: Frames per second, as pictures do not state it.

    Raises:
        SourceError: There are no folders of pictures, such folders are at both depths, a line of the list has another form,
            or `fps` is not positive.
    """

    kind_of_media = "videos"
    packing_obstacle = (
        "holds folders of frames, which no shard holds: make a video of each (ffmpeg -framerate 25 -i img_%05d.jpg video.mp4) "
        "and pack these, or train on the folders as they are"
    )

    def __init__(self, source: PathLike, *, fps: float = 25.0) -> None:
        self.source = Path(source).absolute()
        try:
            rate = Fraction(fps).limit_denominator(100_000)
        except (TypeError, ValueError, OverflowError):  # no number, NaN or infinity
            rate = Fraction(0)
        if rate <= 0:
            raise SourceError(f"fps must be a positive number of frames per second, got {fps!r}")
        self._time_base = 1 / rate
        is_folder = self.source.is_dir()
        self._root = str(self.source if is_folder else self.source.parent)
        found = _find_folders(self.source) if is_folder else _read_list(self.source)
        self._names, self._labels, self._limits, self._class_names = found
        self.unlabelled = sum(label < 0 for label in self._labels), (), ""
        self._listed = np.full(
            len(self._names), -1, np.int64
        )  # checksums of the names at the first look

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the folders, the names of their pictures, the lines of the list, and the frames per second.

        Unlike other fingerprints, it does not include the sizes of files, as there may be a hundred million pictures.
        """
        rows = zip(self._names, self._labels, self._limits, strict=True)
        lines = (
            "\0".join([name, f"{label} {limit}", *self._frames(index)]) + "\n"
            for index, (name, label, limit) in enumerate(rows)
        )
        return fingerprint_of(f"{self._time_base}\n", further=lines)

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return one number for every sample, int64 [len]; only ``label`` is known without reading pictures."""
        if name == "label":
            return np.array(self._labels, np.int64)
        return np.full(len(self), -1 if name == "num_bytes" else 0, np.int64)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples with the names of their pictures, which are not read; see `Dataset.fetch`."""
        return [self._fetch_one(index) for index in checked_indices(indices, len(self))]

    def fetch_frames(
        self, index: int, frames: Sequence[int] | NDArray[np.int64]
    ) -> list[Payload | BadSample]:
        """Read some pictures of a video.

        Args:
            index: Index of the video, 0 <= index < len.
            frames: Indices of frames in the order of presentation, repetitions allowed; each picture is read once.

        Returns:
            For each frame its encoded picture, or a BadSample with the reason why it cannot be read. All frames are bad if the
            folder's pictures have changed since this dataset first listed them.

        Raises:
            IndexError: The video or a frame does not exist.
        """
        [index] = checked_indices([index], len(self))
        names = self._frames(index)
        if self._has_changed(index, names):
            bad = BadSample(index, self._names[index], "read", _CHANGED)
            return [bad for _ in frames]
        wanted = checked_indices(frames, len(names))
        read = {frame: self._read(index, names[frame]) for frame in set(wanted)}
        return [read[frame] for frame in wanted]

    def info(self, index: int) -> VideoInfo | VideoError:
        """Return the metadata of a video, or the reason why it cannot be used; its size is that of its first picture."""
        names = self._frames(index)
        if self._has_changed(index, names):
            return VideoError(_CHANGED)
        if not names:
            return VideoError(_EMPTY)
        first = self._read(index, names[0])
        if isinstance(first, BadSample):
            return VideoError(first.reason)
        try:
            header = read_header(first)
        except HeaderError as error:
            return VideoError(f"{names[0]}: {error}")
        count, limit = len(names), self._limits[index]
        return VideoInfo(
            container="folder",
            codec=FRAMES_CODEC,
            decoder="",
            codec_tag="",
            extradata=b"",
            height=header.height,
            width=header.width,
            rotation=0,
            pixel_format="",
            matrix=UNSPECIFIED_MATRIX,
            full_range=True,
            time_base=self._time_base,
            last_duration=1,
            has_audio=False,
            damage=f"there are {count} frames of {limit}" if limit and count < limit else "",
            packet_pts=np.arange(count, dtype=np.int64),
            packet_offsets=np.empty(0, np.int64),
            packet_sizes=np.zeros(count, np.int32),
            keyframes=np.arange(count, dtype=np.int64),
        )

    def inspect_sample(self, sample: Sample, checks: Checks | None) -> SampleFacts:
        """Return facts about a sample; sizes are left out, as the field ``frames`` is not stored."""
        info, error = self.info(sample.index), ""
        if checks is not None and isinstance(info, VideoInfo) and not info.damage:
            size = (info.height, info.width)
            for frame in range(len(info)):
                [picture] = self.fetch_frames(sample.index, [frame])
                if isinstance(picture, BadSample):
                    reason = picture.reason
                else:
                    reason = checks.image(picture, size)
                if reason:
                    error = f"frame {frame} of {len(info)}: {reason}"
                    break
        return SampleFacts({}, video=info, error=error)

    def _fetch_one(self, index: int) -> Sample | BadSample:
        name, frames = self._names[index], self._frames(index)
        if self._has_changed(index, frames):
            return BadSample(index, name, "read", _CHANGED)
        if not frames:
            return BadSample(index, name, "read", _EMPTY)
        text = json.dumps(frames).encode()
        return Sample(index, name, {"frames": text}, self._labels[index], image_field="frames")

    def _frames(self, index: int) -> list[str]:
        """Return the names of the pictures of a video, in the order of frames; empty if its folder does not exist."""
        folder = f"{self._root}/{self._names[index]}"
        names = _pictures(folder)[: self._limits[index] or None]
        if self._listed[index] < 0:
            self._listed[index] = _checksum(names)
        return names

    def _has_changed(self, index: int, names: list[str]) -> bool:
        return bool(self._listed[index] != _checksum(names))

    def _read(self, index: int, name: str) -> Payload | BadSample:
        video = self._names[index]
        try:
            return read_whole(f"{self._root}/{video}/{name}")
        except OSError as error:
            reason = f"the file {name} cannot be read: {error.strerror}"
            return BadSample(index, video, "read", reason, transient=is_transient(error))


_Found = tuple[list[str], list[int], list[int], tuple[str, ...]]
"""Folder, label and largest number of frames (0 for all) of each video; and the class names."""


def _find_folders(root: Path) -> _Found:
    videos = {name: bool(_pictures(f"{root}/{name}")) for name in _folders(root)}
    flat = [name for name, has_pictures in videos.items() if has_pictures]
    deep = [name for name, has_pictures in videos.items() if not has_pictures]
    if flat and deep:
        raise SourceError(
            f"{root} holds pictures in {flat[0]}, but none in {deep[0]}: give either folders of frames, or class "
            "folders with such folders"
        )
    if flat:
        return flat, [-1] * len(flat), [0] * len(flat), ()
    names, labels = [], []
    for label, name in enumerate(deep):
        inside = _folders(root / name)
        if not inside:
            raise SourceError(
                f"{root} has a class folder without videos ({name}): put folders of frames there, or move it elsewhere"
            )
        names += [f"{name}/{video}" for video in inside]
        labels += [label] * len(inside)
    if not names:
        raise SourceError(f"{root} holds no folders of frames: put one folder per video there")
    return names, labels, [0] * len(names), tuple(deep)


def _read_list(path: Path) -> _Found:
    lines = read_text(path, "a list of folders").split("\n")
    rows = list(_rows(path, lines))
    if not rows:
        raise SourceError(f"the list {path} names no folders: write one per line")
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows], ()


def _rows(path: Path, lines: list[str]) -> Iterator[tuple[str, int, int]]:
    for number, line in enumerate(map(str.strip, lines), start=1):
        found = _LINE.fullmatch(line)
        if not found or line.startswith("#"):
            continue
        name, numbers = os.path.normpath(found[1]), [int(word) for word in found[2].split()]
        label = numbers.pop() if numbers else -1
        limit = numbers.pop() if numbers else 0
        if name.startswith("/") or name.split("/")[0] == "..":
            raise SourceError(f"{path}, line {number}: {name} is not below the folder of the list")
        if label < -1 or limit < 0:
            raise SourceError(
                f"{path}, line {number}: give folder [num_frames] [label], got {line}"
            )
        yield name, label, limit


def _folders(root: Path) -> list[str]:
    with oserror_as_source_error(str(root)), os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and entry.name[0] != ".")


def _pictures(folder: str) -> list[str]:
    names: list[str] = []
    with OptionalFile(folder), os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    names = [name for name in names if name[0] != "." and is_image_file(name)]
    return sorted(names, key=_by_number)


def _checksum(names: list[str]) -> int:
    return zlib.crc32("\0".join(names).encode("utf-8", "surrogateescape"))


def _by_number(name: str) -> tuple[list[tuple[int, str]], str]:
    # Texts and numbers alternate in the result; a text is paired with the number 0.
    parts = _NUMBERS.split(name)
    return [(int(part), "") if at % 2 else (0, part) for at, part in enumerate(parts)], name
