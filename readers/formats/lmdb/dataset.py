"""Datasets of LMDB environments, whose values are read directly at their offsets in the file.

LMDB's own library copies every value, or keeps a transaction open while a value is in use. Here the B+tree of keys is
walked once, and the offsets of the values are stored in an index file, as for tar shards.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from readers.datasets.fetched import UnreadableLabelsError
from readers.datasets.located import Located, Reads
from readers.formats.columns import UNREADABLE, to_label, to_labels
from readers.formats.lmdb.tree import Node, Tree
from readers.formats.protobuf.datum import read_datum, to_pnm
from readers.formats.protobuf.wire import WireError
from readers.formats.tar.dotted import about_dots
from readers.image.header import image_size, read_header
from readers.image.restarts import restart_offsets
from readers.sample import (
    HeaderError,
    PathLike,
    Payload,
    Sample,
    SourceError,
    is_image_field,
)
from readers.storage.blob import Content, is_url
from readers.storage.blob.mapped import copied
from readers.storage.index import Entry, Scan
from readers.storage.shards import ShardDataset

Layout = Literal["files", "values", "numbered", "datum"]

_KEY_AND_FIELD = re.compile(rb"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)  # as in a tar shard
_NUMBERED = re.compile(rb"image-([0-9]{1,18})")
_FIRST_LABELS = 64  # labels that are checked to tell words, such as years, from class numbers
_NO_SAMPLES = re.compile(rb"__.*|num[-_ ]?samples|length|len|meta|metadata|keys", re.DOTALL)
_NUMBERING_FIELDS = {
    "cls",
    "label",
    "data",
    "ppm",
    "pgm",
}  # fields of samples with a class number of their own, so that folders are no classes
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_MSGPACK = re.compile(rb"[\x82-\x8f\x92-\x9f][\xa1-\xbf\xc4-\xc6\xd9-\xdb]")


class LmdbDataset(ShardDataset):
    """Samples in an LMDB environment, in the order of the keys.

    The layouts, which are recognised by the first keys and values:

    - ``files``: keys are file names, such as ``n01/10026.jpg`` and ``n01/10026.cls``, which are grouped into samples as in
      a tar shard (see `TarDataset`).
    - ``values``: each value is an encoded image (LSUN, BasicSR), which becomes the field ``image``. Keys that begin with
      two underscores, and keys such as ``num-samples`` and ``length``, are ignored.
    - ``numbered``: keys are ``image-000000001`` and ``label-000000001`` (text recognition), whose values become the fields
      ``image`` and ``label``. If at least half of the first labels are text, they are taken for the words in the images
      instead of classes, and each sample's label is -1.
    - ``datum``: each value is a Datum message of Caffe (``convert_imageset`` writes it under keys such as
      ``00000000_photo.jpg``). An encoded image becomes the field ``data``, raw pixels become the field ``ppm`` (in RGB) or
      ``pgm``.

    If, in one of the first two layouts, all keys have a folder and no sample has a ``cls``, the first folder is the
    class, numbered in sorted order.

    The tree is walked once (see `readers.storage.index`), and values are then read at their offsets; see `ShardDataset`.
    No program may write to the environment while it is in use; if it is written to, its samples become BadSamples.

    Args:
        path: Path of a folder with ``data.mdb``, or path or URL of the environment's file.
        layout: One of the layouts above; None to recognise it.
        database: Name of a database in the environment; None for the main one, or the only named one.

    Raises:
        SourceError: The file is missing or no LMDB of 64-bit little-endian machines, holds no samples, or its
            values are pickled or of an unknown layout.
    """

    def __init__(
        self, path: PathLike, *, layout: Layout | None = None, database: str | None = None
    ) -> None:
        if layout is not None and layout not in get_args(Layout):
            raise SourceError(
                f"layout must be one of {', '.join(get_args(Layout))}, got {layout!r}"
            )
        self._options: dict[str, Any] = {"layout": layout, "database": database}
        find = _Samples(layout, database)
        super().__init__([_data_file(path)], Scan("lmdb", 3, find, self._options))
        if "label" in self.members:  # the field may hold the words in the images
            self.unlabelled = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path and the options; the process that unpickles opens the file again."""
        return partial(type(self), **self._options), (self.shards[0],)

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """Class names, by class number: the first folders of the keys; empty if labels are not made from folders."""
        try:
            labels, rows = np.unique(self.column("label"), return_index=True)
        except UnreadableLabelsError:  # labels from folders can always be read
            return ()
        entries = self.fetch(rows[labels >= 0])
        first = entries[0] if entries else None
        if not isinstance(first, Sample) or not _NUMBERING_FIELDS.isdisjoint(first.fields):
            return ()
        names = [""] * int(labels[-1] + 1)
        for entry in entries:
            if isinstance(entry, Sample):
                names[entry.label] = entry.key.split("/")[1]  # the part after the file's name
        return tuple(names)

    @property
    def remarks(self) -> tuple[str, ...]:
        return (*super().remarks, *about_dots(self, "write names without other dots"))

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        """Return where the images of samples lie in the file; None if the values are Datum messages of raw pixels."""
        return super().locate(indices, lambda name: name == "planes" or reads(name))

    @staticmethod
    def _decode(fields: dict[str, Payload], size: tuple[int, int] | None) -> dict[str, Payload]:
        """Return the fields, with raw pixels of a Datum converted to an image file."""
        planes = fields.get("planes")
        if planes is None or size is None:
            return fields
        field, image = to_pnm(copied(planes), *size)
        return {field: image}


