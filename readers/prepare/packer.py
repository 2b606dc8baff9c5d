"""A sample as the members of a tar shard, in the convention of WebDataset, or as a row of a Parquet shard."""

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

_MODE = 0o644
_EXTENSIONS = {"jpeg": "jpg"}  # of image formats that are not called as their files are
_NAME_BYTES = 100
_SIZE_MAX = 0o77777777777
_MOST_LABELS = 10**18  # what readers take for a class number has 18 digits
# The ending of a file's name; a clip's seconds may stand behind it.
_ENDING = re.compile(r"\.[^.]*?(@[-+.\de]+)?$", re.DOTALL)
# Columns of a Parquet shard that say something of their own.
_RESERVED = ("key", "image", "label")
# Control characters, and what neither UTF-8 nor the bytes of a file name can be.
_UNFIT = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udc7f\udd00-\udfff]")


class Packed(NamedTuple):
    """A sample ready to be written.

    Attributes:
        position: Its position in the order.
        name: Key that it asks for.
        fields: Field name and content, no name twice; the image is the first of them.
        label: Class number, -1 when there is none.
        headers: What stands before each field in a tar, under that name; empty for other formats.
        before_bytes: Size of the fields in the source.
        found: Digest and checkpoints of the image as it is packed; None where none are looked for.
    """

    position: int
    name: str
    fields: tuple[tuple[str, Payload], ...]
    label: int
    headers: tuple[bytes, ...]
    before_bytes: int
    found: tuple[int, PackedSeekPoints] | None = None


class Refused(NamedTuple):
    """A sample that is not packed."""

    position: int
    bad: BadSample


@dataclass(frozen=True)
class Packer:
    """Makes samples ready, in any process.

    Attributes:
        dataset: Where they come from; None when they are handed in, by a source that is read forward.
        order: Which sample stands at which position; None for the source's own order.
        headers: Whether they go into a tar; else into Parquet.
        copied: Whether their bytes must leave this process.
        finder: Finds checkpoints; None leaves them out.
    """

    dataset: Dataset | None
    order: Order | None
    headers: bool
    copied: bool
    finder: Finder | None = None

    def __call__(self, task: range | list[Sample | BadSample]) -> list[Packed | Refused]:
        """Make the samples at these positions ready, or those that are handed in.

        Raises:
            TransientError: The storage failed: such a sample may be sound, and is not left out.
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
        """Make a sample ready, or say why it cannot be packed."""
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
            name = _name(own, in_shards=False)  # named by its column, as in a shard that was packed
        else:
            name = _name(sample.key, in_shards=False)
        return name if self.headers else _as_text(name)


def _obstacle(sample: Sample, *, in_tar: bool) -> str:
    """Why no shard can hold a sample so that it is read back; "" when one can."""
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
    """The name of each field of a sample in a shard, the image first.

    Names are written in lower case and with dots for slashes. A field of which that name is taken, or
    would be read as what it is not (the label, the image, the key), is called ``NAME.bin``, then
    ``NAME-2.bin``. The image comes first, then the fields that keep their names.

    Args:
        sample: Its fields and label.
        extension: Extension of the image, if the format of the source says which field that is.
        in_tar: Else it becomes a row of a Parquet file.
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
    """Whether a name would make readers take a field for something else."""
    if member == "cls":
        return bool(to_labels([sample.fields[field]])[0] != sample.label)
    if member.startswith("__") or (not in_tar and member in _RESERVED):
        return True  # the former are WebDataset's own
    return has_no_image and is_image_field(member)


def _is_redundant(field: str, data: Payload, name: str, label: int) -> bool:
    """Whether the columns key and label of a Parquet shard say the same as a field."""
    if field == "key":
        return data == name.encode()
    return field in ("label", "cls") and data == b"%d" % label


def _as_text(name: str) -> str:
    """A name that UTF-8 can hold, also where it comes from a file name that is none."""
    return name.encode("utf-8", "backslashreplace").decode()


def free_key(name: str, keys: set[str]) -> str:
    """Return a key that the shard does not have.

    ``a.jpg`` and ``a.png`` of one folder, or two shards of a source, may ask for the same.
    """
    numbered = (f"{name}-{number}" for number in count(2))
    return name if name not in keys else next(other for other in numbered if other not in keys)


def headers_of(name: str, fields: Iterable[tuple[str, Payload]]) -> tuple[bytes, ...]:
    """The tar header of each field of a sample."""
    return tuple(header(f"{name}.{field}", len(data)) for field, data in fields)


def header(name: str, size_bytes: int) -> bytes:
    """The header that stands before the data of a file, the same whenever it is made."""
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) > _NAME_BYTES or size_bytes > _SIZE_MAX or not encoded.isascii():
        info = tarfile.TarInfo(name)
        info.size, info.mode = size_bytes, _MODE
        return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    # The bytes that tarfile makes of the same, in 4 us instead of 18.
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
    """A key for WebDataset: no dot in its last part, since the field begins behind the first one.

    Nor does it lead out of the folder that a shard is unpacked into.

    Args:
        key: As the source has it.
        in_shards: It is one of WebDataset, and stays as it is but for what would lead elsewhere.
    """
    folder, _, file = key.rpartition("/")
    stem = file if in_shards else _ENDING.sub(r"\1", file) or file
    parts = [part for part in folder.split("/") if part not in ("", ".", "..")]
    name = _UNFIT.sub("_", "/".join([*parts, stem.replace(".", "_") or "_"]))
    if name.startswith("__") and not (in_shards and name == key):
        return f"x{name}"  # since WebDataset keeps such names to itself
    return name
