"""Locations of encoded images in files, for code that reads the images of many samples in one call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from readers.sample import Payload, Sample

T = TypeVar("T")

Reads = Callable[[str], bool]
"""A function that returns whether the caller will read a field besides the image, given the field's name."""


@dataclass(frozen=True, slots=True)
class Located:
    """Locations of the encoded images of n samples in files, so that compiled code can read all of them in one call.

    If fewer bytes than `lengths` can be read, or an image is empty, fetch the sample with `Dataset.fetch`: the `BadSample`
    that it returns gives the reason.

    Attributes:
        paths: Paths of files, each followed by a zero byte; empty if `files` are descriptors.
        path_starts: int64 [files], offset of each path in `paths`.
        files: int64 [n], the file of each image: an index into `path_starts`, or an open descriptor if `paths` is empty; -1
            if the sample is not located.
        starts: int64 [n], offset of the image in its file, in bytes.
        lengths: int64 [n], size of the image in bytes; -1 if it extends to the end of the file.
        labels: int64 [n], class numbers, -1 for no label.
        sizes: int64 [n, 2], height and width after EXIF orientation; zeros if only the image itself tells them.
        is_located: bool [n], False if the sample has to be fetched by `Dataset.fetch`.
        restarts: Restart intervals of each image, see `readers.Sample.restarts`; None if no image has any.
        held: Objects that keep the descriptors open.
        make_sample: Returns the sample of a located row, as `Dataset.fetch` would, given the row and the bytes of its image.
        make_keys: Returns the key of every row, including samples that are not located.
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
    make_keys: Callable[[], list[str]]

    def __len__(self) -> int:
        return len(self.files)

    def changed(self, change: Callable[[int, Sample], Sample]) -> "Located":
        """Return these locations with `make_sample` replaced, so that it passes each sample through `change`.

        Args:
            change: Returns the new sample, given the row and the old sample.
        """
        make_sample = self.make_sample
        return replace(self, make_sample=lambda row, data: change(row, make_sample(row, data)))


def merge(parts: Sequence[Located], rows: Sequence[NDArray[np.int64]]) -> Located:
    """Return the locations from several datasets as one object with n rows.

    Args:
        parts: Locations, at least one object. If some refer to files by descriptor and others by path, the result refers to
            all files by path.
        rows: For each part, the rows of its images in the result; together these are all of 0 to n - 1.
    """
    if len({bool(part.paths) for part in parts}) > 1:
        parts = [part if part.paths else _by_path(part) for part in parts]
    # The row among the concatenated parts, for each row of the result.
    order = np.argsort(np.concatenate(rows))
    # Steps keep these functions, and the parts would keep descriptors open.
    makers = [(part.make_sample, row) for part in parts for row in range(len(part))]
    places = _in_order(makers, order)
    restarts = None
    if any(part.restarts for part in parts):
        restarts = [one for part in parts for one in part.restarts or [None] * len(part)]
    paths, path_starts, files = b"", np.empty(0, np.int64), []
    for part in parts:
        files.append(np.where(part.is_located, part.files + len(path_starts), -1))
        path_starts = np.append(path_starts, part.path_starts + len(paths))
        paths += part.paths
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts])[order]
        for name in ("starts", "lengths", "labels", "sizes", "is_located")
    }
    return Located(
        paths,
        path_starts,
        np.concatenate(files)[order],
        **arrays,
        restarts=restarts and _in_order(restarts, order),
        held=parts,
        make_sample=lambda row, data: places[row][0](places[row][1], data),
        make_keys=lambda: _in_order([key for part in parts for key in part.make_keys()], order),
    )


def _in_order(values: Sequence[T], order: NDArray[np.int64]) -> list[T]:
    return [values[place] for place in order.tolist()]


def _by_path(located: Located) -> Located:
    """Return locations with descriptors replaced by paths in /dev/fd, which open the file even if it was renamed."""
    names = [b"/dev/fd/%d\0" % number for number in located.files.tolist()]
    path_starts = np.cumsum([0, *map(len, names)])[:-1]
    files = np.where(located.is_located, np.arange(len(names)), -1)
    return replace(located, paths=b"".join(names), path_starts=path_starts, files=files)
