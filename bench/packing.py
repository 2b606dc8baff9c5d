"""A sample as the members of a tar shard, in the convention of WebDataset."""

import tarfile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.tiling import is_jpeg, tile
from readers import BadSample, Dataset, HeaderError, Sample, TarDataset, read_header
from readers.sample import Payload

_MODE = 0o644


class Packed(NamedTuple):
    """A sample ready to be written.

    Attributes:
        position: Place in the order.
        name: Key that it asks for.
        fields: Field name and content, in order.
        reasons: For each JPEG that was to be tiled, why it was not; "" when it was.
        before_bytes: Size of the fields in the source.
    """

    position: int
    name: str
    fields: tuple[tuple[str, Payload], ...]
    reasons: tuple[str, ...]
    before_bytes: int


class Refused(NamedTuple):
    """A sample that is not packed."""

    position: int
    bad: BadSample


def pack_sample(
    position: int, sample: Sample | BadSample, *, in_shards: bool, tiled: bool
) -> Packed | Refused:
    """Make a sample ready, or say why it cannot be packed: it cannot be read, or its image has no header.

    Args:
        position: Place in the order.
        sample: As the dataset gave it.
        in_shards: Whether its key begins with the name of a shard, else it ends in an extension.
        tiled: Whether JPEGs get restart markers.
    """
    if isinstance(sample, BadSample):
        return Refused(position, sample)
    if sample.image is not None:
        try:
            read_header(sample.image)
        except HeaderError as error:
            return Refused(position, BadSample(sample.index, sample.key, "header", str(error)))
    fields: list[tuple[str, Payload]] = []
    reasons: list[str] = []
    for name, data in sample.fields.items():
        content, reason = tile(data) if tiled and is_jpeg(data) else (data, None)
        fields.append((name, content))
        if reason is not None:
            reasons.append(reason)
    if sample.label >= 0 and "cls" not in sample.fields:
        fields.append(("cls", b"%d" % sample.label))
    before_bytes = sum(map(len, sample.fields.values()))
    name = _name(sample.key, in_shards=in_shards)
    return Packed(position, name, tuple(fields), tuple(reasons), before_bytes)


def fetch_packed(
    dataset: Dataset, positions: range, indices: NDArray[np.int64], *, tiled: bool
) -> list[Packed | Refused]:
    """Fetch samples and make them ready, in order."""
    in_shards = isinstance(dataset, TarDataset)
    return [
        pack_sample(position, sample, in_shards=in_shards, tiled=tiled)
        for position, sample in zip(positions, dataset.fetch(indices), strict=True)
    ]


def header(name: str, data: Payload) -> bytes:
    """The header that stands before the data of a file, the same whenever it is made."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), _MODE
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _name(key: str, *, in_shards: bool) -> str:
    """A key for WebDataset: no dot in its last part, since the field begins behind the first one."""
    if in_shards:
        return key.partition("/")[2]
    folder, slash, file = key.rpartition("/")
    stem = file.rpartition(".")[0] or file
    name = folder + slash + (stem.replace(".", "_") or "_")
    return f"x{name}" if name.startswith("__") else name  # which WebDataset keeps to itself
