"""Iterators with the interface of DALI's own PyTorch iterators, over loaders instead of pipelines.

A training script for `nvidia.dali.plugin.pytorch` imports these names from here, and makes a Loader where it made a
pipeline; `pipeline.build()` and `pipeline.epoch_size()` go, since a loader is built, and an iterator knows its
`size`. Nothing here needs DALI.
"""

from dali_pipes.integrations.dali.arguments import LastBatchPolicy
from dali_pipes.integrations.dali.iterator import DALIClassificationIterator, DALIGenericIterator

__all__ = ["DALIClassificationIterator", "DALIGenericIterator", "LastBatchPolicy"]
