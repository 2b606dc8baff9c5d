"""Fields of a LeRobot sample: numbers and texts of its frame and of neighbouring frames (pictures: see cameras.py)."""

import io
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.formats.lerobot.frame_batch import FrameBatch
from readers.formats.lerobot.meta import EPISODE, FRAME, Feature, Info, Root
from readers.formats.lerobot.tables import Table, to_array
from readers.sample import FieldTypes, Payload, SourceError
from readers.storage.unreadable import is_missing

DeltaTimestamps = Mapping[str, Sequence[float]]
"""Offsets from the current frame in seconds, by feature name."""
# The first bytes of pictures; lerobot stores distances as TIFF.
_ENDINGS = {b"\x89PNG": "png", b"II*\0": "tiff", b"MM\0*": "tiff"}
_WORDS = ("task", "subtask")  # what meta/tasks.parquet and meta/subtasks.parquet hold texts of
_MOST_TEXTS = 1_000_000  # more than any dataset has tasks: `class_names` has an entry for each number below the largest
_TEXT_COLUMNS = ("__index_level_0__",)  # column name that pandas writes for an index without a name


def frame_offsets(
    deltas: DeltaTimestamps, fps: float, tolerance_s: float, known: Sequence[str]
) -> dict[str, NDArray[np.int64]]:
    """Convert offsets in seconds to offsets in frames.

    Args:
        deltas: Offsets in seconds by feature name, multiples of 1 / fps.
        fps: Frames per second.
        tolerance_s: Largest allowed difference from a multiple of 1 / fps, in seconds.
        known: Names of the features that may have offsets.

    Returns:
        Offsets in frames by feature name, int64 [T].

    Raises:
        SourceError: A feature is unknown or has no offsets, or an offset is no multiple of 1 / fps.
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


def to_npy(values: NDArray[Any]) -> bytes:
    """Return an array as the bytes of an .npy file."""
    return _header(values.dtype.str, values.shape) + values.tobytes()


@cache
def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of an .npy file.

    Headers are cached: a dataset needs few different ones, and NumPy takes 20 us to write one.
    """
    file = io.BytesIO()
    fields = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()


def to_text(values: str | NDArray[Any]) -> bytes:
    """Return a text, or the texts of an array as a JSON list, as the bytes of a field."""
    text = values if isinstance(values, str) else json.dumps(values.tolist(), ensure_ascii=False)
    return text.encode()


def picture_ending(picture: Payload) -> str:
    """Return the file ending of an encoded picture by its first bytes: "png", "tiff", or "jpg" for all others."""
    return _ENDINGS.get(bytes(picture[:4]), "jpg")


def read_all_texts(root: Root, info: Info) -> dict[str, dict[int, str]]:
    """Return the texts of tasks and subtasks, if frames refer to them.

    Returns:
        A dict with the keys "task" and "subtask", as far as there is such an index feature; the values are dicts from
        number to text, see `read_texts`.
    """
    return {word: read_texts(root, word) for word in _WORDS if f"{word}_index" in info.features}


def read_texts(root: Root, word: str) -> dict[int, str]:
    """Return the texts in meta/tasks.parquet or meta/subtasks.parquet, by number.

    The texts are the index of a pandas table, whose column has the name `word` or pandas' default name.

    Args:
        root: Folder of the dataset.
        word: "task" or "subtask".

    Raises:
        SourceError: The table or a column is missing, or a number has two texts.
    """
    name = f"meta/{word}s.parquet"
    try:
        table = Table(root, name)
    except SourceError as error:
        if not is_missing(error):
            raise
        raise SourceError(
            f"{root} has no {name}, which its {word}_index refers to: copy it whole"
        ) from None
    footer = table.footer()
    column = next((each for each in (word, *_TEXT_COLUMNS) if each in footer.names), None)
    if column is None:
        raise SourceError(
            f"{name} of {root} has no column of texts called {word!r} or {_TEXT_COLUMNS[0]!r}: write it with lerobot"
        )
    number, text = Feature(f"{word}_index", "number", "int64", ()), Feature(column, "text", "", ())
    text_of: dict[int, str] = {}
    for group in table.groups([number.name, column]):
        numbers = to_array(group.column(number.name), number, name).tolist()
        for key, value in zip(numbers, to_array(group.column(column), text, name), strict=True):
            if not 0 <= key < _MOST_TEXTS:
                raise SourceError(
                    f"{name} of {root} has {word}_index {key}: number its texts from 0 to {_MOST_TEXTS - 1}"
                )
            if text_of.setdefault(key, value) != value:
                raise SourceError(
                    f"{name} of {root} has two texts for {word}_index {key}: give each a number of its own"
                )
    return text_of


class Values:
    """Makes the fields of samples from the values of frames.

    Args:
        info: Content of meta/info.json with the features.
        tables: Names of the tables, for errors.
        offsets: Offsets, in frames, of the values that belong to a sample, int64 [T], by feature name.
        texts: Texts by number, for the keys "task" and "subtask"; see `read_all_texts`.
        types: dtype and shape of each field of numbers, by its name.
    """

    def __init__(
        self,
        info: Info,
        tables: Sequence[str],
        offsets: Mapping[str, NDArray[np.int64]],
        texts: Mapping[str, Mapping[int, str]],
        types: FieldTypes,
    ) -> None:
        self._tables, self._texts = tables, texts
        headers = {name: _header(np.dtype(one).str, shape) for name, (one, shape) in types.items()}
        self._features = [
            (name, headers.get(name), offsets.get(name))
            for name, one in info.features.items()
            if not one.is_camera
        ]
        self._pads = [
            (f"{name}_is_pad", headers[f"{name}_is_pad"], own) for name, own in offsets.items()
        ]

    def read(self, batch: FrameBatch, number: int) -> tuple[dict[str, Payload], int]:
        """Return the fields of a sample without pictures, and the number of its task, -1 without tasks.

        Args:
            batch: The samples.
            number: The sample's number in the batch.

        Raises:
            SourceError: A row cannot be read, or states another episode or frame, or the number of a task or subtask has
                no text.
            OSError: The file was removed or has changed.
        """
        place, (group, row) = batch.places[number], batch.current(number)
        numbers = [int(group.take(name, row)) for name in (EPISODE, FRAME)]
        if numbers != [place.number, place.row - place.start]:
            raise SourceError(
                f"its row in {self._tables[place.table]} says episode {numbers[0]}, frame {numbers[1]}: meta/episodes "
                "and the table disagree, write the dataset again"
            )
        fields: dict[str, Payload] = {}
        for name, pad_header, own in self._pads:
            fields[name] = pad_header + batch.window(own).is_pad[number].tobytes()
        for name, header, offsets in self._features:
            if offsets is None:
                values = group.take(name, row)
            else:
                values = batch.values(number, name, offsets)
            fields[name] = header + values.tobytes() if header else to_text(values)
        for word, texts in self._texts.items():
            of_text = int(group.take(f"{word}_index", row))
            if of_text not in texts:
                raise SourceError(
                    f"its {word}_index is {of_text}, which meta/{word}s.parquet lacks"
                )
            fields[word] = texts[of_text].encode()
        return fields, int(group.take("task_index", row)) if "task" in self._texts else -1
