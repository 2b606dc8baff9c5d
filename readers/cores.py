"""The number of CPU cores that a process may use, and its share of them beside other ranks."""

import os


def usable_cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cores_of_rank() -> int:
    """Return how many cores are this process's share, where it is one of several ranks on the machine; at least 1.

    A process that is bound to some of the machine's cores has these for itself.
    """
    cores = usable_cores()
    is_bound = cores < (os.cpu_count() or 1)
    return cores if is_bound else max(1, cores // ranks_of_machine())


def ranks_of_machine() -> int:
    """Return how many ranks the launcher has started on this machine: LOCAL_WORLD_SIZE, 1 where it is not set."""
    told = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(told)) if told.isdecimal() else 1
