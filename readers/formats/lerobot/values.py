"""What belongs to a frame but its pictures, as fields: numbers, texts, and what is known of the window around it."""

import io
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.formats.lerobot.episodes import Place
from readers.formats.lerobot.meta import EPISODE, FRAME, Feature, Info
from readers.formats.lerobot.tables import Frames, Table, to_array
from readers.sample import Payload, SourceError

DeltaTimestamps = Mapping[str, Sequence[float]]
"""By the name of a feature, seconds from the frame at hand."""
_PNG = b"\x89PNG"
_WORDS = ("task", "subtask")
_TEXT_COLUMNS = ("__index_level_0__",)  # what pandas calls an index without a name


def frame_offsets(
    deltas: DeltaTimestamps, fps: float, tolerance_s: float, known: Sequence[str]
) -> dict[str, NDArray[np.int64]]:
    """Turn seconds into frames.

    Args:
        deltas: Seconds by feature; each a multiple of 1 / fps.
        fps: Frames per second.
        tolerance_s: By how many seconds they may be off.
        known: Features that may have some.

    Returns:
        int64 [T] by feature.

    Raises:
        SourceError: A feature is unknown or has no seconds, or they are no multiples.
    """
    if not isinstance(deltas, Mapping):
        raise SourceError(
            f"delta_timestamps must name seconds by feature, got {type(deltas).__name__}: "
            'write {"action": [0.0, 0.1]}'
        )
    if not 0 <= tolerance_s < math.inf:
        raise SourceError(f"tolerance_s must be seconds from 0 on, got {tolerance_s!r}")
    return {name: _offsets(name, deltas[name], fps, tolerance_s, known) for name in deltas}


def _offsets(
    name: str, seconds: Sequence[float], fps: float, tolerance_s: float, known: Sequence[str]
) -> NDArray[np.int64]:
    if name not in known:
        raise SourceError(
            f"delta_timestamps names {name!r}, which is no feature that is read: give some of "
            f"{', '.join(known)}"
        )
    try:
        given = np.asarray(seconds, np.float64)
    except (TypeError, ValueError):
        given = np.empty(0)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all():
        raise SourceError(f"delta_timestamps of {name!r} must be a list of at least one second")
    offsets = np.rint(given * fps)
    off = np.abs(given * fps - offsets) / fps
    if off.max() > tolerance_s:
        wrong = float(given[int(np.argmax(off))])
        raise SourceError(
            f"delta_timestamps of {name!r} has {wrong:g} s, which is no multiple of 1/{fps:g} s within "
            f"tolerance_s={tolerance_s:g}: give multiples of the time between frames"
        )
    return offsets.astype(np.int64)


