"""Which samples DALI is given: JPEGs that our own decoder finds sound, and that DALI has not refused."""

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
    """Remembers which samples DALI refused, for as long as a loader lives: a byte for each sample of the dataset.

    DALI is given JPEGs of 8 bits, gray or YCbCr, baseline or progressive, all of whose Huffman codes can be read. Of a
    damaged one nvJPEG's engine reports success, while its kernels and libjpeg-turbo each make something else of it, or
    refuse it. JPEGs that are stored as RGB or CMYK, with 12 or 16 bits, arithmetic codes or without loss are read
    differently by nvJPEG's backends, if at all. Other formats DALI decodes on the CPU in any case, and a damaged PNG can
    crash the process. All these are decoded on the CPU, whose verdict counts.

    Args:
        num_samples: How many samples the dataset has. None for a stream, whose refused samples are not remembered.
        store: Has verdicts on files, and gets new ones. It tells files apart by all of their bytes, so that a verdict
            counts for later epochs, other selections of the data and other runs.
    """

    def __init__(self, num_samples: int | None, store: SeekPointStore) -> None:
        self._refused = None if num_samples is None else np.zeros(num_samples, bool)
        self._store = store

    def rows_for_cpu(self, fetched: Fetched, pool: ThreadPoolExecutor | None = None) -> set[int]:
        """Return the rows with data that the CPU must decode; any thread may call this.

        Args:
            fetched: The rows.
            pool: Threads that help where many files are unknown; the calling thread may be one of them.
        """
        kept, sound = fetched.has_sample, known_of(fetched, self._store, pool)
        # An index may state another size than the file has; crops are drawn for the stated one.
        fits = read_sizes(sound.spans) == fetched.sizes[sound.rows]
        given = np.zeros(len(kept), bool)
        given[sound.rows] = fits.all(axis=1)
        if self._refused is not None:
            given &= ~self._refused[fetched.indices]
        return set(np.flatnonzero(kept & ~given).tolist())

    def refuse(self, indices: NDArray[np.int64]) -> None:
        """Remember samples that DALI refused by themselves, int64 [n]."""
        if self._refused is not None:
            self._refused[indices] = True


def read_sizes(spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Read height and width of upright JPEGs, without Python's lock: about 0.5 us each.

    Args:
        spans: int64 [n, 2]: address and length in bytes of each file; 0 and 0 for none.

    Returns:
        int64 [n, 2], 0 where our decoder does not take the file.
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
