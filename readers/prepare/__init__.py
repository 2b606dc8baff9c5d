"""Prepare data for training: inspect it, index it, pack it into shards.

Each function does all of the work, reports progress through callbacks, and returns the result::

    from readers.prepare import index, inspect, pack

    print(inspect("photos").labels)
    packed = pack("photos", "shards", shuffle=0)
    index("shards")

This package does not decode images itself: functions that need pixels take a decoding function as an argument.
"""

from readers.datasets.inspected import Checks
from readers.prepare.errors import PrepareError
from readers.prepare.indexing import Indexing, index
from readers.prepare.inspection.findings import Inspection
from readers.prepare.inspection.inspect_dataset import inspect
from readers.prepare.job import ArrayTask, Executor, Job, LocalExecutor
from readers.prepare.packing import Packing, pack
from readers.prepare.shards.making import make_shard
from readers.prepare.shards.merging import merge
from readers.prepare.shards.plan import Plan
from readers.prepare.shards.planning import load_plan, plan_shards

__all__ = [
    "ArrayTask",
    "Checks",
    "Executor",
    "Indexing",
    "Inspection",
    "Job",
    "LocalExecutor",
    "Packing",
    "Plan",
    "PrepareError",
    "index",
    "inspect",
    "load_plan",
    "make_shard",
    "merge",
    "pack",
    "plan_shards",
]
