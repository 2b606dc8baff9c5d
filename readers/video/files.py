"""Datasets of video files: class folders, and lists of videos or clips."""

import csv
import io
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.formats.columns import to_label
from readers.formats.declared import refuse_cut_list
from readers.formats.files import FileDataset, Names
from readers.formats.folder import FileKind, find_files, find_root
from readers.formats.path_table.text_rows import csv_refusal
from readers.labels.classes import Classes, read_classes
from readers.sample import (
    IMAGE_FIELDS,
    VIDEO_FIELDS,
    BadSample,
    PathLike,
    Payload,
    Sample,
    SourceError,
)
from readers.storage.whole_files import map_whole, read_text
from readers.video.containers.open import VideoError

_VIDEOS = FileKind("videos", VIDEO_FIELDS)  # files of other extensions are skipped
_ENDINGS = ", ".join(f".{name}" for name in VIDEO_FIELDS)  # for errors
# Only numbers follow the extension, so a path may hold spaces.
_LINE = re.compile(rf"(.+\.(?:{'|'.join(VIDEO_FIELDS)}))((?:\s+[-+.0-9eE]+)*)", re.IGNORECASE)
# Other words after the extension, for the error.
_OTHER_LINE = re.compile(rf"(.+?\.(?:{'|'.join(VIDEO_FIELDS)}))\s(.*)", re.IGNORECASE)
_HEADER = re.compile(r"[A-Za-z_]+([ \t]+[A-Za-z_]+)*")
"""Matches a first line that names the columns: it has only words."""
_START, _END = "start_seconds", "end_seconds"  # names of fields, and within the field ``clip``
_CLIP_BYTES = 1 << 12
"""Longest field ``clip`` that is parsed: a longer one does not hold start and end."""


class VideoFolderDataset(FileDataset):
    """Video files in a folder, with one subfolder per class, or all in the folder itself.

    Classes, labels, order and files next to a video (``clip.json``) are as for `FolderDataset`. The name of the field is the
    extension of the file in lower case. Its payload is a view into the memory-mapped file, which is read when it is accessed.
    Read it through `readers.storage.blob.mapped.copied`, as the loader does: if the file is shortened in place, accessing the
    missing bytes kills the process.

    Args:
        root: Path of the folder.
        classes: Class names in the order of their numbers, as for `FolderDataset`.

    Attributes:
        source: Absolute path of the folder.

    Raises:
        SourceError: There are no videos, a class has no videos, or both the folder and its subfolders hold videos.
    """

    kind_of_media = "videos"
    unread_suffixes = (*(f".{name}" for name in IMAGE_FIELDS), ".ts")

    def __init__(self, root: PathLike, *, classes: Classes | None = None) -> None:
        self.source = Path(root).absolute()
        super().__init__(self.source, *find_files(self.source, _VIDEOS, read_classes(classes)))

    def _payload(self, path: str) -> Payload:
        return map_whole(path)


