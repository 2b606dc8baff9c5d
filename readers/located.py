"""Where the encoded images of many samples lie, for code that reads all of them in one call."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.sample import Payload, Sample

Reads = Callable[[str], bool]
"""Tells by its name whether a field beside the image will be read."""


@dataclass(frozen=True, slots=True)
class Located:
    """Where the encoded images of n samples lie, so that compiled code can read all of them in one call.

    Whoever reads less than `lengths` says, or an empty image, must fetch that sample by `Dataset.fetch`, which words the reason.

    Attributes:
        paths: Names of files, each followed by a zero byte; empty where `files` are descriptors.
        path_starts: int64 [files], where each name begins in `paths`.
        files: int64 [n], the number of the file's name, or its open descriptor; -1 where the sample is not located.
        starts: int64 [n], offset of the image in its file.
        lengths: int64 [n], bytes of the image; -1 is up to the end of the file.
        labels: int64 [n], class numbers, -1 for none.
        sizes: int64 [n, 2], height and width after EXIF orientation, zeros where they are not known without a look.
        is_located: bool [n], False where the sample has to be fetched by `Dataset.fetch`.
        restarts: See `readers.Sample.restarts`; None where no row has any.
        held: Keeps the descriptors open.
        make_sample: Make the sample of a located row of the bytes of its image, as `Dataset.fetch` would.
        make_key: Return the key of a row, that of a bad sample as well.
    """

    paths: bytes
    path_starts: NDArray[np.int64]
    files: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    is_located: NDArray[np.bool_]
    restarts: Sequence[NDArray[np.int64] | None] | None
    held: Any
    make_sample: Callable[[int, Payload], Sample]
    make_key: Callable[[int], str]

    def __len__(self) -> int:
        return len(self.files)

    def changed(self, change: Callable[[int, Sample], Sample]) -> "Located":
        """Return the same images with samples that `change` makes of a row and its sample."""
        make_sample = self.make_sample
        return replace(self, make_sample=lambda row, data: change(row, make_sample(row, data)))


def merge(parts: Sequence[Located], rows: Sequence[NDArray[np.int64]]) -> Located:
    """Put parts together that lie in several datasets.

    Args:
        parts: At least one. Where some are read by descriptor and others by name, all are read by name.
        rows: The rows of each in the whole, which are all of 0 to n - 1.
    """
    if len({bool(part.paths) for part in parts}) > 1:
        parts = [part if part.paths else _by_path(part) for part in parts]
    # Where each row of the whole stands in the parts one behind the other.
    order = np.argsort(np.concatenate(rows))
    of_part = np.repeat(np.arange(len(parts)), [len(part) for part in parts])[order].tolist()
    of_row = np.concatenate([np.arange(len(part)) for part in parts])[order].tolist()

    def joined(values: Callable[[Located], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([values(part) for part in parts])[order]

    lengths = [len(part.paths) for part in parts]
    path_starts = [
        part.path_starts + start
        for part, start in zip(parts, accumulate(lengths, initial=0), strict=False)
    ]
    counts = [len(starts) for starts in path_starts]
    files = [
        np.where(part.is_located, part.files + first, -1)
        for part, first in zip(parts, accumulate(counts, initial=0), strict=False)
    ]
    restarts = None
    if any(part.restarts for part in parts):
        by_part = [part.restarts or [None] * len(part) for part in parts]
        restarts = [by_part[one][row] for one, row in zip(of_part, of_row, strict=True)]
    return Located(
        b"".join(part.paths for part in parts),
        path_starts=np.concatenate(path_starts),
        files=np.concatenate(files)[order],
        starts=joined(lambda part: part.starts),
        lengths=joined(lambda part: part.lengths),
        labels=joined(lambda part: part.labels),
        sizes=joined(lambda part: part.sizes),
        is_located=joined(lambda part: part.is_located),
        restarts=restarts,
        held=parts,
        make_sample=lambda row, data: parts[of_part[row]].make_sample(of_row[row], data),
        make_key=lambda row: parts[of_part[row]].make_key(of_row[row]),
    )


def _by_path(located: Located) -> Located:
    """Name descriptors as files, which opens the same file anew whatever its name is by now."""
    names = [b"/dev/fd/%d\0" % number for number in located.files.tolist()]
    path_starts = np.cumsum([0, *map(len, names)])[:-1]
    files = np.where(located.is_located, np.arange(len(names)), -1)
    return replace(located, paths=b"".join(names), path_starts=path_starts, files=files)


def encode_paths(folder: str, names: Sequence[str]) -> tuple[bytes, NDArray[np.bool_]]:
    """Return paths as the operating system has them, each followed by a zero byte.

    Args:
        folder: The folder of all, which ends in a slash.
        names: Names below it.

    Returns:
        The paths, and bool [n]: False where a file cannot have that name, for which the folder stands.
    """
    try:
        paths = os.fsencode("".join([f"{folder}{name}\0" for name in names]))
        if paths.count(0) == len(names):
            return paths, np.ones(len(names), bool)
    except UnicodeEncodeError:
        pass
    is_name = np.array([_is_name(name) for name in names])
    usable = [name if good else "" for name, good in zip(names, is_name, strict=True)]
    return encode_paths(folder, usable)[0], is_name


def _is_name(name: str) -> bool:
    try:
        return 0 not in os.fsencode(name)
    except UnicodeEncodeError:
        return False
