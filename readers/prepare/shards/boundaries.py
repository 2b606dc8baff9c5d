"""Compute the boundaries of shards before any shard is written."""

import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers.order.shuffle import Order
from readers.prepare.packer import Packed, Packer
from readers.sample import Dataset

# Samples that are read to estimate headers and added fields, which the sizes in the source do not include.
_PROBE = 64
# Positions that are divided into shards together, in 2 MB per array.
_CHUNK = 1 << 18
_BLOCK_BYTES = tarfile.BLOCKSIZE
_END_BYTES = 2 * _BLOCK_BYTES  # two empty blocks end a tar
# Assumed size of a sample if no sample of the probe can be packed: a photograph.
_UNKNOWN_BYTES = 100_000


@dataclass(frozen=True)
class _Room:
    """An estimate of the bytes that samples take in a shard, from a probe of a few samples.

    Attributes:
        mean_bytes: Mean size of a sample in a shard.
        sample_bytes: Mean size of a sample in the source.
        fields: Largest number of fields of a sample in the source.
        fixed_bytes: Largest number of bytes that a sample takes besides its fields, such as for headers.
        blocks: Whether fields are padded to blocks of 512 bytes, as in a tar.
        probe: Number of samples in the probe that could be packed.
    """

    mean_bytes: int
    sample_bytes: int
    fields: int
    fixed_bytes: int
    blocks: bool
    probe: int

    def of(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return an upper bound of the bytes that each sample takes in a shard, int64 [n].

        Args:
            sizes: Size of each sample in the source, int64 [n]; -1 if unknown, for which the mean is returned.
        """
        taken = sizes
        if self.blocks:
            taken = (sizes + self.fields * (_BLOCK_BYTES - 1)) // _BLOCK_BYTES * _BLOCK_BYTES
        return np.where(sizes < 0, self.mean_bytes, taken + self.fixed_bytes)


def cut(
    dataset: Dataset, order: Order | None, *, bytes_per_shard: int, in_tar: bool
) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Return the boundaries of shards, computed from the sizes of the samples in the source.

    Args:
        dataset: The dataset, with at least one sample.
        order: The order of the pack; None for the source's own order.
        bytes_per_shard: Largest size of a shard, unless a single sample is larger.
        in_tar: Whether shards are tars, which are padded to a multiple of 10,240 bytes; else they are Parquet files, for
            which only the bytes of samples are counted.

    Returns:
        `boundaries` and `sizes` of `readers.prepare.Plan`.
    """
    room, num_samples = _room(dataset, in_tar=in_tar), len(dataset)
    sizes = _sizes(dataset)
    most_bytes = bytes_per_shard
    if in_tar:
        most_bytes = bytes_per_shard // tarfile.RECORDSIZE * tarfile.RECORDSIZE - _END_BYTES
    if sizes is None:
        each = np.array([room.mean_bytes], np.int64)
        taken = (np.repeat(each, stop - start) for start, stop in _chunks(num_samples))
        estimated, total_bytes = num_samples, num_samples * room.sample_bytes
    else:
        taken = (
            room.of(sizes[_indices(order, start, stop)]) for start, stop in _chunks(num_samples)
        )
        estimated = int((sizes < 0).sum())
        total_bytes = int(np.maximum(sizes, 0).sum()) + estimated * room.sample_bytes
    return boundaries_of(taken, most_bytes), {
        "estimated": estimated,
        "probe": room.probe if estimated else 0,
        "sample_bytes": total_bytes // num_samples,
    }


def _indices(order: Order | None, start: int, stop: int) -> slice | NDArray[np.int64]:
    return slice(start, stop) if order is None else order.indices(0, np.arange(start, stop))


def boundaries_of(taken: Iterable[NDArray[np.int64]], most_bytes: int) -> NDArray[np.int64]:
    """Return the boundaries of shards: a new shard begins at each sample that does not fit into the shard before it.

    Args:
        taken: Bytes that each sample takes, > 0, as arrays of consecutive positions.
        most_bytes: Largest sum of bytes in a shard; a sample that is larger gets a shard of its own.

    Returns:
        int64 [shards + 1]: the first position of each shard, and the number of all positions.
    """
    found: list[NDArray[np.int64]] = []
    begin = open_bytes = 0
    for some in taken:
        ends = np.cumsum(some)
        starts = ends - some
        # For each position: the position at which the next shard begins if a shard begins here.
        following = np.searchsorted(ends, starts + most_bytes, "right")
        following = np.maximum(following, np.arange(1, len(some) + 1)).tolist()
        at = int(np.searchsorted(ends, most_bytes - open_bytes, "right")) if begin else 0
        begun = []
        while at < len(some):
            begun.append(at)
            at = following[at]
        before_bytes = int(starts[begun[-1]]) if begun else -open_bytes
        open_bytes = int(ends[-1]) - before_bytes
        found.append(np.array(begun, np.int64) + begin)
        begin += len(some)
    return np.concatenate([*found, [begin]])


def _chunks(length: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + _CHUNK, length)) for start in range(0, length, _CHUNK))


def _sizes(dataset: Dataset) -> NDArray[np.int64] | None:
    """Return the size of each sample in the source, int64 [len], -1 if unknown; None if all sizes are unknown."""
    column = getattr(dataset, "column", None)  # datasets of users may lack it
    sizes = None if column is None else column("num_bytes")
    return None if sizes is None or sizes.max() < 0 else sizes


def _room(dataset: Dataset, *, in_tar: bool) -> _Room:
    """Return an estimate of the bytes that samples take in a shard, from 64 samples that every machine chooses alike."""
    number = min(_PROBE, len(dataset))
    packer = Packer(dataset, Order(len(dataset)), headers=in_tar, copied=False)
    taken, source, fields, fixed = [], [], [1], [_BLOCK_BYTES if in_tar else 0]
    for start in range(0, number, 8):
        for one in packer(range(start, min(start + 8, number))):
            if not isinstance(one, Packed):
                continue
            source.append(one.before_bytes)
            taken.append(_taken(one, in_tar))
            # The packer adds the class number to a tar if it is no field of the source.
            adds_label = sum(len(data) for _, data in one.fields) > one.before_bytes
            fields.append(len(one.fields) - adds_label)
            own_label = _BLOCK_BYTES if adds_label else 0
            fixed.append(sum(map(len, one.headers)) + own_label if in_tar else len(one.name))
    mean = -(-sum(taken) // len(taken)) if taken else _UNKNOWN_BYTES
    sample_bytes = sum(source) // len(source) if source else _UNKNOWN_BYTES
    return _Room(mean, sample_bytes, max(fields), max(fixed), in_tar, len(taken))


def _taken(one: Packed, in_tar: bool) -> int:
    sizes = [len(data) for _, data in one.fields]
    if not in_tar:
        return sum(sizes) + len(one.name)
    return sum(map(len, one.headers)) + sum(
        -(-size // _BLOCK_BYTES) * _BLOCK_BYTES for size in sizes
    )
