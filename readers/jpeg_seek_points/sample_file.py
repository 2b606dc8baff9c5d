"""A data file of many samples, next to which there may be a file of their seek points."""

from typing import NamedTuple

SUFFIX = ".gpuaug-checkpoints"
"""End of the names of files of seek points. It dates from the first version, and must stay, so that stored files are found."""


class SampleFile(NamedTuple):
    """A data file, such as a shard, that holds consecutive samples of a dataset.

    Attributes:
        location: Path or URL of the file.
        identity: 32 hex digits that change if the samples change.
        num_samples: Number of samples in the file.
    """

    location: str
    identity: str
    num_samples: int
