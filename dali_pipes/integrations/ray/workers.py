"""RayWorkers: which actors of a Ray cluster make the batches of a loader."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dali_pipes.errors import LoaderError

_WHERE = ("accelerator_type", "label_selector", "scheduling_strategy")
_PLACEMENT = (
    "accelerator_type",
    "label_selector",
    "memory",
    "resources",
    "runtime_env",
    "scheduling_strategy",
)


@dataclass(frozen=True)
class RayWorkers:
    """Actors of a Ray cluster that read, decode and augment for a `Loader`; the batches are those that it makes itself.

    Args:
        count: How many there are, at least 1. ``prefetch + count`` batches are under way at once.
        num_cpus: Cores that each asks Ray for; it has as many threads, at least one.
        address: ``HOST:PORT`` of the cluster, "auto" for the one that this machine belongs to, "local" for one on this
            machine alone; None takes ``RAY_ADDRESS``, else "local". Where this process is connected already, all but a
            HOST:PORT take what it is connected to.
        placement: More options of Ray's actors: ``resources``, ``label_selector``, ``scheduling_strategy``, ``memory``,
            ``accelerator_type``, ``runtime_env``. Without a strategy they are spread over the machines.
        deadline_seconds: How long one may work on a batch, or start; compiling does not count. One that is late is ended,
            another one takes its place, and its batches are made again.

    Raises:
        LoaderError: An argument that is not allowed.

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
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise LoaderError(
                f"RayWorkers: count={self.count!r} is not allowed; give an integer of 1 or more"
            )
        for name in ("num_cpus", "deadline_seconds"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise LoaderError(
                    f"RayWorkers: {name}={value!r} is not allowed; give a number above 0"
                )
        for name in self.placement:
            if name not in _PLACEMENT:
                raise LoaderError(
                    f"RayWorkers: placement has {name!r}; allowed are {', '.join(_PLACEMENT)}"
                )

    @property
    def num_threads(self) -> int:
        """Threads of a worker."""
        return max(1, math.ceil(self.num_cpus))

    @property
    def resources(self) -> dict[str, float]:
        """What a worker asks of the machine that it is on, by Ray's names."""
        memory = {"memory": size} if (size := self.placement.get("memory")) else {}
        return {"CPU": self.num_cpus, **memory, **self.placement.get("resources", {})}

    @property
    def where(self) -> dict[str, Any]:
        """The options that say which machines may take a worker."""
        return {name: value for name, value in self.placement.items() if name in _WHERE}

    @property
    def asked(self) -> str:
        """What a worker asks Ray for, in words."""
        return f"{self.resources}" + f" with placement={self.where}" * bool(self.where)

    @property
    def actor_options(self) -> dict[str, Any]:
        """Options for Ray's actors: one that has died is replaced by us, who know what it had to do."""
        return {
            "scheduling_strategy": "SPREAD",
            **self.placement,
            "num_cpus": self.num_cpus,
            "max_restarts": 0,
            "max_task_retries": 0,
        }
