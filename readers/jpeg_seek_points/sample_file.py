"""A file that holds many samples, beside which their checkpoints may lie."""

from typing import NamedTuple

SUFFIX = ".gpuaug-checkpoints"


class SampleFile(NamedTuple):
    """A file of a dataset that holds some of its samples, one behind the other.

    Attributes:
        location: Path or URL.
        identity: 32 hex digits that are others where its samples are.
        num_samples: How many it holds.
    """

    location: str
    identity: str
    num_samples: int
