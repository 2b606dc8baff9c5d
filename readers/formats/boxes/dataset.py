"""Pictures of which each has a file of annotations: reading both, their identity, their columns."""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from readers.dataset import IndexedDataset
from readers.formats.columns import to_payload
from readers.formats.files.beside import FilesBelow
from readers.formats.files.dataset import fetch_each
from readers.image.header import Header, read_header
from readers.sample import (
    IMAGE_FIELDS,
    BadSample,
    ColumnName,
    HeaderError,
    Payload,
    Sample,
    SourceError,
    checked_indices,
)
from readers.storage.limits import check_bytes

Outside = Literal["raise", "clip"]
_NUM_CONTENTS = 4096  # annotations of which the fingerprint sees every byte
_PARSED_BYTES = 32  # that a byte of XML or JSON becomes at most, or nearly


class Entry(NamedTuple):
    """A picture and its annotation.

    Attributes:
        key: Names the sample.
        image: Name of the picture below the dataset's folder, "" where only the annotation tells it.
        annotation: Name of the file of its objects, "" where it has none.
        label: Class number of the whole picture, -1 for none.
    """

    key: str
    image: str
    annotation: str
    label: int = -1


class Picture(NamedTuple):
    """What was read of an entry.

    Attributes:
        data: Encoded bytes of the picture.
        field: Name of its field, such as ``jpg``.
        header: What its first bytes say.
        targets: Content of the field ``json``, None where the sample has none.
        fields: Further fields.
    """

    data: Payload
    field: str
    header: Header
    targets: Mapping[str, Any] | None
    fields: Mapping[str, Payload]


