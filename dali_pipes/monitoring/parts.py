"""The parts of statistics."""

from collections.abc import Mapping
from dataclasses import dataclass

from readers.plural import counted


@dataclass(frozen=True, slots=True)
class Waits:
    """How often a stage waited for something, and how long in all."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StageStats:
    """What one stage did, over all threads.

    On a GPU the seconds are the host's part alone.

    Attributes:
        calls: How often a thread worked on it: reading, headers and draws take a batch at once, decoding and
            augmenting on the CPU some rows of it.
        samples: Samples that it worked on.
        bytes: Of reading and decoding the encoded images, else what was made or copied.
        busy_seconds: Seconds that threads worked on it; those of several threads add up.
        cpu_seconds: Of these, those in which the thread had a core. The rest it waited: for storage, for another
            process or loader that took the core, or for Python's lock. Where DALI does the work all of them.
        p50_seconds: Half of the calls took no longer than this; so `p90_seconds` and `p99_seconds`. Within 5 %.
        p90_seconds: See p50_seconds.
        p99_seconds: See p50_seconds.
        waits: For what it waited before it began.
    """

    calls: int
    samples: int
    bytes: int
    busy_seconds: float
    cpu_seconds: float
    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    waits: Mapping[str, Waits]


@dataclass(frozen=True, slots=True)
class Queue:
    """Finished batches, as they were when the training loop asked for one.

    DALI does not tell what it has finished: where it decodes, only batches count that our threads are through with.

    Attributes:
        depth: The last time.
        mean: On average.
        capacity: How many are made ahead at most.
        empty: How often there was none.
        asked: How often one was asked for, but for the first of a loop.
    """

    depth: int
    mean: float
    capacity: int
    empty: int
    asked: int


@dataclass(frozen=True, slots=True)
class Remote:
    """Remote reading.

    Attributes:
        requests: Requests for parts of remote files.
        bytes: What they brought.
        cache_hits: Blocks that the block cache had.
        cache_misses: Blocks that it did not have.
    """

    requests: int
    bytes: int
    cache_hits: int
    cache_misses: int

    def shown(self) -> str:
        """In words."""
        return (
            f"remote: {self.bytes / 1e6:.1f} MB in {counted(self.requests, 'request')}; "
            f"{self.cache_hits:,} of {self.cache_hits + self.cache_misses:,} blocks were in the cache"
        )
