"""Connect to a Ray cluster, and examine its machines and their free resources."""

import importlib
import os
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from types import ModuleType

from dali_pipes.errors import ClusterError, MissingPackageError

# Ray itself would try a dead address for more than 5 minutes (DECISIONS.md, "Retries on Ray").
_CONNECT_SECONDS = 10.0
_MIB = 1 << 20

Resources = Mapping[str, float]
"""Amounts by Ray's resource names: "CPU", "memory" in bytes, and resources that a user defined."""


def require_ray(module: str = "ray") -> ModuleType:
    """Import and return Ray, or one of its modules.

    Raises:
        MissingPackageError: Ray is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            f"{module} cannot be imported ({error}): pip install 'gpu-aug[ray]'"
        ) from None


def connect(address: str | None = None) -> ModuleType:
    """Connect this process to a cluster, unless it is connected already, and return the module ray.

    Args:
        address: ``HOST:PORT`` of a running cluster; "auto" for the cluster of this machine; "local" for a new one on
            this machine alone, which ends with this process. None uses ``RAY_ADDRESS``, else "local". If the process is
            connected already, every value except HOST:PORT uses that connection.

    Raises:
        MissingPackageError: Ray is not installed.
        ClusterError: The cluster cannot be reached, or this process is connected to another one.
    """
    ray = require_ray()
    if ray.is_initialized():
        current = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", "local", current) and not _is_same(address, current):
            raise ClusterError(
                f"this process is connected to the Ray cluster at {current}, and {address} was asked for: call "
                "ray.shutdown() first, or leave the address out"
            )
        return ray
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    try:
        _require_listener(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        raise ClusterError(
            f"the Ray cluster at {address} cannot be reached ({first_line(error)}): see that it runs (ray status), that the "
            "versions of Ray and Python are the same there, and that RAY_AUTH_TOKEN is its token, or leave the address out "
            "to use this machine alone"
        ) from error
    return ray


def machine_resources() -> list[Resources]:
    """Return the total resources of each live machine."""
    return [node["Resources"] for node in require_ray().nodes() if node["Alive"]]


def shortage(wanted: Resources) -> str:
    """Return a text with the free resources of all machines together if these are less than `wanted`; else ""."""
    free = require_ray().available_resources()
    return "" if _covers(free, wanted) else describe({name: free.get(name, 0) for name in wanted})


def describe(resources: Resources) -> str:
    """Return resources as text, such as "2 CPU and 0.4 GB of memory"."""
    return " and ".join(
        f"{amount / 1e9:.1f} GB of memory" if name == "memory" else f"{amount:g} {name}"
        for name, amount in resources.items()
    )


def require_machine(what: str, wanted: Resources, *, may_grow: bool = True) -> None:
    """Raise if no machine can ever provide some resources; Ray would wait silently.

    Args:
        what: The work that needs the resources, as the subject of the error message.
        wanted: The needed resources.
        may_grow: Whether to accept a cluster without any cores, which may start machines on demand.

    Raises:
        ClusterError: No machine has these resources.
    """
    machines = machine_resources()
    has_cores = any(machine.get("CPU", 0) for machine in machines)
    if (may_grow and not has_cores) or any(_covers(machine, wanted) for machine in machines):
        return
    most = {name: max((one.get(name, 0) for one in machines), default=0) for name in wanted}
    raise ClusterError(
        f"{what} needs {describe(wanted)}, and no machine of the Ray cluster has that (the most is {describe(most)}, on "
        f"{len(machines)} machines): ask for less, or start a larger machine"
    )


def require_store(node: str, needed_bytes: int, name: str) -> None:
    """Raise if the object store of a machine is too small; Ray would write batches to disk silently.

    Args:
        node: Ray's id of the machine.
        needed_bytes: Bytes of all batches in flight.
        name: Name of the machine.

    Raises:
        ClusterError: The batches need more than half of the store.
    """
    for machine in require_ray().nodes():
        store_bytes = int(machine["Resources"].get("object_store_memory", 0))
        if machine["NodeID"] == node and machine["Alive"] and needed_bytes > store_bytes / 2:
            raise ClusterError(
                f"the object store of {name} is too small: it has {store_bytes // _MIB} MiB, of which a loader uses at most "
                f"half, and the batches under way take {-(-needed_bytes // _MIB)} MiB: start Ray there with a larger "
                "object_store_memory, or use a smaller prefetch, batch_size or dtype, or fewer workers"
            )


def first_line(error: object) -> str:
    """Return the first non-empty line of an error or text, with the error's type; Ray's errors have many lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not isinstance(error, Exception):
        return "".join(lines[:1])
    return ": ".join([type(error).__name__, *lines[:1]])


def _covers(resources: Resources, wanted: Resources) -> bool:
    return all(resources.get(name, 0) >= amount for name, amount in wanted.items())


def _is_same(address: str, current: str) -> bool:
    """Return whether an address, which may have a host name, is that of the cluster with the numeric address `current`.

    Raises:
        ClusterError: The name cannot be resolved.
    """
    host, _, port = address.rpartition(":")
    current_host, _, current_port = current.rpartition(":")
    if port != current_port:
        return False
    try:
        hosts = {str(info[4][0]) for info in socket.getaddrinfo(host.strip("[]"), None)}
    except OSError as error:
        raise ClusterError(
            f"this process is connected to the Ray cluster at {current}, and it is unknown whether {address} is the same cluster, "
            f"because the name cannot be resolved ({error}): give {current}, or leave the address out"
        ) from error
    if any(ip_address(one).is_loopback for one in hosts):
        hosts.add(require_ray("ray.util").get_node_ip_address())
    return current_host.strip("[]") in hosts


def _require_listener(address: str) -> None:
    """Raise at once if nothing listens at an address.

    Raises:
        OSError: The connection fails.
    """
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
