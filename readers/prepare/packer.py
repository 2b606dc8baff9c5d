"""Turn a sample into the members of a tar shard, in WebDataset's convention, or into a row of a Parquet shard."""

import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, count
from typing import NamedTuple

import numpy as np

from readers.formats.columns import to_labels
from readers.image.header import read_header
from readers.jpeg_seek_points.finder import Finder, find_seek_points
from readers.jpeg_seek_points.layout import PackedSeekPoints
from readers.labels.label_vector import class_number
from readers.order.shuffle import Order
from readers.prepare.errors import require_read
from readers.prepare.inspection.kind import is_video
from readers.sample import (
    BadSample,
    Dataset,
    HeaderError,
    Payload,
    Sample,
    is_image_field,
    is_video_field,
)
from readers.storage.copies import copied_sample

# Permissions of a member: fixed, so that the same sample gives the same bytes.
_MODE = 0o644
# File extensions that differ from the name of the image format.
_EXTENSIONS = {"jpeg": "jpg"}
# Limits of the ustar header for a name and a size.
_NAME_BYTES = 100
_SIZE_MAX = 0o77777777777
# Readers take at most 18 digits for a class number.
_MOST_LABELS = 10**18
# The extension of a file name; the seconds of a clip may follow it.
_ENDING = re.compile(r"\.[^.]*?(@[-+.\de]+)?$", re.DOTALL)
# Columns of a Parquet shard that readers interpret.
_RESERVED = ("key", "image", "label")
# Control characters, and surrogates that can be neither in UTF-8 nor in a file name.
_UNFIT = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udc7f\udd00-\udfff]")


class Packed(NamedTuple):
    """A sample that is ready to be written into a shard.

    Attributes:
        position: Position of the sample in the order of the pack.
        name: The key for the shard, unless another sample of the shard has it already.
        fields: Name and content of each field; names are unique, the image comes first.
        label: Class number, -1 for no label.
        headers: The tar header of each field, if the key is `name`; empty for Parquet.
        before_bytes: Size of all fields in the source, in bytes.
        found: Digest and seek points of the packed image; None if seek points are not wanted.
    """

    position: int
    name: str
    fields: tuple[tuple[str, Payload], ...]
    label: int
    headers: tuple[bytes, ...]
    before_bytes: int
    found: tuple[int, PackedSeekPoints] | None = None


class Refused(NamedTuple):
    """A sample that cannot be packed.

    Attributes:
        position: Position of the sample in the order of the pack.
        bad: The reason.
    """

    position: int
    bad: BadSample


