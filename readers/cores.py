"""Count the CPU cores that a process may use, alone or together with the other ranks on its machine."""

import os


def usable_cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cores_of_rank() -> int:
    """Return this rank's share of the machine's cores: their count divided by the ranks on this machine, at least 1.

    A process that is bound to some of the cores is assumed to have those for itself.
    """
    cores = usable_cores()
    is_bound = cores < (os.cpu_count() or 1)
    return cores if is_bound else max(1, cores // ranks_of_machine())


def ranks_of_machine() -> int:
    """Return the number of ranks on this machine: the environment variable LOCAL_WORLD_SIZE, or 1 if it is not set."""
    told = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(told)) if told.isdecimal() else 1
