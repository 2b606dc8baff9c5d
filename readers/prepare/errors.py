"""Errors of data preparation."""

from readers.sample import PrepareError, TransientError
from readers.storage.unreadable import require_read

__all__ = ["PrepareError", "TransientError", "WorkerLostError", "require_read"]


class WorkerLostError(PrepareError):
    """A worker process or its machine ended during a task, or the result was lost; the text says how."""