@dataclass(frozen=True)
class Packer:
    """Prepares samples for writing; it can be pickled and used in any process.

    Attributes:
        dataset: The source; None if samples are passed to the call, as for a source that is read from front to back.
        order: The order of the pack; None for the source's own order.
        headers: Whether samples are for a tar shard, which needs headers; else they are for a Parquet shard.
        copied: Whether fields are copied to bytes, because they are sent to another process.
        finder: Finds the seek points of images; None if they are not wanted.
    """

    dataset: Dataset | None
    order: Order | None
    headers: bool
    copied: bool
    finder: Finder | None = None

    def __call__(self, task: range | list[Sample | BadSample]) -> list[Packed | Refused]:
        """Return prepared samples.

        Args:
            task: A range of positions in the order, whose samples are fetched; or a list of samples.

        Raises:
            TransientError: The storage failed to give a sample. The sample may be sound, so it must not be left out.
        """
        if not isinstance(task, range):
            return [self._pack(sample.index, sample) for sample in task]
        if self.dataset is None:
            raise TypeError("positions need a dataset")
        positions = np.asarray(task, np.int64)
        indices = positions if self.order is None else self.order.indices(0, positions)
        fetched = self.dataset.fetch(indices)
        return [self._pack(position, one) for position, one in zip(task, fetched, strict=True)]

    def _pack(self, position: int, sample: Sample | BadSample) -> Packed | Refused:
        """Return a sample prepared for writing, or a `Refused` with the reason why it cannot be packed."""
        if isinstance(sample, Sample):
            sample = copied_sample(sample)
        if isinstance(sample, BadSample):
            require_read(sample)
            return Refused(position, sample)
        image_kind, image = "", sample.image
        if is_video(sample):
            named = sample.image_field or ""
            image_kind = named.rpartition(".")[2] if is_video_field(named) else "video"
        elif image is not None:
            try:
                image_kind = read_header(image).format
            except HeaderError as error:
                return Refused(position, BadSample(sample.index, sample.key, "header", str(error)))
        if obstacle := _obstacle(sample, in_tar=self.headers):
            return Refused(position, BadSample(sample.index, sample.key, "read", obstacle))
        name, label = self._name(sample), class_number(sample.label)
        fields: list[tuple[str, Payload]] = []
        members = _members(sample, _EXTENSIONS.get(image_kind, image_kind), in_tar=self.headers)
        for field, member in members.items():
            data = sample.fields[field]
            if not self.headers and _is_redundant(field, data, name, label):
                continue
            fields.append((member, bytes(data) if self.copied else data))
        if self.headers and label >= 0 and "cls" not in members.values():
            fields.append(("cls", b"%d" % label))
        headers = headers_of(name, fields) if self.headers else ()
        before_bytes = sum(map(len, sample.fields.values()))
        found = None
        if self.finder is not None:
            found = find_seek_points(fields[0][1] if image is not None else None, self.finder)
        return Packed(position, name, tuple(fields), label, headers, before_bytes, found)

    def _name(self, sample: Sample) -> str:
        own = sample.key.partition("/")[2]
        if self.dataset is None or getattr(self.dataset, "has_shard_keys", False):
            name = _name(own, in_shards=True)
        elif bytes(sample.fields.get("key", b"")) == own.encode("utf-8", "backslashreplace") != b"":
            name = _name(own, in_shards=False)  # the column `key` names it, as in a packed shard
        else:
            name = _name(sample.key, in_shards=False)
        return name if self.headers else _as_text(name)


def _obstacle(sample: Sample, *, in_tar: bool) -> str:
    """Return the reason why a shard cannot hold a sample; "" if it can."""
    if not in_tar and is_video(sample):
        return "it is a video, which a Parquet shard does not hold: leave --format parquet out"
    if not in_tar and sample.image is None:
        return "it has no image, which a Parquet shard needs"
    if isinstance(sample.label, np.ndarray):
        return (
            "its label is a vector, which shards do not hold: pack the data without these labels, and give them to the "
            "shards, open_dataset(shards, labels=...)"
        )
    if sample.label >= _MOST_LABELS:
        return f"its label {sample.label} has more than 18 digits"
    return ""


def _members(sample: Sample, extension: str, *, in_tar: bool) -> dict[str, str]:
    """Return a dict from the fields of a sample to their names in a shard, the image first.

    Names are in lower case, with dots instead of slashes. If a name is taken, or readers would take the field for something
    else (the label, the image, the key), the field becomes ``NAME.bin``, or ``NAME-2.bin`` if that is taken, too. Names are
    assigned to the image first, then to the fields that keep their names.

    Args:
        sample: The sample.
        extension: Name for the field of the image if the source declares that field (`Sample.image_field`), such as "jpg".
        in_tar: Whether the shard is a tar; else it is a Parquet file.
    """
    image = sample.image_field
    if image is None:
        image = next(filter(is_image_field, sample.fields), None)
    elif image not in sample.fields:
        image = None
    wanted = {field: _member(field, in_tar=in_tar) for field in sample.fields}
    if image is not None and sample.image_field is not None:
        wanted[image] = extension
    moved = {
        field
        for field, member in wanted.items()
        if field != image and _has_reserved_meaning(sample, field, member, image is None, in_tar)
    }
    order = sorted(
        wanted, key=lambda field: (field != image, field in moved or wanted[field] != field)
    )
    found: dict[str, str] = {}
    taken: set[str] = set()
    for field in order:
        member = wanted[field]
        others = chain([f"{member}.bin"], (f"{member}-{number}.bin" for number in count(2)))
        if field in moved or member in taken:
            member = next(other for other in others if other not in taken)
        taken.add(member)
        found[field] = member
    return {field: found[field] for field in sorted(wanted, key=lambda field: field != image)}


