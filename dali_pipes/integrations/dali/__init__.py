"""Iterators with the interface of DALI's PyTorch iterators, over loaders instead of pipelines.

A training script for `nvidia.dali.plugin.pytorch` imports these names from here instead, and makes a Loader where it
made a pipeline. It drops `pipeline.build()` and `pipeline.epoch_size()`: a loader needs no build, and an iterator has
the attribute `size`. This module does not need DALI.
"""

from dali_pipes.integrations.dali.arguments import LastBatchPolicy
from dali_pipes.integrations.dali.iterator import DALIClassificationIterator, DALIGenericIterator

__all__ = ["DALIClassificationIterator", "DALIGenericIterator", "LastBatchPolicy"]
