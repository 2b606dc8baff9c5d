"""From encoded samples to augmented batches: the loader, with NVIDIA DALI or without it."""

from dali_pipes import (
    foreign_packages as foreign_packages,  # first: a foreign module called readers would break the rest
)
from dali_pipes.bad_samples import BadRecord
from dali_pipes.batch import Batch
from dali_pipes.choose import available_decoders
from dali_pipes.decode.dali.user_pipeline import from_dali
from dali_pipes.errors import (
    BadSampleError,
    ClusterError,
    DecodeError,
    LoaderError,
    MissingPackageError,
    StateMismatchError,
)
from dali_pipes.fields import Field
from dali_pipes.loader import Loader
from dali_pipes.maps import Flow, NumberMap
from dali_pipes.multi_scale import MultiScale
from dali_pipes.ranks.heartbeat import Heartbeat
from dali_pipes.ranks.table import RankTable
from dali_pipes.state import LoaderState
from dali_pipes.stats import Stats
from dali_pipes.stats.metrics import Every
from dali_pipes.stats.trace import traced
from dali_pipes.video.clips import Clips
from dali_pipes.video.scores import ViewMean
from readers.buckets import Buckets

__all__ = [
    "BadRecord",
    "BadSampleError",
    "Batch",
    "Buckets",
    "Clips",
    "ClusterError",
    "DecodeError",
    "Every",
    "Field",
    "Flow",
    "Heartbeat",
    "Loader",
    "LoaderError",
    "LoaderState",
    "MissingPackageError",
    "MultiScale",
    "NumberMap",
    "RankTable",
    "StateMismatchError",
    "Stats",
    "ViewMean",
    "available_decoders",
    "from_dali",
    "traced",
]
