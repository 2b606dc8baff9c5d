"""One thread while something is timed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch and OpenCV to one thread for a while."""
    import torch

    cv2 = sys.modules.get("cv2")
    threads = torch.get_num_threads(), cv2.getNumThreads() if cv2 else 0
    torch.set_num_threads(1)
    if cv2:
        cv2.setNumThreads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads[0])
        if cv2:
            cv2.setNumThreads(threads[1])