def _member(field: str, *, in_tar: bool) -> str:
    member = _UNFIT.sub("_", field.replace("/", ".")) or "_"
    return (member if in_tar else _as_text(member)).lower()


def _has_reserved_meaning(
    sample: Sample, field: str, member: str, has_no_image: bool, in_tar: bool
) -> bool:
    """Return whether readers of the shard would take a field for a label, an image, a key or metadata because of its name.

    Args:
        sample: The sample.
        field: Name of the field in the sample.
        member: Name of the field in the shard.
        has_no_image: Whether the sample has no image.
        in_tar: Whether the shard is a tar; else it is a Parquet file.
    """
    if member == "cls":
        return bool(to_labels([sample.fields[field]])[0] != sample.label)
    if member.startswith("__") or (not in_tar and member in _RESERVED):
        return True  # names with two underscores are those of WebDataset
    return has_no_image and is_image_field(member)


def _is_redundant(field: str, data: Payload, name: str, label: int) -> bool:
    """Return whether a field only repeats what the column key or label of a Parquet shard holds."""
    if field == "key":
        return data == name.encode()
    return field in ("label", "cls") and data == b"%d" % label


def _as_text(name: str) -> str:
    """Return a name in valid UTF-8; bytes of a file name that are not UTF-8 are escaped with backslashes."""
    return name.encode("utf-8", "backslashreplace").decode()


def free_key(name: str, keys: set[str]) -> str:
    """Return a key that is not among `keys`, the keys of the shard: the name, or the name with a number, ``NAME-2``.

    ``a.jpg`` and ``a.png`` of one folder have the same name, and samples of two shards of a source may have.
    """
    numbered = (f"{name}-{number}" for number in count(2))
    return name if name not in keys else next(other for other in numbered if other not in keys)


def headers_of(name: str, fields: Iterable[tuple[str, Payload]]) -> tuple[bytes, ...]:
    """Return the tar header of each field of a sample, given the sample's key and its fields."""
    return tuple(header(f"{name}.{field}", len(data)) for field, data in fields)


def header(name: str, size_bytes: int) -> bytes:
    """Return the tar header of a file without time and owner, so that equal files have equal headers."""
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) > _NAME_BYTES or size_bytes > _SIZE_MAX or not encoded.isascii():
        info = tarfile.TarInfo(name)
        info.size, info.mode = size_bytes, _MODE
        return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    # These bytes equal those of tarfile, but take 4 us instead of 18.
    block = bytearray(tarfile.BLOCKSIZE)
    block[: len(encoded)] = encoded
    block[100:148] = (
        b"%07o\0" % _MODE + b"0000000\0" * 2 + b"%011o\0" % size_bytes + b"0" * 11 + b"\0"
    )
    block[148:157] = b" " * 8 + tarfile.REGTYPE
    block[257:265] = b"ustar\x0000"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def _name(key: str, *, in_shards: bool) -> str:
    """Return a key for a tar of WebDataset.

    The last part of the key has no dot, because WebDataset begins the field name after the first dot. Parts such as ``..``,
    which would lead out of the folder that a shard is unpacked into, are removed.

    Args:
        key: The key in the source.
        in_shards: Whether the key comes from a shard already, so that its last part has no file extension to remove.
    """
    folder, _, file = key.rpartition("/")
    stem = file if in_shards else _ENDING.sub(r"\1", file) or file
    parts = [part for part in folder.split("/") if part not in ("", ".", "..")]
    name = _UNFIT.sub("_", "/".join([*parts, stem.replace(".", "_") or "_"]))
    if name.startswith("__") and not (in_shards and name == key):
        return f"x{name}"  # WebDataset reserves names with two underscores
    return name
