"""Where shards begin and end, decided before any of them is written."""

import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers.order.shuffle import Order
from readers.prepare.packer import Packed, Packer
from readers.sample import Dataset

_PROBE = 64  # samples that are looked at for what the sizes alone do not tell
_CHUNK = 1 << 18  # positions that are cut at a time
_BLOCK_BYTES = tarfile.BLOCKSIZE
_END_BYTES = 2 * _BLOCK_BYTES
_UNKNOWN_BYTES = 100_000  # of a sample where not one of the probe can be packed


@dataclass(frozen=True)
class Cut:
    """The boundaries of shards, and what they were decided by.

    Attributes:
        boundaries: int64 [shards + 1], rising; shard i holds the positions boundaries[i] to boundaries[i + 1].
        sample_bytes: Mean size of a sample in the source.
        estimated: Number of samples whose size the source does not tell, and for which a mean was taken.
        probe: Number of samples of which that is the mean.
    """

    boundaries: NDArray[np.int64]
    sample_bytes: int
    estimated: int
    probe: int


@dataclass(frozen=True)
class _Room:
    """What a sample takes in a shard.

    Attributes:
        mean_bytes: What one takes on average.
        sample_bytes: Size of one in the source, on average.
        fields: Most fields that one has in the source.
        fixed_bytes: Most bytes that one takes besides its fields.
        blocks: Whether fields are filled up to blocks, as in a tar.
        probe: Number of samples that were looked at.
    """

    mean_bytes: int
    sample_bytes: int
    fields: int
    fixed_bytes: int
    blocks: bool
    probe: int

    def of(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """What samples of these sizes take at most; the mean where a size is not known."""
        taken = sizes
        if self.blocks:
            taken = (sizes + self.fields * (_BLOCK_BYTES - 1)) // _BLOCK_BYTES * _BLOCK_BYTES
        return np.where(sizes < 0, self.mean_bytes, taken + self.fixed_bytes)


def cut(dataset: Dataset, order: Order | None, *, bytes_per_shard: int, in_tar: bool) -> Cut:
    """Decide where shards begin, going by the sizes of the samples as they lie in the source.

    Args:
        dataset: What is packed, at least one sample.
        order: Which sample stands at which position; None for the source's own order.
        bytes_per_shard: What a shard may take, unless a single sample is larger.
        in_tar: Whether shards are tars, which end at a multiple of 10,240 bytes; else Parquet, of which the samples
            are counted and not the few bytes around them.
    """
    room, num_samples = _room(dataset, in_tar=in_tar), len(dataset)
    sizes = _sizes(dataset)
    most_bytes = bytes_per_shard
    if in_tar:
        most_bytes = bytes_per_shard // tarfile.RECORDSIZE * tarfile.RECORDSIZE - _END_BYTES
    if sizes is None:
        each = np.array([room.mean_bytes], np.int64)
        taken = (np.repeat(each, stop - start) for start, stop in _chunks(num_samples))
        boundaries = boundaries_of(taken, most_bytes)
        return Cut(boundaries, room.sample_bytes, num_samples, room.probe)
    ordered = (
        sizes[start:stop] if order is None else sizes[order.indices(0, np.arange(start, stop))]
        for start, stop in _chunks(num_samples)
    )
    boundaries = boundaries_of((room.of(some) for some in ordered), most_bytes)
    estimated = int((sizes < 0).sum())
    known = num_samples - estimated
    total_bytes = int(np.maximum(sizes, 0).sum()) + estimated * room.sample_bytes
    return Cut(
        boundaries, total_bytes // num_samples, estimated, room.probe if known < num_samples else 0
    )


def boundaries_of(taken: Iterable[NDArray[np.int64]], most_bytes: int) -> NDArray[np.int64]:
    """Begin a shard wherever the next sample would make the one before larger than it may be.

    Args:
        taken: What each sample takes, > 0, some positions at a time.
        most_bytes: What the samples of a shard may take together; one that is larger stands alone.

    Returns:
        int64 [shards + 1]: the first position of each shard, and the number of positions.
    """
    found: list[NDArray[np.int64]] = []
    begin = open_bytes = 0
    for some in taken:
        ends = np.cumsum(some)
        starts = ends - some
        # For each position the one at which the next shard begins, if one begins here.
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
    """Size of each sample, -1 where it is not known; None where it is known of none."""
    column = getattr(dataset, "column", None)  # which the datasets of users need not have
    sizes = None if column is None else column("num_bytes")
    return None if sizes is None or sizes.max() < 0 else sizes


def _room(dataset: Dataset, *, in_tar: bool) -> _Room:
    """Look at a few samples, the same ones on every machine."""
    number = min(_PROBE, len(dataset))
    packer = Packer(dataset, Order(len(dataset)), headers=in_tar, copied=False)
    taken, source, fields, fixed = [], [], [1], [_BLOCK_BYTES if in_tar else 0]
    for start in range(0, number, 8):
        for one in packer(range(start, min(start + 8, number))):
            if not isinstance(one, Packed):
                continue
            source.append(one.before_bytes)
            taken.append(_taken(one, in_tar))
            # The class number is put into a tar where the source holds it elsewhere.
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
