"""From encoded samples to augmented batches: the loader, with or without NVIDIA DALI.

Names are imported from their modules on first use, so `import dali_pipes` loads neither torch nor Numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dali_pipes import foreign_packages as foreign_packages

if TYPE_CHECKING:
    from dali_pipes.arguments.choose import available_decoders as available_decoders
    from dali_pipes.arguments.options import BlockShuffle as BlockShuffle
    from dali_pipes.arguments.options import Execution as Execution
    from dali_pipes.arguments.options import ImageOptions as ImageOptions
    from dali_pipes.arguments.options import Monitoring as Monitoring
    from dali_pipes.batch import Batch as Batch
    from dali_pipes.decode.dali.user_pipeline import from_dali as from_dali
    from dali_pipes.errors import BadSampleError as BadSampleError
    from dali_pipes.errors import ClusterError as ClusterError
    from dali_pipes.errors import DecodeError as DecodeError
    from dali_pipes.errors import LoaderError as LoaderError
    from dali_pipes.errors import MissingPackageError as MissingPackageError
    from dali_pipes.errors import StateMismatchError as StateMismatchError
    from dali_pipes.loader import Loader as Loader
    from dali_pipes.monitoring import Stats as Stats
    from dali_pipes.monitoring.metrics import Every as Every
    from dali_pipes.monitoring.ranks.heartbeat_options import Heartbeat as Heartbeat
    from dali_pipes.monitoring.ranks.rank_table import RankTable as RankTable
    from dali_pipes.monitoring.trace import traced as traced
    from dali_pipes.runs.bad_samples import BadRecord as BadRecord
    from dali_pipes.samples.fields import Field as Field
    from dali_pipes.samples.maps import Flow as Flow
    from dali_pipes.samples.maps import NumberMap as NumberMap
    from dali_pipes.state import LoaderState as LoaderState
    from dali_pipes.steps.variants import MultiScale as MultiScale
    from dali_pipes.video.clips import Clips as Clips
    from dali_pipes.video.scores import ViewMean as ViewMean
    from readers.order.buckets import Buckets as Buckets

_MODULES = {
    "BadRecord": "dali_pipes.runs.bad_samples",
    "BadSampleError": "dali_pipes.errors",
    "Batch": "dali_pipes.batch",
    "BlockShuffle": "dali_pipes.arguments.options",
    "Buckets": "readers.order.buckets",
    "Clips": "dali_pipes.video.clips",
    "ClusterError": "dali_pipes.errors",
    "DecodeError": "dali_pipes.errors",
    "Every": "dali_pipes.monitoring.metrics",
    "Execution": "dali_pipes.arguments.options",
    "Field": "dali_pipes.samples.fields",
    "Flow": "dali_pipes.samples.maps",
    "Heartbeat": "dali_pipes.monitoring.ranks.heartbeat_options",
    "ImageOptions": "dali_pipes.arguments.options",
    "Loader": "dali_pipes.loader",
    "LoaderError": "dali_pipes.errors",
    "LoaderState": "dali_pipes.state",
    "MissingPackageError": "dali_pipes.errors",
    "Monitoring": "dali_pipes.arguments.options",
    "MultiScale": "dali_pipes.steps.variants",
    "NumberMap": "dali_pipes.samples.maps",
    "RankTable": "dali_pipes.monitoring.ranks.rank_table",
    "StateMismatchError": "dali_pipes.errors",
    "Stats": "dali_pipes.monitoring",
    "ViewMean": "dali_pipes.video.scores",
    "available_decoders": "dali_pipes.arguments.choose",
    "from_dali": "dali_pipes.decode.dali.user_pipeline",
    "traced": "dali_pipes.monitoring.trace",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
