"""Where calls that make the host wait for the GPU are errors."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def forbidden() -> Iterator[None]:
    """Have torch raise RuntimeError for calls that synchronise; it warns each time that it may overlook some."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode", UserWarning)
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")
