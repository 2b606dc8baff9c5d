"""Errors of data preparation."""

from platform import node

from readers.sample import BadSample, PrepareError, TransientError

__all__ = ["PrepareError", "TransientError", "WorkerLostError", "require_read"]


class WorkerLostError(PrepareError):
    """A worker or its machine ended in the middle of a task, or its answer was lost; the text says how."""


def require_read(bad: BadSample) -> None:
    """Refuse to go on without a sample that may be sound.

    Raises:
        TransientError: The storage failed, here and now.
    """
    if bad.transient:
        raise TransientError(
            f"{bad.key} cannot be read on {node()} ({bad.reason}), and is not left out, since it may be sound: run the same "
            "command again; where it stays so, make it readable there, or take it out of the data"
        )
