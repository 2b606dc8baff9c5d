"""Find the height and width of all images of a dataset, from its columns or by reading image headers once."""

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
from readers.storage.cache_folder import path_in_cache
from readers.storage.unreadable import lasting
from readers.video.progress import terminal_bar

Sizes = NDArray[np.uint32]
Progress = Callable[[int, int], None]

VERSION = 3
"""Version of the stored sizes; it grows when an image may get another size than before."""
_STORED_FROM = 4096
"""Number of headers from which their sizes are stored: fewer are read in little time."""
_WARNED_FROM = 100_000
"""Number of headers from which a warning tells the user a faster way: reading them takes minutes on a network file system."""
_FETCHED = 64
"""Number of samples that a thread fetches at a time: enough to read files in disk order, few enough for a smooth progress bar."""


def image_sizes(
    dataset: Dataset, *, field: str | None = None, progress: Progress | None = None
) -> Sizes:
    """Return the height and width of every image after EXIF orientation, uint32 [len, 2]; 0 for unreadable samples.

    Sizes are taken from the columns of the dataset if it has them (tar indexes, tables); otherwise several threads read the
    headers of the images. If these are many, the sizes are stored in the cache folder under the fingerprint of the dataset
    (see docs/reading.md): one process of a machine reads the headers, while the others wait.

    Args:
        dataset: Any dataset of images.
        field: Name of the field with the images; None takes `Sample.image`. Columns are not used for other fields.
        progress: Called with the number of headers that were read, and the number of all headers to read; None shows a bar
            if stderr is a terminal.

    Raises:
        TransientError: The storage failed to give a sample. A size of 0 would put the sample into another bucket than on
            other machines.

    Example:
        >>> from readers.image.sizes import image_sizes
        >>> image_sizes(open_dataset("photos/")).shape
        (36, 2)
    """
    sizes = _column_sizes(dataset) if field is None else np.zeros((len(dataset), 2), np.uint32)
    unknown = np.flatnonzero((sizes == 0).any(axis=1))
    if not len(unknown):
        return sizes
    progress = progress or terminal_bar("reading the sizes of images")
    if len(unknown) < _STORED_FROM:
        sizes[unknown] = _read(dataset, field, unknown, progress)
        return sizes
    path = path_in_cache("sizes", f"{dataset.fingerprint} {VERSION} {field or ''}", ".npy")
    if (stored := _load(path, len(dataset))) is not None:
        return stored
    try:
        with build_once(path) as part:
            if (stored := _load(path, len(dataset))) is None:
                if len(unknown) >= _WARNED_FROM:
                    warnings.warn(
                        f"the data does not state the sizes of {len(unknown):,} images, so their headers are read once, and "
                        f"the sizes are stored in {path}. Tar shards of gpu-aug pack state them",
                        stacklevel=2,
                    )
                sizes[unknown] = _read(dataset, field, unknown, progress)
                np.save(part.file, sizes.astype("<u4"))
                part.publish()
                return sizes
            return stored
    except OSError:  # the cache folder cannot be written: every process reads for itself
        sizes[unknown] = _read(dataset, field, unknown, progress)
        return sizes


def _column_sizes(dataset: Dataset) -> Sizes:
    """Return the sizes in the columns of a dataset, uint32 [len, 2]; 0 for unknown sizes."""
    sizes = np.zeros((len(dataset), 2), np.uint32)
    if isinstance(dataset, IndexedDataset):
        for side, name in enumerate(("height", "width")):
            sizes[:, side] = np.clip(dataset.column(name), 0, 2**32 - 1)  # type: ignore[arg-type]
    return sizes


def _load(path: Path, length: int) -> Sizes | None:
    with suppress(OSError, ValueError, EOFError):  # a damaged file is written again
        sizes = call_parser(lambda: np.load(path, allow_pickle=False))
        if sizes.shape == (length, 2) and sizes.dtype == np.dtype("<u4"):
            return np.asarray(sizes, np.uint32)
    return None


def _read(
    dataset: Dataset, field: str | None, indices: NDArray[np.int64], progress: Progress
) -> Sizes:
    """Read the headers of the images of some samples, and return their sizes, uint32 [n, 2]."""
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
    """Return (height, width) of a sample's image; zeros if the sample is bad, or has no readable image."""
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
