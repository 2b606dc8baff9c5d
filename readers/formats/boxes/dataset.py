"""The base of formats that have a file of annotations for each picture: finding and reading files, identity, columns."""

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

_HEAD_BYTES = 4096  # enough for the first tag or brace behind a declaration or a comment
_ANNOTATIONS = (".xml", ".json")  # endings of one annotation per picture: Pascal VOC, LabelMe
_NUM_CONTENTS = 4096  # annotations whose bytes the fingerprint covers; reading all of a large dataset takes minutes
_DAMAGED = b"\0damaged"  # content of an unreadable annotation in the fingerprint; an empty file has another one
_PARSED_BYTES = (
    100  # memory for each byte of XML or of rows while it is parsed: 9 MB of nested XML took 900 MB
)


def files_below(root: Path, folder: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each folder below root/folder with the names of its files, sorted; hidden folders and files are skipped.

    A folder with the name of an annotation (``1.xml``) is also listed as a file, so that it gives an unreadable annotation instead
    of a missing one. Links to folders are followed, except to a folder that contains the link.

    Args:
        root: Folder that the yielded names are relative to.
        folder: Folder to begin in, relative to the root.

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
    name_of: dict[str, str] = {}
    for name in names:
        stem = stem_of(name)
        if not stem.endswith(suffix):
            continue
        other = name_of.setdefault(stem.removesuffix(suffix), name)
        if other != name:
            raise SourceError(
                f"{where}: {other} and {name} have the same name but for the ending, so that it is unclear to which of them an "
                "annotation or mask of that name belongs: rename or remove one of them"
            )
    return name_of


class Entry(NamedTuple):
    """A picture and its annotation.

    Attributes:
        key: Name of the sample.
        image: Name of the picture below the dataset's folder, "" if only the annotation names it.
        annotation: Name of the file of its objects, "" without one.
        label: Class number of the picture, -1 for none.
    """

    key: str
    image: str
    annotation: str
    label: int = -1


class Picture(NamedTuple):
    """The content of an entry.

    Attributes:
        data: Encoded bytes of the picture.
        field: Name of its field, such as ``jpg``.
        header: Its header.
        targets: Content of the field ``json``, None for a sample without it.
        fields: Further fields.
    """

    data: Payload
    field: str
    header: Header
    targets: Mapping[str, Any] | None
    fields: Mapping[str, Payload]


class AnnotatedDataset(IndexedDataset):
    """Pictures below a folder, each with a file of annotations; a format's class finds and reads them.

    Args:
        root: The folder.
        entries: The samples.
        class_names: Name of each class number.
        options: Options that change the content of samples, as plain values, for the fingerprint.
        remarks: Warnings for the user.
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
        """32 hex digits over the names, sizes and labels of all files, the content of up to 4096 annotations, classes and options.

        These annotations are spread evenly over the samples.
        """
        settings = json.dumps([self._class_names, self._options], sort_keys=True)
        digest = hashlib.sha256(f"pictures with annotations, 1: {settings}\n".encode())
        for entry in self._entries:
            sizes = self._files.sizes(
                [entry.image or entry.annotation, entry.annotation or entry.image]
            )
            line = "\0".join(map(str, (*entry, *sizes)))
            digest.update(f"{line}\n".encode("utf-8", "surrogateescape"))
        for row in spread_evenly(len(self), _NUM_CONTENTS):
            digest.update(hashlib.sha256(self._content(self._entries[row])).digest())
        return digest.hexdigest()[:32]

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; ``num_bytes`` is -1."""
        if name == "label":
            return np.array([one.label for one in self._entries], np.int64)
        if name == "num_bytes":
            return np.full(len(self), -1, np.int64)
        return self._stated_sizes[:, 0 if name == "height" else 1].copy()

    def keys(self) -> list[str]:
        """Name of every sample."""
        return [one.key for one in self._entries]

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read pictures and annotations, with threads if the storage is slow; see `Dataset.fetch`."""
        return fetch_each(self._fetch_one, checked_indices(indices, len(self)))

    @abstractmethod
    def _read(self, entry: Entry) -> Picture:
        """Read a picture and its objects.

        Raises:
            HeaderError: The picture has no header of an image.
            ValueError: Something else is wrong; the text is a short reason that names the file.
        """

    def _set_classes(self, names: Sequence[str]) -> None:
        self._class_names = tuple(names)
        self._numbers = {name: number for number, name in enumerate(self._class_names)}

    def _sizes_of(self, entry: Entry) -> tuple[int, int]:
        """Return (height, width) as an annotation states it, zeros if it states none.

        Raises:
            ValueError: The annotation cannot be read.
        """
        del entry
        return 0, 0

    @cached_property
    def _stated_sizes(self) -> NDArray[np.int64]:
        sizes = np.zeros((len(self), 2), np.int64)
        for row, entry in enumerate(self._entries):
            sizes[row] = read_if_sound(self._sizes_of, entry) or (0, 0)
        return sizes

    def _fetch_one(self, index: int) -> Sample | BadSample:
        entry = self._entries[index]
        try:
            picture = self._read(entry)
        except HeaderError as error:
            return BadSample(index, entry.key, "header", str(error))
        except (ValueError, SourceError) as error:
            return BadSample(index, entry.key, "read", str(error), transient=is_transient(error))
        fields: dict[str, Payload] = {picture.field: picture.data}
        if picture.targets is not None:
            fields["json"] = to_payload({**picture.targets, **CORNERS})
        fields |= picture.fields
        size = picture.header.height, picture.header.width
        return Sample(index, entry.key, fields, entry.label, size, image_field=picture.field)

    def _content(self, entry: Entry) -> bytes:
        if not entry.annotation:
            return b""
        content = read_if_sound(self._files.read_annotation, entry.annotation)
        return _DAMAGED if content is None else content


class AnnotationFiles(FilesBelow):
    """Reads the files of a dataset by their names relative to its folder."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "the folder of the dataset")

    def read_annotation(self, name: str, parsed_bytes: int = _PARSED_BYTES) -> bytes:
        """Read a file of annotations.

        Args:
            name: Name relative to the folder.
            parsed_bytes: Most memory that a byte of the file takes while it is parsed.

        Raises:
            ValueError: The file cannot be read, or takes too much memory.
        """
        [size] = self.sizes([name])
        check_bytes(parsed_bytes * size, name)
        return bytes(self.read(name))

    def read_picture(self, name: str) -> tuple[Payload, str, Header]:
        """Return the bytes of a picture, the name of its field, and its header.

        Raises:
            HeaderError: The file has no header of an image.
            ValueError: The file cannot be read.
        """
        data = self.read(name)
        return data, image_field(name), read_header(data)


def image_field(name: str) -> str:
    """Return the name of a picture among the fields of its sample: its ending, ``jpg`` for a file without one of an image."""
    return name.rpartition(".")[2].lower() if is_image_file(name) else IMAGE_FIELDS[0]
