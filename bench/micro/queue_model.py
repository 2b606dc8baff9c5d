"""A model of threads that share an interpreter lock and some cores: images per second on machines that are not here."""

from dataclasses import dataclass

WAKE_SECONDS = 10e-6
"""How long the lock is idle while a waiting thread wakes up; fitted to the 16 threads of cpu+fused on the host of an H100."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one image takes.

    Attributes:
        free_seconds: CPU time without the lock.
        held_seconds: CPU time under the lock.
        releases: How often a thread gives the lock up.
    """

    free_seconds: float
    held_seconds: float
    releases: float


def predict_rate(work: Work, *, num_threads: int, cores: float) -> float:
    """Return the images per second of several threads in one process.

    A birth-death chain over the number of threads at the lock: each of the others comes to it after a release's share of
    the free time, the first of them leaves after a share of the held time, later when it must be woken first. Runnable
    threads share the cores evenly, so that a holder of the lock is slowed down where there are too many.

    Args:
        work: Of one image.
        num_threads: 1 or more.
        cores: As many as the work without a lock gains from them, such as 12.7 of 16.
    """
    weight, total, left = 1.0, 1.0, 0.0
    for waiting in range(num_threads):
        come = num_threads - waiting
        runnable = come + (waiting > 0)
        arrivals = come * min(1, cores / runnable) * work.releases / work.free_seconds
        share = min(1, cores / come)  # of a core, for the come - 1 that still run and the holder
        service = work.held_seconds / work.releases / share + (waiting > 0) * WAKE_SECONDS
        weight *= arrivals * service
        total += weight
        left += weight / service
    return left / total / work.releases