def clamped(
    row: int, start: int, stop: int, offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the rows around a row, and which of them are stand-ins for rows outside the episode.

    Args:
        row: start <= row < stop.
        start: First row of the episode.
        stop: The row behind its last one.
        offsets: int64 [T], from the row.
    """
    rows = row + offsets
    return np.clip(rows, start, stop - 1), (rows < start) | (rows >= stop)


def to_npy(values: NDArray[Any]) -> bytes:
    """The bytes of an .npy file that holds the values."""
    return _header(values.dtype.str, values.shape) + values.tobytes()


@cache
def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What stands before them; there are few kinds in a dataset, and numpy takes 20 us to write one."""
    written = io.BytesIO()
    told = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(written, told)
    return written.getvalue()


def to_text(values: NDArray[Any], *, single: bool) -> bytes:
    """One text, or a JSON list of several."""
    return (values[0] if single else json.dumps(values.tolist(), ensure_ascii=False)).encode()


def picture_ending(picture: Payload) -> str:
    """The file ending of an encoded picture, by its first bytes."""
    return "png" if bytes(picture[:4]) == _PNG else "jpg"


def read_all_texts(root: Path, info: Info) -> dict[str, dict[int, str]]:
    """Read the texts that features of the dataset refer to, by word: "task", "subtask"; see `read_texts`."""
    return {word: read_texts(root, word) for word in _WORDS if f"{word}_index" in info.features}


def read_texts(root: Path, word: str) -> dict[int, str]:
    """Read meta/tasks.parquet or meta/subtasks.parquet: number -> text.

    The text is the table's index, whose column has the word as its name or pandas' own; rows may come in any
    order.

    Args:
        root: Folder of the dataset.
        word: "task" or "subtask".

    Raises:
        SourceError: It is missing, or has no such columns.
    """
    name = f"meta/{word}s.parquet"
    if not (root / name).is_file():
        raise SourceError(f"{root} has no {name}, which its {word}_index refers to: copy it whole")
    table = Table(root, name)
    footer = table.footer()
    column = next((each for each in (word, *_TEXT_COLUMNS) if each in footer.names), None)
    if column is None:
        raise SourceError(
            f"{name} of {root} has no column of texts called {word!r} or {_TEXT_COLUMNS[0]!r}: write it with lerobot"
        )
    number, text = Feature(f"{word}_index", "number", "int64", ()), Feature(column, "text", "", ())
    found: dict[int, str] = {}
    for group in table.groups([number.name, column]):
        numbers = to_array(group.column(number.name), number, name).tolist()
        for key, value in zip(numbers, to_array(group.column(column), text, name), strict=True):
            if found.setdefault(key, value) != value:
                raise SourceError(
                    f"{name} of {root} has two texts for {word}_index {key}: give each a number of its own"
                )
    return found


class Values:
    """Reads the values of frames.

    Args:
        frames: The tables.
        info: Says which features there are.
        tables: Names of the tables, for errors.
        offsets: By feature, int64 [T], the frames around a frame that belong to it.
        texts: By word ("task"), the texts that numbers stand for.
    """

    def __init__(
        self,
        frames: Frames,
        info: Info,
        tables: Sequence[str],
        offsets: Mapping[str, NDArray[np.int64]],
        texts: Mapping[str, Mapping[int, str]],
    ) -> None:
        self._frames, self._features, self._tables = frames, info.features, tables
        self._offsets, self._texts = offsets, texts

    def read(self, place: Place) -> dict[str, Payload]:
        """Read the fields of a frame.

        Raises:
            SourceError: Its row is that of another frame, or cannot be read.
            OSError: The file is gone or has changed.
        """
        found = [self._at(place, name) for name in (EPISODE, FRAME)]
        if found != [place.number, place.row - place.start]:
            raise SourceError(
                f"its row in {self._tables[place.table]} says episode {found[0]}, frame {found[1]}: meta/episodes "
                "and the table disagree, write the dataset again"
            )
        fields: dict[str, Payload] = {}
        for name, feature in self._features.items():
            offsets = self._offsets.get(name)
            rows = np.array([place.row])
            if offsets is not None:
                rows, is_pad = clamped(place.row, place.start, place.stop, offsets)
                fields[f"{name}_is_pad"] = to_npy(is_pad)
            if feature.is_camera:
                continue
            values = self._frames.values(place.table, name, rows)
            if feature.kind == "text":
                fields[name] = to_text(values, single=offsets is None)
            else:
                fields[name] = to_npy(values[0] if offsets is None else values)
        return fields

    def add_texts(self, fields: dict[str, Payload], place: Place) -> int:
        """Add the texts that numbers stand for; return the number of the task, -1 for none.

        Raises:
            SourceError: There is no text for a number.
        """
        numbers = {word: self._at(place, f"{word}_index") for word in self._texts}
        for word, number in numbers.items():
            if number not in self._texts[word]:
                raise SourceError(f"its {word}_index is {number}, which meta/{word}s.parquet lacks")
            fields[word] = self._texts[word][number].encode()
        return numbers.get("task", -1)

    def _at(self, place: Place, name: str) -> int:
        return int(self._frames.values(place.table, name, np.array([place.row]))[0])
