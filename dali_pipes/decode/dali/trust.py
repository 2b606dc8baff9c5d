"""Which samples DALI is given: JPEGs that our own decoder finds sound, and that DALI has not refused."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.checkpoints import CHECKPOINT
from dali_pipes.jpeg.spans import spans_of
from dali_pipes.jpeg.status import GOOD
from dali_pipes.pipeline.stages import Fetched
from readers.sample import Payload

_UNKNOWN, _FOR_DALI, _FOR_CPU = range(3)

_AT_ONCE = 16  # files that a thread judges before another one may take the next


class Trust:
    """Remembers which samples are for DALI, as long as a loader lives: a byte for each.

    Sound is a file all of whose Huffman codes can be read, in every place of every batch: of a damaged one nvJPEG's
    engine reports success, while its kernels and libjpeg-turbo each make something else of it, or refuse it. What is
    not for DALI is decoded on the CPU, whose verdict counts.

    Args:
        num_samples: How many samples the dataset has. None for a stream: its samples are judged each time they come.
    """

    def __init__(self, num_samples: int | None) -> None:
        # A file that changes while a loader lives keeps its verdict; what DALI makes of it then counts.
        self._verdicts = None if num_samples is None else np.zeros(num_samples, np.uint8)

    def hidden(self, fetched: Fetched, pool: ThreadPoolExecutor | None = None) -> set[int]:
        """The rows that are not for DALI, but for lost ones; any thread may ask.

        Args:
            fetched: The rows.
            pool: Threads that help where several files are to be judged; the one that asks may be among them.
        """
        rows = np.flatnonzero(fetched.kept())
        indices = fetched.indices[rows]
        known = self._verdicts
        verdicts = np.zeros(len(rows), np.uint8) if known is None else known[indices]
        new = np.flatnonzero(verdicts == _UNKNOWN)
        if new.size:
            data = [fetched.data[row] or b"" for row in rows[new].tolist()]
            sizes = fetched.sizes[rows[new]]
            sound = _judge(data, sizes, pool)
            verdicts[new] = np.where(sound, _FOR_DALI, _FOR_CPU)
            if known is not None:
                known[indices[new]] = verdicts[new]
        return set(rows[verdicts == _FOR_CPU].tolist())

    def refuse(self, index: int) -> None:
        """Remember a sample that DALI refused by itself."""
        if self._verdicts is not None:
            self._verdicts[index] = _FOR_CPU


def suits_dali(data: Sequence[Payload], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether files are for DALI: JPEGs of 8 bits, gray or YCbCr, whole and sound from the first code to the last.

    Other formats DALI decodes on the CPU in any case, and a damaged PNG can crash the process. JPEGs that are stored as
    RGB or CMYK, with 12 or 16 bits, arithmetic codes or without loss are read differently by nvJPEG's backends, if at all.

    Args:
        data: The files.
        sizes: int64 [n, 2]: height and width of the upright images.

    Returns:
        bool [n].
    """
    # Compiles, where that was not done before.
    from dali_pipes.jpeg.whole import check_whole, new_scratch

    views = [np.frombuffer(one, np.uint8) for one in data]
    statuses = np.empty(len(data), np.int32)
    sizes = np.ascontiguousarray(sizes, np.int64)
    no_rows, ends = np.empty(0, CHECKPOINT), np.empty(len(data), np.int64)
    check_whole(spans_of(views), sizes, 0, new_scratch(), statuses, no_rows, ends)
    sound: NDArray[np.bool_] = statuses == GOOD
    return sound


def _judge(
    data: Sequence[Payload], sizes: NDArray[np.int64], pool: ThreadPoolExecutor | None
) -> NDArray[np.bool_]:
    """As `suits_dali`, by all threads of a pool that have nothing else to do, and this one."""
    sound = np.zeros(len(data), bool)
    starts = deque(range(0, len(data), _AT_ONCE))

    def work() -> None:
        while True:
            try:
                start = starts.popleft()
            except IndexError:
                return
            part = slice(start, start + _AT_ONCE)
            sound[part] = suits_dali(data[part], sizes[part])

    others = [] if pool is None else [pool.submit(work) for _ in range(len(starts) - 1)]
    work()
    for other in others:
        # Who has not begun is not waited for: this thread may be one of the pool, which then had none left.
        if not other.cancel():
            other.result()
    return sound
