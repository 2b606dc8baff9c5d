"""Choose the samples that DALI decodes: JPEGs that our own decoder finds sound and that DALI has not refused."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.known import known_of
from dali_pipes.jpeg.header import read_size
from dali_pipes.jpeg.memory import MEMORY_BYTES, memory_at
from dali_pipes.jpeg.seek_point_stores import SeekPointStore
from dali_pipes.stages.data import Fetched
from gpu_aug.compiled.jit import kernel, signed


class DaliEligibility:
    """Decides which samples DALI decodes; for a loader's lifetime, it remembers the samples that DALI refused.

    DALI gets JPEGs of 8 bits, gray or YCbCr, baseline or progressive, whose Huffman codes can all be read. For a
    damaged JPEG, nvJPEG's hardware decoder reports success, while its CUDA kernels and libjpeg-turbo return different
    pixels or refuse it. JPEGs stored as RGB or CMYK, with 12 or 16 bits, arithmetic coding or lossless coding are read
    differently by nvJPEG's backends, if at all. DALI would decode other formats on the CPU anyway, and a damaged PNG can
    crash the process there. So the CPU decoder of this package decodes all samples but the JPEGs named first.

    Args:
        num_samples: Count of samples of the dataset; a byte is stored for each. None for a stream, whose refused
            samples are not remembered.
        store: Has the statuses of files that were read before, and receives new ones. It identifies files by all of
            their bytes, so a status also holds for later epochs, other selections of the data and other runs.
    """

    def __init__(self, num_samples: int | None, store: SeekPointStore) -> None:
        self._refused = None if num_samples is None else np.zeros(num_samples, bool)
        self._store = store

    def rows_for_cpu(self, fetched: Fetched, pool: ThreadPoolExecutor | None = None) -> set[int]:
        """Return the rows with data that the CPU must decode; any thread may call this.

        Args:
            fetched: The step.
            pool: Threads that help if many files are new; the calling thread may belong to it.
        """
        kept, sound = fetched.has_sample, known_of(fetched, self._store, pool)
        # An index may state another size than the file has. Crops are drawn for the stated size.
        fits = read_sizes(sound.spans) == fetched.sizes[sound.rows]
        given = np.zeros(len(kept), bool)
        given[sound.rows] = fits.all(axis=1)
        if self._refused is not None:
            given &= ~self._refused[fetched.indices]
        return set(np.flatnonzero(kept & ~given).tolist())

    def refuse(self, indices: NDArray[np.int64]) -> None:
        """Remember samples, by index in the dataset, int64 [n], that DALI refused even without other samples."""
        if self._refused is not None:
            self._refused[indices] = True


def read_sizes(spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the height and width of upright JPEGs, read from their headers without the GIL in about 0.5 us each.

    Args:
        spans: int64 [n, 2], address and length in bytes of each file; 0 and 0 for no file.

    Returns:
        int64 [n, 2], height and width; 0 and 0 if our decoder does not support the file.
    """
    sizes = np.zeros((len(spans), 2), np.int64)
    _read_sizes(spans, np.zeros(MEMORY_BYTES, np.uint8), sizes)
    return sizes


@kernel
def _read_sizes(
    spans: NDArray[np.int64], scratch: NDArray[np.uint8], sizes: NDArray[np.int64]
) -> None:
    memory = memory_at(signed(scratch.ctypes.data))
    for number in range(len(spans)):
        memory.job.data, memory.job.length = spans[number, 0], spans[number, 1]
        read_size(memory, sizes[number])