class AnnotatedDataset(IndexedDataset):
    """Pictures below a folder, each with a file of annotations; the formats differ in how they find and read them.

    Args:
        root: The folder.
        entries: The samples.
        class_names: Name of each class number.
        options: What further decides what a sample holds, in plain values, for the fingerprint.
        remarks: Sentences for the one who opens it.
    """

    def __init__(
        self,
        root: Path,
        entries: Sequence[Entry],
        class_names: Sequence[str],
        options: Mapping[str, Any],
        remarks: Sequence[str] = (),
    ) -> None:
        self._root = root
        self._files = AnnotationFiles(root)
        self._entries = entries
        self._set_classes(class_names)
        self._options = dict(options)
        self._remarks = tuple(remarks)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class number."""
        return self._class_names

    @property
    def remarks(self) -> tuple[str, ...]:
        """See `IndexedDataset.remarks`."""
        return self._remarks

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over names, sizes and labels of all files, 4096 annotations, classes and options.

        The content of annotations that are spread evenly over the samples counts: of all where there are no more.
        """
        settings = json.dumps([self._class_names, self._options], sort_keys=True)
        digest = hashlib.sha256(f"pictures with annotations, 1: {settings}\n".encode())
        for one in self._entries:
            sizes = self._files.sizes([one.image or one.annotation, one.annotation or one.image])
            line = "\0".join(map(str, (*one, *sizes)))
            digest.update(f"{line}\n".encode("utf-8", "surrogateescape"))
        rows = np.linspace(0, len(self) - 1, min(len(self), _NUM_CONTENTS)).astype(np.int64)
        for row in np.unique(rows).tolist():
            digest.update(hashlib.sha256(self._content(self._entries[row])).digest())
        return digest.hexdigest()[:32]

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`; the sizes of files are not known without reading."""
        if name == "label":
            return np.array([one.label for one in self._entries], np.int64)
        if name == "num_bytes":
            return np.full(len(self), -1, np.int64)
        return self._stated_sizes[:, 0 if name == "height" else 1].copy()

    def keys(self) -> list[str]:
        """Name of every sample."""
        return [one.key for one in self._entries]

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read pictures and annotations, several at a time where they are slow to come; see `Dataset.fetch`."""
        return fetch_each(self._fetch_one, checked_indices(indices, len(self)))

    @abstractmethod
    def _read(self, entry: Entry) -> Picture:
        """Read a picture and its objects.

        Raises:
            HeaderError: The picture does not begin like one.
            ValueError: Something else is wrong; the text is a short reason that names the file.
        """

    def _set_classes(self, names: Sequence[str]) -> None:
        self._class_names = tuple(names)
        self._numbers = {name: number for number, name in enumerate(self._class_names)}

    def _sizes_of(self, entry: Entry) -> tuple[int, int]:
        """(height, width) as an annotation states it, zeros where it does not."""
        del entry
        return 0, 0

    @cached_property
    def _stated_sizes(self) -> NDArray[np.int64]:
        found = np.zeros((len(self), 2), np.int64)
        for row, entry in enumerate(self._entries):
            found[row] = self._sizes_of(entry)
        return found

    def _fetch_one(self, index: int) -> Sample | BadSample:
        entry = self._entries[index]
        try:
            found = self._read(entry)
        except HeaderError as error:
            return BadSample(index, entry.key, "header", str(error))
        except (ValueError, SourceError) as error:
            return BadSample(index, entry.key, "read", str(error))
        fields: dict[str, Payload] = {found.field: found.data}
        if found.targets is not None:
            fields["json"] = to_payload(found.targets)
        fields |= found.fields
        size = found.header.height, found.header.width
        return Sample(index, entry.key, fields, entry.label, size, image_field=found.field)

    def _content(self, entry: Entry) -> bytes:
        try:
            return self._files.read_annotation(entry.annotation) if entry.annotation else b""
        except ValueError:
            return b""


class AnnotationFiles(FilesBelow):
    """The files of a dataset, by names relative to its folder."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "the folder of the dataset")

    def read_annotation(self, name: str, parsed_bytes: int = _PARSED_BYTES) -> bytes:
        """Read a file of annotations.

        Args:
            name: Relative to the folder.
            parsed_bytes: What a byte of it takes in memory, at most.

        Raises:
            ValueError: It cannot be read, or takes too much memory.
        """
        [size] = self.sizes([name])
        check_bytes(parsed_bytes * size, name)
        return bytes(self.read(name))

    def read_picture(self, name: str) -> tuple[Payload, str, Header]:
        """Read a picture: its bytes, the name of its field, and its header.

        Raises:
            HeaderError: It does not begin like one.
            ValueError: It cannot be read.
        """
        data = self.read(name)
        return data, image_field(name), read_header(data)


def image_field(name: str) -> str:
    """The name of a picture among the fields of its sample."""
    ending = name.rpartition(".")[2].lower()
    return ending if ending in IMAGE_FIELDS else IMAGE_FIELDS[0]


def class_number(numbers: Mapping[str, int], name: str, where: str) -> int:
    """The number of a class.

    Raises:
        ValueError: There is no such class.
    """
    if name not in numbers:
        known = ", ".join([*numbers][:5]) + (", ..." if len(numbers) > 5 else "")
        raise ValueError(f"{where}: {name!r} is none of the classes ({known})")
    return numbers[name]


def checked_classes(classes: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names of classes that a caller gave.

    Raises:
        SourceError: They are no list of different names.
    """
    if classes is None:
        return None
    names = [classes] if isinstance(classes, str) else list(classes)
    if isinstance(classes, str) or not names or not all(isinstance(name, str) for name in names):
        raise SourceError(
            f"classes={classes!r} must be a list of names in the order of their numbers, such as ['cat', 'dog']"
        )
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SourceError(f"classes= names {twice!r} twice: each class has one number")
    return tuple(names)


def require_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """See that an argument is one of its choices.

    Raises:
        SourceError: It is not.
    """
    if value not in choices:
        raise SourceError(f"{name}={value!r} must be one of {', '.join(map(repr, choices))}")


def require_outside(value: object) -> None:
    """See that an argument ``outside`` is one of its choices; see `require_choice`."""
    require_choice("outside", value, get_args(Outside))


def fit_box(
    box: Sequence[float],
    size: tuple[int, int],
    outside: Outside,
    where: str,
    *,
    raw: Sequence[float] | None = None,
    hint: str = "",
) -> list[float] | None:
    """Return a box that lies in its picture, None where it is cut and nothing is left of it.

    Args:
        box: Left, top, right, bottom in pixels.
        size: Height and width of the picture.
        outside: What to do with one that leaves the picture.
        where: Names file and object, for errors.
        raw: The box as it is written, for errors.
        hint: What may be meant, for errors.

    Raises:
        ValueError: It has no area, or leaves the picture and shall not be cut.
    """
    height, width = size
    written, limits = raw or box, (width, height, width, height)
    names = ("xmin", "ymin", "xmax", "ymax")
    far = next((at for at in range(4) if not 0 <= box[at] <= limits[at]), None)
    if far is not None and outside == "raise":
        side = "width" if far % 2 == 0 else "height"
        beyond = "< 0" if box[far] < 0 else f"> {side} {limits[far]}"
        shown = f"{written[far]:g}" + (f", which is {box[far]:g}" if raw and box[far] < 0 else "")
        raise ValueError(
            f"{where}: {names[far]} {shown} {beyond}{hint}; outside='clip' cuts such boxes"
        )
    for low, high in ((0, 2), (1, 3)):
        if box[low] >= box[high]:
            raise ValueError(
                f"{where}: {names[high]} {written[high]:g} leaves no area behind {names[low]} {written[low]:g}"
            )
    cut = [min(max(value, 0), limit) for value, limit in zip(box, limits, strict=True)]
    return cut if cut[0] < cut[2] and cut[1] < cut[3] else None


def told_of_unpaired(root: Path, num_images: int, num_annotations: int, ending: str) -> list[str]:
    """A sentence about pictures and annotations that have no counterpart, none where there are none."""
    if not num_images and not num_annotations:
        return []
    return [
        f"{root} has {num_images} pictures without {ending} and {num_annotations} {ending} without a picture, "
        "which are no samples"
    ]
