"""Let the user choose the Ray actors that make the batches of a loader (RayWorkers)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dali_pipes.arguments.values import require_above_zero, require_positive
from dali_pipes.errors import LoaderError
from dali_pipes.integrations.ray.cluster import describe

# Options of Ray actors that select machines, and other options that a user may set.
_WHERE = ("accelerator_type", "label_selector", "scheduling_strategy")
_PLACEMENT = (*_WHERE, "memory", "resources", "runtime_env")


@dataclass(frozen=True)
class RayWorkers:
    """Actors of a Ray cluster that read, decode and augment for a `Loader`; they do not change its batches.

    Args:
        count: Count of actors, at least 1. ``prefetch + count`` batches are in flight at once.
        num_cpus: CPU cores of each actor. An actor has as many threads, at least one.
        address: ``HOST:PORT`` of the cluster; "auto" for the cluster of this machine; "local" for one on this machine
            alone. None uses ``RAY_ADDRESS``, else "local". If this process is connected already, every value except
            HOST:PORT uses that connection.
        placement: Further options of Ray actors: ``resources``, ``label_selector``, ``scheduling_strategy``,
            ``memory``, ``accelerator_type``, ``runtime_env``. Without a strategy, actors are spread over the machines.
        deadline_seconds: Longest time for an actor to make a batch or to start; compiling does not count. A late actor
            is replaced, and its batches are made again.

    Raises:
        LoaderError: An argument is not allowed.

    Example:
        >>> workers = RayWorkers(2, num_cpus=1)
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=4, workers=workers)
        >>> loader.close()                                 # ends what the first loop would start
    """

    count: int
    num_cpus: float = field(default=1, kw_only=True)
    address: str | None = field(default=None, kw_only=True)
    placement: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    deadline_seconds: float = field(default=300.0, kw_only=True)

    def __post_init__(self) -> None:
        require_positive(count=self.count)
        require_above_zero(num_cpus=self.num_cpus, deadline_seconds=self.deadline_seconds)
        for name in self.placement:
            if name not in _PLACEMENT:
                raise LoaderError(
                    f"RayWorkers: placement has {name!r}; allowed are {', '.join(_PLACEMENT)}"
                )

    @property
    def num_threads(self) -> int:
        """Count of threads of each actor."""
        return max(1, math.ceil(self.num_cpus))

    @property
    def resources(self) -> dict[str, float]:
        """Amounts of the resources that an actor needs on its machine, by Ray's names."""
        memory = {"memory": size} if (size := self.placement.get("memory")) else {}
        return {"CPU": self.num_cpus, **memory, **self.placement.get("resources", {})}

    @property
    def where(self) -> dict[str, Any]:
        """The options of `placement` that restrict on which machines the actors may run."""
        return {name: value for name, value in self.placement.items() if name in _WHERE}

    @property
    def description(self) -> str:
        """The resources that an actor needs, as text for messages."""
        return describe(self.resources) + f" with placement={self.where}" * bool(self.where)
