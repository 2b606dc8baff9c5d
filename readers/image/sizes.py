"""Height and width of all images of a dataset: from its columns, or else from their headers, once."""

import hashlib
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from readers.cores import usable_cores
from readers.datasets.dataset import IndexedDataset
from readers.image.header import read_header
from readers.python_parser import call_parser
from readers.sample import BadSample, Dataset, HeaderError, Sample
from readers.storage.atomic_file import build_once
from readers.storage.cache_folder import cache_folder
from readers.storage.unreadable import lasting
from readers.video.progress import terminal_bar

Sizes = NDArray[np.uint32]
Progress = Callable[[int, int], None]

VERSION = 2
_KEPT_FROM = 4096  # fewer headers are read in less time than it takes to think of a file
_TOLD_FROM = 100_000  # headers that are many enough to be told of
_FETCHED = 64  # samples at a time


def image_sizes(
    dataset: Dataset, *, field: str | None = None, progress: Progress | None = None
) -> Sizes:
    """Return height and width of every upright image, uint32 [len, 2]; 0 where a sample cannot be read.

    Indexes of tar files and tables that tell sizes are asked; other samples are read for their headers by several
    threads. Where these are many, the sizes are kept in the cache folder (see docs/reading.md), under the dataset's
    fingerprint, and one process of a machine reads while the others wait.

    Args:
        dataset: Any dataset of images.
        field: The field that holds the images; None is `Sample.image`, of which alone columns tell.
        progress: Is told how many headers are read, and of how many; None shows a bar on stderr where that is a
            terminal.

    Raises:
        TransientError: A sample cannot be read here and now, and may be sound: with a size of 0 it would be in another bucket
            than elsewhere.

    Example:
        >>> from readers.image.sizes import image_sizes
        >>> image_sizes(open_dataset("photos/")).shape
        (36, 2)
    """
    sizes = _told(dataset) if field is None else np.zeros((len(dataset), 2), np.uint32)
    unknown = np.flatnonzero((sizes == 0).any(axis=1))
    if not len(unknown):
        return sizes
    progress = progress or terminal_bar("reading the sizes of images")
    if len(unknown) < _KEPT_FROM:
        sizes[unknown] = _read(dataset, field, unknown, progress)
        return sizes
    digest = hashlib.sha256(f"{dataset.fingerprint} {VERSION} {field or ''}".encode()).hexdigest()
    path = cache_folder() / "sizes" / f"{digest[:32]}.npy"
    if (kept := _kept(path, len(dataset))) is not None:
        return kept
    try:
        with build_once(path) as part:
            if (kept := _kept(path, len(dataset))) is None:
                if len(unknown) >= _TOLD_FROM:
                    warnings.warn(
                        f"the data does not tell the sizes of {len(unknown):,} images, so all of them are read for their "
                        f"headers, once; their sizes are then kept in {path}. Tar shards from gpu-aug pack tell them",
                        stacklevel=2,
                    )
                sizes[unknown] = _read(dataset, field, unknown, progress)
                np.save(part.file, sizes.astype("<u4"))
                part.publish()
                return sizes
            return kept
    except OSError:  # no folder can be written to: every process reads for itself
        sizes[unknown] = _read(dataset, field, unknown, progress)
        return sizes


def _told(dataset: Dataset) -> Sizes:
    """What the dataset tells without reading samples."""
    sizes = np.zeros((len(dataset), 2), np.uint32)
    if isinstance(dataset, IndexedDataset):
        for side, name in enumerate(("height", "width")):
            sizes[:, side] = np.clip(dataset.column(name), 0, 2**32 - 1)  # type: ignore[arg-type]
    return sizes


def _kept(path: Path, length: int) -> Sizes | None:
    with suppress(OSError, ValueError, EOFError):  # then the headers are read again
        sizes = call_parser(lambda: np.load(path, allow_pickle=False))
        if sizes.shape == (length, 2) and sizes.dtype == np.dtype("<u4"):
            return np.asarray(sizes, np.uint32)
    return None


def _read(
    dataset: Dataset, field: str | None, indices: NDArray[np.int64], progress: Progress
) -> Sizes:
    """Read the headers of some samples, uint32 [n, 2]."""
    pieces = [indices[at : at + _FETCHED] for at in range(0, len(indices), _FETCHED)]

    def sizes_of(piece: NDArray[np.int64]) -> list[tuple[int, int]]:
        return [_size(sample, field) for sample in lasting(dataset.fetch(piece))]

    found: list[tuple[int, int]] = []
    with ThreadPoolExecutor(usable_cores(), thread_name_prefix="gpu-aug-sizes") as pool:
        for sizes in pool.map(sizes_of, pieces):
            found += sizes
            progress(len(found), len(indices))
    return np.array(found, np.uint32).reshape(-1, 2)


def _size(sample: Sample | BadSample, field: str | None) -> tuple[int, int]:
    """The size of an image as the loader sees it; zeros for a sample that it will find bad."""
    if isinstance(sample, BadSample):
        return 0, 0
    data = sample.image if field is None else sample.fields.get(field)
    if sample.size is not None and data is sample.image:
        return sample.size
    if data is None:
        return 0, 0
    try:
        header = read_header(data)
    except HeaderError:
        return 0, 0
    return header.height, header.width
