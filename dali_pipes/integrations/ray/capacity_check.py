"""Whether a cluster has machines for the workers of a loader, and room in Ray's object store for what they make."""

from typing import Any

from dali_pipes.errors import ClusterError
from dali_pipes.integrations.ray.connect import require_ray
from dali_pipes.integrations.ray.workers import RayWorkers

MOST_EMPTY_SECONDS = 900.0
"""How long a cluster without cores, or without such a machine, is waited for: a cloud starts one within minutes."""
_MIB = 1 << 20


def require_machine(workers: RayWorkers, *, may_grow: bool = True) -> None:
    """Refuse workers that no machine of the cluster could ever take: Ray would wait for one without a word.

    Args:
        workers: What each asks for.
        may_grow: Whether a cluster that has no cores at all is waited for: it starts machines when they are asked for.

    Raises:
        ClusterError: Says what is asked for, and what there is.
    """
    machines = [node["Resources"] for node in _nodes()]
    wanted = workers.resources
    if may_grow and not any(machine.get("CPU", 0) for machine in machines):
        return
    for machine in machines:
        if all(machine.get(name, 0) >= number for name, number in wanted.items()):
            return
    most = {name: max((machine.get(name, 0) for machine in machines), default=0) for name in wanted}
    raise ClusterError(
        f"RayWorkers asks for {wanted} for each worker, and no machine of the cluster has that, the most being {most}: ask for "
        "less, or add a machine first"
    )


def require_place(workers: RayWorkers) -> None:
    """Refuse workers that have not started for long though what they take is free: no machine is one that they may be on.

    Raises:
        ClusterError: Says what is asked for.
    """
    free = require_ray().available_resources()
    if workers.where and all(free.get(name, 0) >= most for name, most in workers.resources.items()):
        raise ClusterError(
            f"no worker of the loader has started for {MOST_EMPTY_SECONDS / 60:g} minutes: each asks Ray for {workers.asked}, "
            "and the cluster has that free, but on no machine of that placement: correct it, or add such a machine"
        )


def require_room(node: str, needed_bytes: int, name: str) -> None:
    """Refuse a machine whose object store would run over: Ray then writes batches to disk, without an error.

    Args:
        node: Ray's name of the machine.
        needed_bytes: All batches that may be under way.
        name: The machine's own name.

    Raises:
        ClusterError: They take more than half of the store.
    """
    for one in _nodes():
        room = int(one["Resources"].get("object_store_memory", 0))
        if one["NodeID"] == node and needed_bytes > room / 2:
            raise ClusterError(
                f"no room in the object store of {name}: it has {room // _MIB} MiB, of which a loader takes half at most, and "
                f"the batches under way take {-(-needed_bytes // _MIB)} MiB: start Ray there with a larger "
                "object_store_memory, or take a smaller prefetch, batch_size or dtype, or fewer workers"
            )


def _nodes() -> list[dict[str, Any]]:
    """The machines that are alive."""
    return [node for node in require_ray().nodes() if node["Alive"]]
