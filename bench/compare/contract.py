"""Define a contestant, the pipeline that it makes for a task, and its error.

A contestant's process imports this module first, so it imports neither torch nor the rest of gpu-aug.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from bench.compare.clips import Clip

Kind = Literal["engine", "baseline", "ceiling"]


class Unable(Exception):  # noqa: N818 - an answer, not a fault
    """A contestant cannot run this recipe on this machine; the message says why."""


@dataclass(frozen=True)
class Contestant:
    """A pipeline that runs in its own process.

    Attributes:
        name: Name in the output.
        kind: "engine" for our pipelines, "baseline" for another library's, "ceiling" for an upper bound.
        start: "module:function" of a function that takes a `Task` and the options, and returns a `Pipeline`; it is
            imported in the contestant's process.
        options: Further arguments of `start`.
        peer: A key of `PEERS` if the contestant needs packages that gpu-aug does not depend on; else "".
        needs_gpu: Whether the contestant works only on a CUDA device.
    """

    name: str
    kind: Kind
    start: str
    options: Mapping[str, object] = field(default_factory=dict)
    peer: str = ""
    needs_gpu: bool = False


@dataclass(frozen=True)
class Pipeline:
    """A running contestant.

    Attributes:
        batches: Endless batches on the device; closing or dropping the iterator stops threads and workers.
        note: A note that a reader needs for a fair comparison.
        num_ahead: How many batches the pipeline prepares without being asked.
        num_discard: How many batches to take after a pause until the rate is steady.
        shown: A function that returns the clips of the last batch if the reader chooses clips by itself; else None.
    """

    batches: Iterator[Any]
    note: str
    num_ahead: int
    num_discard: int
    shown: Callable[[], Sequence["Clip"]] | None = None
