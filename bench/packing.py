"""A sample as the members of a tar shard, in the convention of WebDataset."""

import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bench.tiling import is_jpeg, tile
from readers import BadSample, Dataset, HeaderError, Order, Sample, TarDataset, read_header
from readers.columns import LABEL_NAMES
from readers.sample import Payload

_MODE = 0o644
_EXTENSIONS = {"jpeg": "jpg"}  # of image formats that are not called as their files are
_NAME_BYTES = 100
_SIZE_MAX = 0o77777777777


class Packed(NamedTuple):
    """A sample ready to be written.

    Attributes:
        position: Place in the order.
        name: Key that it asks for.
        fields: Field name and content, in order; the image is the first of its kind.
        label: Class number, -1 when there is none.
        headers: What stands before each field in a tar, under that name; empty for other formats.
        reasons: For each JPEG that was to be tiled, why it was not; "" when it was.
        before_bytes: Size of the fields in the source.
    """

    position: int
    name: str
    fields: tuple[tuple[str, Payload], ...]
    label: int
    headers: tuple[bytes, ...]
    reasons: tuple[str, ...]
    before_bytes: int


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
        tiled: Whether JPEGs get restart markers.
        headers: Whether they go into a tar.
        copied: Whether their bytes must leave this process.
    """

    dataset: Dataset | None
    order: Order | None
    tiled: bool
    headers: bool
    copied: bool

    def __call__(self, task: range | list[Sample | BadSample]) -> list[Packed | Refused]:
        """Make the samples at these positions ready, or those that are handed in."""
        if not isinstance(task, range):
            return [self._pack(sample.index, sample) for sample in task]
        if self.dataset is None:
            raise TypeError("positions need a dataset")
        places = np.asarray(task, np.int64)
        indices = places if self.order is None else self.order.indices(0, places)
        fetched = self.dataset.fetch(indices)
        return [self._pack(place, one) for place, one in zip(task, fetched, strict=True)]

    def _pack(self, position: int, sample: Sample | BadSample) -> Packed | Refused:
        """Make a sample ready, or say why it cannot be packed: it cannot be read, or its image has no header."""
        if isinstance(sample, BadSample):
            return Refused(position, sample)
        image_kind = ""
        if sample.image is not None:
            try:
                image_kind = read_header(sample.image).format
            except HeaderError as error:
                return Refused(position, BadSample(sample.index, sample.key, "header", str(error)))
        name = _name(
            sample.key, in_shards=self.dataset is None or isinstance(self.dataset, TarDataset)
        )
        fields: list[tuple[str, Payload]] = []
        reasons: list[str] = []
        for field, data in sample.fields.items():
            if field in LABEL_NAMES and field != "cls" and bytes(data) == b"%d" % sample.label:
                continue  # it becomes the field cls
            content, reason = tile(data) if self.tiled and is_jpeg(data) else (data, None)
            extension = _EXTENSIONS.get(image_kind, image_kind)
            member = extension if field == sample.image_field else field.lower().replace("/", ".")
            fields.append((member, bytes(content) if self.copied else content))
            if reason is not None:
                reasons.append(reason)
        if sample.label >= 0 and "cls" not in sample.fields:
            fields.append(("cls", b"%d" % sample.label))
        headers = headers_of(name, fields) if self.headers else ()
        before_bytes = sum(map(len, sample.fields.values()))
        return Packed(
            position, name, tuple(fields), sample.label, headers, tuple(reasons), before_bytes
        )


def headers_of(name: str, fields: Iterable[tuple[str, Payload]]) -> tuple[bytes, ...]:
    """What stands before each field of a sample in a tar."""
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
    """A key for WebDataset: no dot in its last part, since the field begins behind the first one."""
    if in_shards:
        return key.partition("/")[2]
    folder, slash, file = key.rpartition("/")
    stem = file.rpartition(".")[0] or file
    name = folder + slash + (stem.replace(".", "_") or "_")
    return f"x{name}" if name.startswith("__") else name  # which WebDataset keeps to itself