def _data_file(path: PathLike) -> PathLike:
    if is_url(path):
        return path
    location = Path(path).absolute()
    if location.is_dir() and not (location / "data.mdb").is_file():
        raise SourceError(f"{location} holds no data.mdb: give the folder of an LMDB environment")
    return location / "data.mdb" if location.is_dir() else location


@dataclass(frozen=True)
class _Samples:
    """Callable that finds the samples in the bytes of an LMDB file; see `LmdbDataset` for the options."""

    layout: Layout | None = None
    database: str | None = None

    def __call__(self, content: Content, name: str) -> Iterator[Entry]:
        """Yield the index entries of the samples, in the order of their keys."""
        tree = Tree(content, name, self.database)
        layout = self.layout or _recognise(content, tree, name)
        empty = True
        for entry in _SCANS[layout](content, tree):
            empty = False
            yield entry
        if empty:
            raise SourceError(
                f"{name} holds no samples of the layout {layout!r}: name the right one"
            )


def _recognise(content: Content, tree: Tree, name: str) -> Layout:
    """Return the layout of an environment, recognised by its first 16 keys and values."""
    first = list(islice((node for node in tree.nodes() if _counts(node)), 16))
    if not first:
        raise SourceError(f"{name} holds no samples: its database is empty")
    if any(_NUMBERED.fullmatch(node.key) for node in first):
        return "numbered"
    images = [node for node in first if _names_image(node)]
    values = [content[node.start : node.stop] for node in images or first if not node.fault]
    if images and not any(values):
        return "files"
    if not values:
        raise SourceError(f"{name} is damaged: {first[0].fault}")
    refused = ""
    for value in values:  # a bad value does not decide
        with suppress(HeaderError):
            read_header(value)
            return "files" if images else "values"
        try:
            read_datum(value)
            return "datum"  # Caffe's convert_imageset calls them 00000000_photo.jpg
        except WireError:
            continue
        except ValueError as error:
            refused = refused or str(error)
    if refused:
        raise SourceError(f"{name} holds Datums of Caffe of which none is an image: {refused}")
    start = bytes(values[0][:16])
    if images and not (_PICKLE.match(start) or _MSGPACK.match(start)):
        return "files"  # a kind of image that only a decoder knows
    raise SourceError(f"{name} {_refusal(start)}")


def _names_image(node: Node) -> bool:
    """Return whether a key is the name of an image file."""
    found = _KEY_AND_FIELD.fullmatch(node.key)
    return found is not None and is_image_field(found[2].decode("utf-8", "replace").lower())


def _refusal(start: bytes) -> str:
    advice = (
        "write the bytes of the image file as the value, under KEY.jpg, and its class under KEY.cls"
    )
    if _PICKLE.match(start):
        return f"holds pickled Python objects, which may run any code when they are read: {advice}"
    if _MSGPACK.match(start):
        return f"holds records of MessagePack, which are not read: {advice}"
    return f"holds values of no known layout, which start with {start[:8]!r}: {advice}"


def _counts(node: Node) -> bool:
    return node.is_lost or not _NO_SAMPLES.fullmatch(node.key)


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _files(content: Content, tree: Tree) -> Iterator[Entry]:
    numbers = _class_numbers(tree, _stem_and_field)
    for (stem, _), group in groupby(tree.nodes(), key=_stem_or_loss):
        nodes = list(group)
        fault = next((node.fault for node in nodes if node.fault), "")
        spans = {_stem_and_field(node)[1]: (node.start, node.stop) for node in nodes}
        if not fault and len(spans) < len(nodes):
            fault = f"one of the fields {', '.join(spans)} is stored twice"
        if not stem:
            continue
        label: Any = numbers.get(stem.partition(b"/")[0], -1)
        if "cls" in spans:
            lost = any(node.fault for node in nodes if _stem_and_field(node)[1] == "cls")
            label = UNREADABLE if lost else content[slice(*spans["cls"])]
        if fault:
            known = label if isinstance(label, int) else int(to_labels([label])[0])
            yield Entry(_text(stem), (), known, fault=fault)
            continue
        image = next((name for name in spans if is_image_field(name)), None)
        yield _entry(content, _text(stem), spans, image, label)


