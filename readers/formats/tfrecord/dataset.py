"""TFRecord shards, read at random: tf.train.Example without TensorFlow, or records of any other kind."""

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
_BOXES = re.compile(r"(?:object|objects)/bbox(?:/|$)")  # of TensorFlow's object detection, and TFDS
_FIRST_SEARCH_BYTES, _LAST_SEARCH_BYTES = (
    4096,
    1 << 20,
)  # most damage is small, and large damage is searched fast


def looks_like_tfrecord(first_bytes: bytes) -> bool:
    """Return whether a file begins like an uncompressed TFRecord file.

    Args:
        first_bytes: At least 12 of them.
    """
    if len(first_bytes) < _HEAD.size:
        return False
    _, checksum = _HEAD.unpack_from(first_bytes)
    return bool(masked(crc32c(first_bytes[:8])) == checksum)


class _Frame(NamedTuple):
    """A record in a shard, or bytes in which none can be read."""

    start: int
    stop: int
    fault: str = ""


def _frames(content: Content, name: str) -> Iterator[_Frame]:
    """Walk from record to record; each shard has at least one."""
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
    """Return the next offset at which a record can begin, or the end."""
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
    """The scan for the samples of a shard; with `checks_all` all checksums are verified."""

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
                )  # bytes between records belong to no sample
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
    """Samples in TFRecord shards, not compressed.

    A record is a tf.train.Example. Of its features, a bytes feature with one value becomes a field as it
    is stored; one with several values becomes the fields ``NAME.0``, ``NAME.1`` and so on; float
    and int64 features become JSON, a number where there is one value and a list otherwise. Features without
    a value are left out. The label is an int64 feature of one value, or a number in text.

    Records of TensorFlow's object detection, that is with the features ``image/object/bbox/xmin`` and so on and
    ``image/object/class/text`` or ``label``, also have the fields

    - ``json``, in which the loader looks for targets: ``boxes`` x, y, x, y in pixels of the upright image, ``labels``,
      and where they are stored ``iscrowd``, ``difficult``, ``area``, ``truncated``, ``group_of``, ``weight``;
    - ``mask.0.png`` and so on in the order of the boxes, which are ``image/object/mask``.

    Classes count from 0 in the order of the numbers in the label map, by text where there is text, which must agree
    with the number. Without a label map they are the numbers in the records, and a warning says so. The label of such a sample is
    -1 unless ``label=`` is given. Features whose numbers of values do not agree make a bad sample.

    If the first record is no Example, each record is one field ``record``, the image if it begins like one, without
    label and key.

    The checksum of each record's length is checked when the shard is indexed. The checksum of the record itself is
    checked only with ``verify=True``: then the scan for the index reads every byte once, and damaged records are
    bad samples. Without it, damage within an image or a number goes unnoticed. (`fetch` costs the same either way. Damage
    after the shard was indexed is found by the method `verify`.) In a shard that is cut off the samples before the cut
    can be read, and one BadSample stands for the loss. Behind damage in the middle, records continue at the next length
    whose checksum is right, and one BadSample stands for the bytes between.

    Args:
        shards: Paths or URLs. The samples follow this order.
        image: Name of the feature that holds the encoded image; None takes the first of the usual names.
        label: Name of the feature that holds the class number; None takes the first of the usual names.
        key: Name of the feature that names samples for people; None takes the first of the usual names. Without one the
            record's number is the key.
        columns: The features that become fields; None takes all.
        verify: Whether the checksum of every record is compared when the shard is indexed.
        classes: For object detection the label map: the path of a ``.pbtxt``, the names of the numbers 1, 2, ..., or
            number -> name. None takes ``label_map.pbtxt``, or the only such file, beside the first shard.
        crowd: Regions that hold several objects (``is_crowd``, ``group_of``) count as objects.

    Raises:
        SourceError: The label map cannot be read; a shard is missing, empty, compressed or no TFRecord file, holds SequenceExamples,
            or its first record lacks a feature that was asked for.
        IndexFileError: No folder for the index can be written to.
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
        """Another process opens the shards itself."""
        classes = None if self._labels is None else dict(self._labels.names)
        return partial(type(self), **self._options, classes=classes, crowd=self._crowd), (
            self.shards,
        )

    @cached_property
    def fingerprint(self) -> str:
        """As of `ShardDataset`; with a label map also over its numbers and names."""
        # By its function: the property of the base would be kept under our name, and seen by other threads.
        stored: str = vars(ShardDataset)["fingerprint"].func(self)
        if self._labels is None and not self._crowd:
            return stored
        names = sorted(self._labels.names.items()) if self._labels else []
        return fingerprint_of(f"{stored} {names}{' crowd' if self._crowd else ''}")

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the label map, in the order of their numbers; empty without one."""
        return () if self._labels is None else tuple(self._labels.names.values())

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        """Return where images lie in files; None if features become fields of numbers, which `fetch` checks."""
        return super().locate(indices, reads) if self._is_stored else None

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read the samples; see `ShardDataset.fetch`."""
        found = super().fetch(indices)
        if not self._has_objects or self._reader.label is not None:
            return found
        return [replace(one, label=-1) if isinstance(one, Sample) else one for one in found]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return warnings; the first shard is read for them."""
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
        """Return a column; ``num_bytes`` is -1 in a shard whose samples have fields of numbers."""
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
        """Read all shards and compare the checksum of each record.

        Yields:
            Every sample that is not as it was written, among them those that `fetch` finds bad.
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
        """Make JSON of the features that hold numbers, and targets of those of object detection."""
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
