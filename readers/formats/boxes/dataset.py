"""Pictures of which each has a file of annotations: finding and reading both, their identity, their columns."""

import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.formats.boxes.checks import read_if_sound
from readers.formats.columns import CORNERS, to_payload
from readers.formats.files.dataset import fetch_each
from readers.formats.files.described import FilesBelow, spread_evenly
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
    is_image_file,
)
from readers.storage.limits import check_bytes
from readers.storage.paths import leads_back
from readers.storage.unreadable import is_transient, refuse_folder_error
from readers.storage.whole_files import read_head

_HEAD_BYTES = 4096  # the first tag or brace stands in them, behind any comment
_ANNOTATIONS = (".xml", ".json")
_NUM_CONTENTS = 4096  # annotations of which the fingerprint sees every byte
_DAMAGED = (
    b"\0damaged"  # stands for an annotation that cannot be read: an empty one is another thing
)
_PARSED_BYTES = 100  # that a byte of XML or of rows becomes: 9 MB of nested XML took 900


def files_below(root: Path, folder: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the folders below root/folder and the names of their files, sorted; hidden ones are passed over.

    A folder that is called like an annotation (``1.xml``) counts as a file too, which cannot be read: passed over it would be
    an annotation that is not there. Links to folders are followed, but not those that lead to a folder around them.

    Args:
        root: Names are relative to it.
        folder: Where to begin, relative to it.

    Raises:
        SourceError: A folder cannot be listed.
    """
    for path, folders, files in os.walk(
        root / folder, onerror=refuse_folder_error, followlinks=True
    ):
        folders[:] = sorted(
            name for name in folders if name[0] != "." and not leads_back(Path(path, name))
        )
        files += [name for name in folders if name.lower().endswith(_ANNOTATIONS)]
        inside = os.path.relpath(path, root)
        prefix = "" if inside == "." else f"{inside}/"
        yield prefix, sorted(name for name in files if name[0] != ".")


def names_below(root: Path, folder: str = "") -> Iterator[str]:
    """Yield the files below root/folder, relative to root; see `files_below`."""
    return (prefix + name for prefix, names in files_below(root, folder) for name in names)


def stem_of(name: str) -> str:
    """Return a file's name without its last ending: ``a.b`` of ``a.b.jpg``."""
    return name.rpartition(".")[0] or name


def head_of(path: Path) -> bytes:
    """Return the first 4096 bytes of a file, which tell its kind; see `readers.storage.whole_files.read_head`."""
    return read_head(path, _HEAD_BYTES)


def by_stem(names: Iterable[str], where: object, suffix: str = "") -> dict[str, str]:
    """Return names of files by their stems.

    Args:
        names: Names with folders and endings.
        where: What holds them, for errors.
        suffix: Stands at the end of the stems and is taken away; names without it are left out.

    Raises:
        SourceError: Two names have one stem.
    """
    found: dict[str, str] = {}
    for name in names:
        stem = stem_of(name)
        if not stem.endswith(suffix):
            continue
        other = found.setdefault(stem.removesuffix(suffix), name)
        if other != name:
            raise SourceError(
                f"{where}: {other} and {name} have the same name but for the ending, so that it is unclear to which of them an "
                "annotation or mask of that name belongs: rename or remove one of them"
            )
    return found


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
        for row in spread_evenly(len(self), _NUM_CONTENTS):
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
        """(height, width) as an annotation states it, zeros where it does not.

        Raises:
            ValueError: It cannot be read.
        """
        del entry
        return 0, 0

    @cached_property
    def _stated_sizes(self) -> NDArray[np.int64]:
        found = np.zeros((len(self), 2), np.int64)
        for row, entry in enumerate(self._entries):
            found[row] = read_if_sound(self._sizes_of, entry) or (0, 0)
        return found

    def _fetch_one(self, index: int) -> Sample | BadSample:
        entry = self._entries[index]
        try:
            found = self._read(entry)
        except HeaderError as error:
            return BadSample(index, entry.key, "header", str(error))
        except (ValueError, SourceError) as error:
            return BadSample(index, entry.key, "read", str(error), transient=is_transient(error))
        fields: dict[str, Payload] = {found.field: found.data}
        if found.targets is not None:
            fields["json"] = to_payload({**found.targets, **CORNERS})
        fields |= found.fields
        size = found.header.height, found.header.width
        return Sample(index, entry.key, fields, entry.label, size, image_field=found.field)

    def _content(self, entry: Entry) -> bytes:
        if not entry.annotation:
            return b""
        content = read_if_sound(self._files.read_annotation, entry.annotation)
        return _DAMAGED if content is None else content


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
    """Return the name of a picture among the fields of its sample: its ending, ``jpg`` for a file without one of an image."""
    return name.rpartition(".")[2].lower() if is_image_file(name) else IMAGE_FIELDS[0]