class ClipListDataset(FileDataset):
    """Videos, or clips of videos, from a list file with one sample per line.

    A line is ``path``, ``path label``, ``path start_seconds end_seconds`` or ``path start_seconds end_seconds label``, separated by
    spaces or tabs, or by commas in a file that ends in .csv. The first line may name the columns. Paths are absolute or relative
    to the list's folder and may hold spaces; empty lines and lines that begin with ``#`` are skipped. The source may also be a
    sequence of paths of videos, each a sample without a label.

    Keys are the paths, relative to the list's folder; if a path leads out of that folder, they are relative to the deepest
    folder that contains all videos. A clip has a further field ``clip``, ``{"start_seconds": 1.5, "end_seconds": 4.0}``, and
    the key ``path@1.5-4.0``. The video of a clip is the whole file, mapped as for `VideoFolderDataset`.

    Attributes:
        source: Absolute path of the list; None for a sequence of paths.

    Raises:
        SourceError: The list cannot be read, is empty, or has a line of another form.
    """

    declares_count = False
    kind_of_media = "videos"

    def __init__(self, source: PathLike | Sequence[PathLike]) -> None:
        self.source = None
        if isinstance(source, (str, os.PathLike)):
            self.source = path = Path(source).absolute()
            root, clips = path.parent, _read_clips(path)
            empty = f"the list {path} names no videos: write one path per line"
        else:
            root, clips = Path("/"), [_whole_video(Path(path).absolute()) for path in source]
            empty = "the list of videos is empty: give at least one path"
        if not clips:
            raise SourceError(empty)
        root, names = find_root(root, [clip.path for clip in clips])
        super().__init__(root, names, [clip.label for clip in clips])
        self._seconds = [clip.seconds for clip in clips]
        self._keys = Names(
            f"{name}@{pair[0]}-{pair[1]}" if pair else name
            for name, pair in zip(names, self._seconds, strict=True)
        )

    @property
    def segment_seconds(self) -> NDArray[np.float64]:
        """float64 [n, 2], start and end of each clip in seconds; NaN, NaN for whole videos."""
        whole = (math.nan, math.nan)
        return np.array([seconds or whole for seconds in self._seconds], np.float64)

    @cached_property
    def videos(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """int64 [files], the index of the first clip of each video file; and int64 [n], the index of the file of each clip."""
        numbers: dict[str, int] = {}
        videos = [numbers.setdefault(name, len(numbers)) for name in self._names]
        _, firsts = np.unique(videos, return_index=True)
        return firsts, np.array(videos, np.int64)

    def _payload(self, path: str) -> Payload:
        return map_whole(path)

    def _fetch_one(self, index: int, data: Payload | None = None) -> Sample | BadSample:
        entry, seconds = super()._fetch_one(index, data), self._seconds[index]
        if seconds is None:
            return entry
        key = self._keys[index]
        if isinstance(entry, BadSample):
            return replace(entry, key=key)
        start, end = seconds
        clip = json.dumps({"start_seconds": start, "end_seconds": end}).encode()
        return Sample(index, key, {**entry.fields, "clip": clip}, entry.label)

    def _extra(self, index: int) -> str:
        return f"{self._seconds[index]}\n"


class _Clip(NamedTuple):
    path: str
    seconds: tuple[float, float] | None
    label: int


def _read_clips(path: Path) -> list[_Clip]:
    text = read_text(path, "a list of videos")
    clips = []
    for number, cells in _rows(path, text):
        try:
            clips.append(_clip(cells))
        except ValueError as error:
            raise SourceError(f"{path}, line {number}: {error}") from None
    refuse_cut_list(path, text, [clip.label for clip in clips])
    return clips


def are_videos(paths: Sequence[str], _many: bool) -> bool:
    """Return whether paths are video files rather than a list file, judged by their names; see `Format.reads_single`."""
    return all(map(_VIDEOS.fits, paths))


def is_header(line: str) -> bool:
    """Return whether the first line of a list names its columns: it has only words."""
    return _HEADER.fullmatch(line) is not None


def _whole_video(path: Path) -> _Clip:
    if not _VIDEOS.fits(path.name):
        raise SourceError(f"{path} is no video: give files that end in {_ENDINGS}, or one list")
    return _Clip(os.path.normpath(path), None, -1)


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each line of a list that describes a video or clip.

    Args:
        path: Path of the list, whose extension decides how lines are split.
        text: Content of the list.

    Raises:
        SourceError: A list of comma-separated values is malformed.
    """
    if path.suffix.lower() == ".csv":
        rows = csv.reader(io.StringIO(text), skipinitialspace=True)
        try:
            for row in rows:
                cells = [cell.strip() for cell in row]
                named = rows.line_num == 1 and not _VIDEOS.fits(cells[0] if cells else "")
                if any(cells) and not cells[0].startswith("#") and not named:
                    yield rows.line_num, cells
        except csv.Error as error:
            raise csv_refusal(path, rows.line_num, error) from None
        return
    numbered = enumerate(map(str.strip, text.split("\n")), start=1)
    lines = [(number, line) for number, line in numbered if line and not line.startswith("#")]
    for number, line in lines[1:] if lines and is_header(lines[0][1]) else lines:
        found = _LINE.fullmatch(line) or _OTHER_LINE.fullmatch(line)
        yield number, [found[1], *found[2].split()] if found else [line]


def _clip(cells: Sequence[str]) -> _Clip:
    """Return the clip that a line describes, given its cells, ``path[, start, end][, label]``.

    Raises:
        ValueError: The cells have another form; the text is the reason.
    """
    path, *numbers = cells
    while numbers and not numbers[-1]:  # a surplus comma, or a missing label
        numbers.pop()
    if not _VIDEOS.fits(path):
        raise ValueError(
            f"{path!r} is no video ({_ENDINGS}) with a label, or start, end and label behind it"
        )
    path = os.path.normpath(path)
    label = numbers.pop() if len(numbers) in (1, 3) else "-1"
    if len(numbers) not in (0, 2):
        raise ValueError(f"{len(cells) - 1} numbers follow {path}: give [start end] [label]")
    return _Clip(path, _seconds(*numbers) if numbers else None, to_label(label))


def _seconds(start: Any, end: Any) -> tuple[float, float]:
    try:
        seconds = float(start), float(end)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"start and end must be seconds, got {start} and {end}") from None
    if not 0 <= seconds[0] < seconds[1] < math.inf:
        raise ValueError(f"a clip must have 0 <= start < end, got {start} and {end}")
    return seconds


def read_seconds(sample: Sample) -> tuple[float, float] | None:
    """Return start and end, in seconds, of the clip that a sample stands for; None if it stands for its whole video.

    They are read from the sample's field ``clip``, ``{"start_seconds": 1.5, "end_seconds": 4.0}``, or from its two fields
    ``start_seconds`` and ``end_seconds``. A field ``clip`` without these names is ignored.

    Raises:
        VideoError: Start or end is missing or invalid.
    """
    seconds: Mapping[str, Any] = {
        name: bytes(sample.fields[name]).decode("utf-8", "replace")
        for name in (_START, _END)
        if name in sample.fields
    }
    clip = bytes(sample.fields.get("clip", b"")[:_CLIP_BYTES])
    if _START.encode() in clip or _END.encode() in clip:
        seconds = _parse_clip(clip)
    start, end = (seconds.get(name) for name in (_START, _END))
    if {str(start), str(end)} <= {"None", "NaN", "nan"}:  # empty cells of columns
        return None
    try:
        return _seconds(start, end)
    except ValueError as error:
        raise VideoError(f"{error}: correct {_START} and {_END}, or leave both out") from None


def _parse_clip(clip: bytes) -> Mapping[str, Any]:
    try:
        values = json.loads(clip)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise VideoError(f"its field clip is no JSON object with {_START} and {_END}")
    return values
