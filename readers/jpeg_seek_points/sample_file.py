"""A file that holds many samples, beside which their seek points may lie."""

from typing import NamedTuple

SUFFIX = ".gpuaug-checkpoints"
"""End of the names of files of seek points. Stored files have it since the first version, so it stays."""


class SampleFile(NamedTuple):
    """A file of a dataset that holds some of its samples, one after the other.

    Attributes:
        location: Path or URL.
        identity: 32 hex digits that change when its samples change.
        num_samples: Number of samples.
    """

    location: str
    identity: str
    num_samples: int