def _stem_or_loss(node: Node) -> tuple[bytes, bool]:
    return node.key if node.is_lost else _stem_and_field(node)[0], node.is_lost


def _stem_and_field(node: Node) -> tuple[bytes, str]:
    found = _KEY_AND_FIELD.fullmatch(node.key)
    if found is None or _NO_SAMPLES.fullmatch(node.key):
        return b"", ""
    return found[1], _text(found[2]).lower()


def _values(content: Content, tree: Tree) -> Iterator[Entry]:
    numbers = _class_numbers(tree, lambda node: (node.key if _counts(node) else b"", ""))
    for node in filter(_counts, tree.nodes()):
        if node.fault:
            yield Entry(_text(node.key), (), fault=node.fault)
            continue
        folder, slash, _ = node.key.partition(b"/")
        label = numbers.get(folder, -1) if slash else -1
        yield _entry(content, _text(node.key), {"image": (node.start, node.stop)}, "image", label)


def _numbered(content: Content, tree: Tree) -> Iterator[Entry]:
    # image- keys sort before label- keys: two walks in parallel pair them without holding either in memory.
    labels = (node for node in tree.nodes() if node.key.startswith(b"label-"))
    first = [content[node.start : node.stop] for node in islice(labels, _FIRST_LABELS)]
    are_classes = bool(first) and (to_labels(first) < -1).mean() < 0.5
    labels = (node for node in tree.nodes() if node.key.startswith(b"label-"))
    label = next(labels, None)
    for node in tree.nodes():
        found = _NUMBERED.fullmatch(node.key)
        if found is None and not node.is_lost:
            continue
        key, wanted = _text(node.key), b"label-" + node.key[6:]
        if node.fault:
            yield Entry(key, (), fault=node.fault)
            continue
        while label is not None and label.key < wanted:
            label = next(labels, None)
        spans = {"image": (node.start, node.stop)}
        number: Any = -1
        if label is not None and label.key == wanted:
            if label.fault:
                yield Entry(key, (), UNREADABLE, fault=label.fault)
                continue
            spans["label"] = (label.start, label.stop)
            number = content[label.start : label.stop] if are_classes else -1
        yield _entry(content, key, spans, "image", number)


def _datums(content: Content, tree: Tree) -> Iterator[Entry]:
    for node in filter(_counts, tree.nodes()):
        key = _text(node.key)
        if node.fault:
            yield Entry(key, (), fault=node.fault)
            continue
        try:
            datum = read_datum(content[node.start : node.stop])
        except ValueError as error:
            yield Entry(key, (), fault=f"the value is no Datum: {error}")
            continue
        span = (node.start + datum.start, node.start + datum.stop)
        if datum.encoded:
            yield _entry(content, key, {"data": span}, "data", datum.label)
            continue
        entry = _entry(content, key, {"planes": span}, None, datum.label)
        yield entry if entry.fault else entry._replace(size=datum.shape[1:])


_SCANS: dict[str, Callable[[Content, Tree], Iterator[Entry]]] = {
    "files": _files,
    "values": _values,
    "numbered": _numbered,
    "datum": _datums,
}


def _entry(
    content: Content,
    key: str,
    spans: dict[str, tuple[int, int]],
    image: str | None,
    value: Any,
) -> Entry:
    """Return the index entry of a sample; if its label cannot be read, an entry of a bad sample.

    Args:
        content: Bytes of the file.
        key: Key of the sample.
        spans: Start and end offset of each field, by name.
        image: Name of the field that holds the image, None if there is none.
        value: The label as stored.
    """
    try:
        label = to_label(value)
    except ValueError as error:
        return Entry(key, (), UNREADABLE, fault=str(error))
    size = restarts = None
    if image is not None:
        data = content[slice(*spans[image])]
        size, restarts = image_size(data), restart_offsets(data)
    members = tuple((name, start, stop) for name, (start, stop) in spans.items())
    return Entry(key, members, label, size, restarts=restarts, image_field=image)


def _class_numbers(tree: Tree, split: Callable[[Node], tuple[bytes, str]]) -> dict[bytes, int]:
    """Return the class number of each first folder; empty if a key has no folder, or a sample has a field cls."""
    folders = set()
    for node in tree.nodes():
        stem, field = split(node) if not node.is_lost else (b"", "")
        if not stem:
            continue
        folder, slash, _ = stem.partition(b"/")
        if not slash or field == "cls":
            return {}
        folders.add(folder)
    return {folder: number for number, folder in enumerate(sorted(folders))}
