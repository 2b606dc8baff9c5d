"""Which samples DALI is given: JPEGs that our own decoder finds sound, and that DALI has not refused."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dali_pipes.decode.cuda_jpeg.known import known_of
from dali_pipes.jpeg.seek_point_stores import SeekPointStore
from dali_pipes.stages.data import Fetched


class Trust:
    """Remembers which samples DALI refused, as long as a loader lives: a byte for each sample of the dataset.

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

    def hidden(self, fetched: Fetched, pool: ThreadPoolExecutor | None = None) -> set[int]:
        """Return the rows that are not for DALI, but for lost ones; any thread may ask.

        Args:
            fetched: The rows.
            pool: Threads that help where many files are unknown; the calling thread may be one of them.
        """
        # Compiles, where that was not done before.
        from dali_pipes.decode.dali.headers import read_headers

        kept, sound = fetched.kept(), known_of(fetched, self._store, pool)
        # An index may state another size than the file has; crops are drawn for the stated one.
        fits = read_headers(sound.spans)[:, :2] == fetched.sizes[sound.rows]
        given = np.zeros(len(kept), bool)
        given[sound.rows] = fits.all(axis=1)
        if self._refused is not None:
            given &= ~self._refused[fetched.indices]
        return set(np.flatnonzero(kept & ~given).tolist())

    def refuse(self, index: int) -> None:
        """Remember a sample that DALI refused by itself."""
        if self._refused is not None:
            self._refused[index] = True
