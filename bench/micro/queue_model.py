"""Predict images per second on other machines, by a model of threads that share a GIL and some cores."""

from dataclasses import dataclass

WAKE_SECONDS = 10e-6
"""Time that the GIL is idle while a waiting thread wakes up; fitted to the 16 threads of cpu+fused on the host of an
H100."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work for one image.

    Attributes:
        free_seconds: CPU time without the GIL.
        held_seconds: CPU time with the GIL.
        releases: How often the GIL is released.
    """

    free_seconds: float
    held_seconds: float
    releases: float


def predict_rate(work: Work, *, num_threads: int, cores: float) -> float:
    """Return the images per second of several threads in one process.

    The model is a birth-death chain over the number of threads that have or want the GIL. Every other thread arrives
    after its free time per release. The first thread in the queue leaves after its held time per release, plus the
    wake-up time if it had to be woken. Runnable threads share the cores evenly, so too many threads slow down the one
    that holds the GIL.

    Args:
        work: The work for one image.
        num_threads: Count of threads, at least 1.
        cores: Effective count of cores: the speedup of work without a GIL, such as 12.7 for 16 cores.
    """
    weight, total, left = 1.0, 1.0, 0.0
    for waiting in range(num_threads):
        come = num_threads - waiting
        runnable = come + (waiting > 0)
        arrivals = come * min(1, cores / runnable) * work.releases / work.free_seconds
        # Share of a core for each of the come - 1 running threads and the holder.
        share = min(1, cores / come)
        service = work.held_seconds / work.releases / share + (waiting > 0) * WAKE_SECONDS
        weight *= arrivals * service
        total += weight
        left += weight / service
    return left / total / work.releases
