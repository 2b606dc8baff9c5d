"""Datasets of TFRecord shards with random access, without TensorFlow: tf.train.Examples, or records of any kind."""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.datasets.located import Located, Reads
from readers.fingerprint import fingerprint_of
from readers.formats.columns import UNREADABLE, ColumnOptions, Roles, ambiguity_warnings, find_roles
from readers.formats.protobuf.example import ExampleReader, decode_fields, is_decoded
from readers.formats.protobuf.wire import WireError
from readers.formats.tfrecord.crc32c import crc32c, find_checked_lengths, masked
from readers.formats.tfrecord.label_map import Classes, LabelMap, find_label_map, read_label_map
from readers.formats.tfrecord.objects import add_objects, holds_objects
from readers.image.header import image_size
from readers.image.restarts import restart_offsets
from readers.sample import BadSample, ColumnName, PathLike, Payload, Sample, SourceError
from readers.storage.blob import Content, open_blob
from readers.storage.index import Entry, Scan
from readers.storage.paths import is_url
from readers.storage.shards import ShardDataset

_HEAD = struct.Struct("<QI")  # length of the record, masked CRC-32C of these eight bytes
_TAIL_BYTES = 4  # masked CRC-32C of the record
_GZIP, _ZLIB = b"\x1f\x8b", (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_BOXES = re.compile(r"(?:object|objects)/bbox(?:/|$)")  # TensorFlow's object detection, TFDS
_FIRST_SEARCH_BYTES, _LAST_SEARCH_BYTES = (
    4096,
    1 << 20,
)  # most damage is small, and large damage is searched fast


def looks_like_tfrecord(first_bytes: bytes) -> bool:
    """Return whether a file is an uncompressed TFRecord file, by its first bytes.

    Args:
        first_bytes: First bytes of the file, at least 12; the result is False for fewer.
    """
    if len(first_bytes) < _HEAD.size:
        return False
    _, checksum = _HEAD.unpack_from(first_bytes)
    return bool(masked(crc32c(first_bytes[:8])) == checksum)


class _Frame(NamedTuple):
    """The location of a record in a shard, or of bytes in which no record can be read.

    Attributes:
        start: Offset of the record in the shard.
        stop: Offset of its end.
        fault: Reason why it cannot be read, "" if it can.
    """

    start: int
    stop: int
    fault: str = ""


def _frames(content: Content, name: str) -> Iterator[_Frame]:
    """Yield the location of each record in a shard, and of each part in which no record can be read.

    Raises:
        SourceError: The shard does not begin with a record.
    """
    position, size = 0, len(content)
    while position < size:
        head = bytes(content[position : position + _HEAD.size])
        if looks_like_tfrecord(head):
            start = position + _HEAD.size
            stop = start + _HEAD.unpack(head)[0]
            if stop + _TAIL_BYTES > size:
                yield _Frame(start, start, f"{name} is cut off at byte {size}, within this record")
                return
            yield _Frame(start, stop)
            position = stop + _TAIL_BYTES
            continue
        if position == 0:
            raise SourceError(_foreign(head, name))
        stop = _find_record(content, position + 1)
        lost = f"{name} is damaged at byte {position}: no record can be read up to byte {stop}"
        yield _Frame(position, position, lost)
        position = stop


def _find_record(content: Content, start: int) -> int:
    """Return the first offset from `start` on at which a record may begin; the length of the shard if there is none."""
    size, num_bytes = len(content), _FIRST_SEARCH_BYTES
    while start < size:
        window = content[start : start + num_bytes]
        for offset in find_checked_lengths(window, size - start).tolist():
            (length,) = struct.unpack_from("<Q", window, offset)
            if start + offset + _HEAD.size + length + _TAIL_BYTES <= size:
                return int(start + offset)
        start += max(len(window) - _HEAD.size + 1, 1)
        num_bytes = min(2 * num_bytes, _LAST_SEARCH_BYTES)
    return size


def _foreign(head: bytes, name: str) -> str:
    if not head:
        return f"{name} is empty (0 bytes): write the shard again"
    if head.startswith(_GZIP) or head.startswith(_ZLIB):
        return f"{name} is compressed: decompress it (gzip -d, or zlib), to read at random"
    return (
        f"{name} is not a TFRecord file: it begins with {head!r}, where the length of a record and its "
        "checksum must be; correct the path"
    )


def _checksum_fault(content: Content, frame: _Frame) -> str:
    stored = int.from_bytes(content[frame.stop : frame.stop + _TAIL_BYTES], "little")
    if masked(crc32c(content[frame.start : frame.stop])) == stored:
        return ""
    return f"its checksum is wrong: bytes {frame.start} to {frame.stop} are not what was written"


@dataclass(frozen=True)
class _Records:
    """Callable that finds the samples of a shard.

    Attributes:
        reader: Parses the records.
        checks_all: Whether the checksum of every record is compared, or only those of the first ones.
    """

    reader: ExampleReader
    checks_all: bool

    def __call__(self, content: Content, name: str) -> Iterator[Entry]:
        examples: bool | None = None
        if len(content) == 0:
            raise SourceError(_foreign(b"", name))
        for number, frame in enumerate(_frames(content, name)):
            fault = frame.fault
            record = content[frame.start : frame.stop]
            if not fault and (examples is None or self.checks_all):
                # A damaged Example must not turn all others into plain records.
                fault = _checksum_fault(content, frame)
                if not fault and examples is None:
                    examples = self.reader.accepts(record, name)
            if fault:
                label = (
                    -1 if frame.fault else UNREADABLE
                )  # bytes between records are no sample with a label
                yield Entry(str(number), (), label, fault=fault)
            elif examples:
                yield self._example(content, frame, record, number)
            else:
                yield _plain_record(frame, record, number)

    def _example(self, content: Content, frame: _Frame, record: Payload, number: int) -> Entry:
        try:
            example = self.reader.read(record)
        except ValueError as error:
            fault = (
                _checksum_fault(content, frame) or f"its tf.train.Example cannot be read: {error}"
            )
            return Entry(str(number), (), UNREADABLE, fault=fault)
        members = tuple(
            (field, frame.start + start, frame.start + stop)
            for field, start, stop in example.members
        )
        spans = (slice(*span) for field, *span in example.members if field == example.image)
        image = record[next(spans, slice(0))]
        return Entry(
            str(number) if example.key is None else example.key,
            members,
            example.label,
            image_size(image),
            restarts=restart_offsets(image),
            image_field=example.image,
        )


def _plain_record(frame: _Frame, record: Payload, number: int) -> Entry:
    size = image_size(record)
    return Entry(
        str(number),
        (("record", frame.start, frame.stop),),
        size=size,
        restarts=restart_offsets(record),
        image_field=None if size is None else "record",
    )


class TfRecordDataset(ShardDataset):
    """Samples in uncompressed TFRecord shards.

    Usually each record is a tf.train.Example, whose features become fields. A bytes feature with one value becomes a field
    unchanged; one with several values becomes the fields ``NAME.0``, ``NAME.1`` and so on; float
    and int64 features become JSON, a number for one value and a list otherwise. Features without
    a value are left out. The label is an int64 feature of one value, or text of a number.

    Records of TensorFlow's object detection, that is with the features ``image/object/bbox/xmin`` and so on and
    ``image/object/class/text`` or ``label``, also have the fields

    - ``json``, from which the loader reads targets: ``boxes`` x, y, x, y in pixels of the upright image, ``labels``,
      and, if they are stored, ``iscrowd``, ``difficult``, ``area``, ``truncated``, ``group_of``, ``weight``;
    - ``mask.0.png`` and so on in the order of the boxes, the values of ``image/object/mask``.

    The classes of objects count from 0 in the order of the numbers in the label map; a class text in a record must agree
    with its number. Without a label map the classes are the numbers in the records, with a warning. The label of such a sample
    is -1 unless ``label=`` is given. If features of objects have different counts of values, the sample is bad.

    If the first record is no Example, each record becomes one field ``record``, without label and key; it is the
    sample's image if its header is one of an image.

    The checksum of each record's length is compared when the shard is indexed. The checksum of the record itself is
    compared only with ``verify=True``: indexing then reads every byte once, and damaged records become
    bad samples. Without it, damage within an image or a number goes unnoticed. `fetch` never compares checksums; damage
    after indexing is found by the method `verify`. In a truncated shard the complete records can be read,
    and one BadSample stands for the rest. After damage in the middle, reading continues at the next length
    with a correct checksum, and one BadSample stands for the bytes between.

    Args:
        shards: Paths or URLs of the files. The samples follow this order.
        image: Name of the feature that holds the encoded image; if None, the first usual name that exists.
        label: Name of the feature that holds the class number; if None, the first usual name that exists.
        key: Name of the feature that holds the key; if None, the first usual name that exists, or else the record's index in
            its shard.
        columns: Names of the features that become fields; None for all.
        verify: Whether the checksum of every record is compared when the shard is indexed.
        classes: For object detection the label map: the path of a ``.pbtxt`` file, a sequence of names for the numbers
            1, 2, ..., or a dict from number to name. If None, ``label_map.pbtxt``, or the only ``.pbtxt`` file, next to the
            first shard.
        crowd: Whether regions that hold several objects (``is_crowd``, ``group_of``) count as objects.

    Raises:
        SourceError: The label map cannot be read; a shard is missing, empty, compressed or no TFRecord file, or holds
            SequenceExamples; or its first record lacks a feature that an argument names.
        IndexFileError: No folder for the index file can be written to.
    """

    declares_count = False

    def __init__(
        self,
        shards: Sequence[PathLike],
        *,
        image: str | None = None,
        label: str | None = None,
        key: str | None = None,
        columns: Sequence[str] | None = None,
        verify: bool = False,
        classes: Classes | None = None,
        crowd: bool = False,
    ) -> None:
        self._reader = ExampleReader(image, label, key, columns)
        self._options = {**asdict(self._reader), "verify": verify}
        self._crowd = crowd
        find = _Records(self._reader, verify)
        super().__init__(shards, Scan("tfrecord", 4, find, self._options))
        members = self.members
        self._is_stored = not any(map(is_decoded, members))
        self._has_objects = holds_objects(members)
        self.unlabelled = None if self._has_objects else self.unlabelled
        self._labels = self._read_labels(classes) if self._has_objects else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the paths and the options; the process that unpickles opens the shards again."""
        classes = None if self._labels is None else dict(self._labels.names)
        return partial(type(self), **self._options, classes=classes, crowd=self._crowd), (
            self.shards,
        )

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the fingerprint of `ShardDataset`, and of label map and `crowd` if these are given."""
        # Calls the function of the base's cached property: the property itself would cache its value under this name.
        stored: str = vars(ShardDataset)["fingerprint"].func(self)
        if self._labels is None and not self._crowd:
            return stored
        names = sorted(self._labels.names.items()) if self._labels else []
        return fingerprint_of(f"{stored} {names}{' crowd' if self._crowd else ''}")

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names in the label map, by class number; empty without a label map."""
        return () if self._labels is None else tuple(self._labels.names.values())

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        """Return where the images of samples lie in files; None if a feature must be converted, which only `fetch` does."""
        return super().locate(indices, reads) if self._is_stored else None

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples; see `ShardDataset.fetch`."""
        found = super().fetch(indices)
        if not self._has_objects or self._reader.label is not None:
            return found
        return [replace(one, label=-1) if isinstance(one, Sample) else one for one in found]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings for the user, based on the features in the first shard."""
        stored = {name for kind in self._found[0].head.kinds for name in kind[0]}
        numbers = {name[1:] for name in stored if is_decoded(name)}
        [image, *_] = [*(kind[1] for kind in self._found[0].head.kinds if kind[1]), None]
        names = [name.lstrip("\0\1") for name in stored]
        usual = find_roles(ColumnOptions(), (), names, integers=numbers)
        found = ambiguity_warnings(
            self.shards[0],
            self._reader,
            Roles(image, usual.label),
            encoded=stored,
            integers=numbers,
        )
        boxes = sorted(name for name in numbers if _BOXES.search(name))
        if self._has_objects:
            return () if self._labels else (_without_label_map(self.shards[0]),)
        if boxes:
            found += (
                f"{self.shards[0]} has boxes in the features {', '.join(boxes[:4])}, which are not read as targets: "
                'write them into a feature json, {"boxes": [[x1, y1, x2, y2]], "labels": [1]} in pixels',
            )
        return found

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; ``num_bytes`` is -1 for shards with features of numbers, which are converted to JSON."""
        if name == "label" and self._has_objects and self._reader.label is None:
            return np.full(len(self), -1, np.int64)
        result = super().column(name)
        if name == "num_bytes":
            for found, start, stop in zip(
                self._found, self._starts, self._starts[1:], strict=False
            ):
                names = {name for kind in found.head.kinds for name in kind[0]}
                if any(map(is_decoded, names)):
                    result[start:stop] = -1
        return result

    def verify(self) -> Iterator[BadSample]:
        """Read all shards, and compare the checksum of each record.

        Yields:
            A `BadSample` for each record that is damaged.
        """
        index = 0
        for location in self.shards:
            blob = open_blob(location)
            content = blob.content()
            for number, frame in enumerate(_frames(content, blob.name)):
                fault = frame.fault or _checksum_fault(content, frame)
                if fault:
                    yield BadSample(index, f"{blob.name}/{number}", "read", fault)
                index += 1

    def _decode(  # type: ignore[override]  # ours needs the label map
        self, fields: dict[str, Payload], size: tuple[int, int] | None
    ) -> dict[str, Payload]:
        """Return the fields, with features of numbers converted to JSON, and objects converted to targets and masks."""
        try:
            decoded = decode_fields(fields)
        except WireError as error:
            raise ValueError(f"a feature cannot be read: {error}") from None
        return (
            add_objects(decoded, size, self._labels, crowd=self._crowd)
            if self._has_objects
            else decoded
        )

    def _read_labels(self, classes: Classes | None) -> LabelMap | None:
        if classes is not None:
            return read_label_map(classes)
        first = self.shards[0]
        beside = None if is_url(first) else find_label_map(Path(first).parent)
        return None if beside is None else read_label_map(beside)


def _without_label_map(shard: str) -> str:
    return (
        f"{shard} has objects and no label map beside it, so their classes are the numbers in the records, which mostly "
        "begin at 1: say classes='label_map.pbtxt', or classes=['person', ...] for 1, 2, ..."
    )
