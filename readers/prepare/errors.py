"""Errors of data preparation."""

from readers.sample import PrepareError

__all__ = ["PrepareError", "WorkerLostError"]


class WorkerLostError(PrepareError):
    """A worker or its machine ended in the middle of a task, or its answer was lost; the text says how."""
