"""Base classes of datasets with one annotation file per picture: finding and reading files, fingerprint, columns."""

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

_HEAD_BYTES = 4096  # holds the first tag or brace, even after a declaration or a comment
_ANNOTATIONS = (".xml", ".json")  # endings of annotation files: Pascal VOC, LabelMe
_NUM_CONTENTS = 4096  # annotations whose bytes the fingerprint covers; reading all of a large dataset takes minutes
_DAMAGED = b"\0damaged"  # stands for an unreadable annotation in the fingerprint
_PARSED_BYTES = (
    100  # memory for each byte of XML or of rows while it is parsed: 9 MB of nested XML took 900 MB
)


def files_below(root: Path, folder: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each folder below root/folder, with the sorted names of its files; hidden folders and files are skipped.

    The yielded folder is relative to root and ends in a slash, or is "" for root. A folder with the name of an annotation
    (``1.xml``) is also listed as a file, so that it counts as an unreadable annotation instead of a missing one. Links to
    folders are followed, except to a folder that contains the link.

    Args:
        root: Folder that the yielded folders are relative to.
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
    """Yield the name of each file below root/folder, relative to root; see `files_below`."""
    return (prefix + name for prefix, names in files_below(root, folder) for name in names)


def stem_of(name: str) -> str:
    """Return a file's name without its last ending: ``a.b`` for ``a.b.jpg``."""
    return name.rpartition(".")[0] or name


def head_of(path: Path) -> bytes:
    """Return the first 4096 bytes of a file, enough to recognise its format; see `readers.storage.whole_files.read_head`."""
    return read_head(path, _HEAD_BYTES)


def by_stem(
    names: Iterable[str], where: object, suffix: str = "", *, with_folders: bool = True
) -> dict[str, str]:
    """Return a dict from stem, a file name without its ending, to file name.

    Args:
        names: Names of the files, with folders and endings.
        where: The folder or list that holds the files, for errors.
        suffix: Required end of the stems, such as ``_mask``, which the keys omit; files without it are left out.
        with_folders: Whether stems have the names of the folders. Without them, files of one name in two folders are refused.

    Raises:
        SourceError: Two files have the same stem.
    """
    name_of: dict[str, str] = {}
    for name in names:
        stem = stem_of(name if with_folders else name.rpartition("/")[2])
        if not stem.endswith(suffix):
            continue
        other = name_of.setdefault(stem.removesuffix(suffix), name)
        if other != name:
            raise SourceError(
                f"{where}: {other} and {name} have the same name but for the {'ending' if with_folders else 'folder'}, so that it is "
                "unclear to which of them an annotation or mask of that name belongs: rename or remove one of them"
            )
    return name_of


class Entry(NamedTuple):
    """The names of one sample's picture and annotation file, and its label.

    Attributes:
        key: Key of the sample.
        image: Name of the picture relative to the dataset's folder, "" if only the annotation names it.
        annotation: Name of the annotation file relative to the dataset's folder, "" if there is none.
        label: Class number of the picture, -1 for none.
    """

    key: str
    image: str
    annotation: str
    label: int = -1


class Picture(NamedTuple):
    """The content of one sample: its encoded picture, targets and further fields.

    Attributes:
        data: Encoded bytes of the picture.
        field: Name of the field that holds the picture, such as ``jpg``.
        header: Parsed header of the picture.
        targets: Content of the field ``json``; None for a sample without this field. Without a ``box_format`` its boxes are
            left, top, right, bottom.
        fields: Content of further fields by name.
    """

    data: Payload
    field: str
    header: Header
    targets: Mapping[str, Any] | None
    fields: Mapping[str, Payload]


class AnnotatedDataset(IndexedDataset):
    """Base class of datasets of pictures with one annotation file each; a subclass finds and reads the files.

    Args:
        root: The dataset's folder.
        entries: File names and label of each sample.
        class_names: Class names, by class number.
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

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the files' names, sizes and labels, the content of annotations, the class names and options.

        If there are more than 4096 samples, only the annotations of 4096 evenly spread ones are hashed by content.
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
        """Return a column; ``num_bytes`` is -1, and ``height`` and ``width`` are those that annotations state, 0 if they do not."""
        if name == "label":
            return np.array([one.label for one in self._entries], np.int64)
        if name == "num_bytes":
            return np.full(len(self), -1, np.int64)
        return self._stated_sizes[:, 0 if name == "height" else 1].copy()

    def keys(self) -> list[str]:
        """Return the key of every sample."""
        return [one.key for one in self._entries]

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples; pictures and annotations are read by threads if the storage is slow. See `Dataset.fetch`."""
        return fetch_each(self._fetch_one, checked_indices(indices, len(self)))

    @abstractmethod
    def _read(self, entry: Entry) -> Picture:
        """Read the picture and the annotation of an entry.

        Raises:
            HeaderError: The picture has no header of a known image format.
            ValueError: The picture or the annotation cannot be read; the text is a short reason that names the file.
        """

    def _set_classes(self, names: Sequence[str]) -> None:
        self._class_names = tuple(names)
        self._numbers = {name: number for number, name in enumerate(self._class_names)}

    def _sizes_of(self, entry: Entry) -> tuple[int, int]:
        """Return (height, width) as the annotation of an entry states it, (0, 0) if it does not.

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
            usual = {} if "box_format" in picture.targets else CORNERS
            fields["json"] = to_payload({**picture.targets, **usual})
        fields |= picture.fields
        size = picture.header.height, picture.header.width
        return Sample(index, entry.key, fields, entry.label, size, image_field=picture.field)

    def _content(self, entry: Entry) -> bytes:
        if not entry.annotation:
            return b""
        content = read_if_sound(self._files.read_annotation, entry.annotation)
        return _DAMAGED if content is None else content


class AnnotationFiles(FilesBelow):
    """Reads annotations and pictures by their names relative to a dataset's folder."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "the folder of the dataset")

    def read_annotation(self, name: str, parsed_bytes: int = _PARSED_BYTES) -> bytes:
        """Return the bytes of an annotation file.

        Args:
            name: Name relative to the dataset's folder.
            parsed_bytes: Upper limit of the memory that parsing takes, in bytes per byte of the file.

        Raises:
            ValueError: The file cannot be read, or parsing it would take too much memory.
        """
        [size] = self.sizes([name])
        check_bytes(parsed_bytes * size, name)
        return bytes(self.read(name))

    def read_picture(self, name: str) -> tuple[Payload, str, Header]:
        """Return the bytes of a picture, the name of its field, and its header.

        Raises:
            HeaderError: The file has no header of a known image format.
            ValueError: The file cannot be read.
        """
        data = self.read(name)
        return data, image_field(name), read_header(data)


def image_field(name: str) -> str:
    """Return the name of the field for a picture: its file ending, or ``jpg`` if that is not one of an image format."""
    return name.rpartition(".")[2].lower() if is_image_file(name) else IMAGE_FIELDS[0]
