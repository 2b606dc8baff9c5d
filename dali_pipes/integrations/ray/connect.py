"""The connection to a Ray cluster."""

import importlib
import os
import socket
from ipaddress import ip_address
from types import ModuleType

from dali_pipes.errors import ClusterError, MissingPackageError

_KNOCK_SECONDS = 10.0


def require_ray(module: str = "ray") -> ModuleType:
    """Import Ray, or one of its modules.

    Raises:
        MissingPackageError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            f"{module} cannot be imported ({error}): pip install 'gpu-aug[ray]'"
        ) from None


def connect(address: str | None = None) -> ModuleType:
    """Connect this process to a cluster, unless it is connected already, and return Ray.

    Args:
        address: ``HOST:PORT`` of a running cluster, "auto" for the one that this machine belongs to, "local" for a new
            one on this machine alone, which ends with this process. None takes ``RAY_ADDRESS``, else "local". Where the
            process is connected, all but a HOST:PORT take what it is connected to.

    Raises:
        MissingPackageError: Ray is not installed.
        ClusterError: The cluster cannot be reached, or this process is connected to another one.
    """
    ray = require_ray()
    if ray.is_initialized():
        found = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", "local", found) and not _is_at(address, found):
            raise ClusterError(
                f"this process is connected to the Ray cluster at {found}, and {address} was asked for: call "
                "ray.shutdown() first, or leave the address out"
            )
        return ray
    wanted = address or os.environ.get("RAY_ADDRESS") or "local"
    try:
        _knock(wanted)
        ray.init(address=wanted, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        words = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ClusterError(
            f"the Ray cluster at {wanted} cannot be reached ({words}): see that it runs (ray status), that the versions of "
            "Ray and Python are the same there, and that RAY_AUTH_TOKEN is its token, or leave the address out to use this "
            "machine alone"
        ) from error
    return ray


def _is_at(address: str, found: str) -> bool:
    """Whether an address leads to a cluster that Ray names by number: a name does, or "localhost" on its machine."""
    host, _, port = address.rpartition(":")
    number, _, found_port = found.rpartition(":")
    if port != found_port:
        return False
    try:
        numbers = {str(one[4][0]) for one in socket.getaddrinfo(host.strip("[]"), None)}
    except OSError:
        return False
    if any(ip_address(one).is_loopback for one in numbers):
        numbers.add(require_ray("ray.util").get_node_ip_address())
    return number.strip("[]") in numbers


def _knock(address: str) -> None:
    """See that somebody listens, since Ray itself tries for minutes.

    Raises:
        OSError: Nobody does.
    """
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK_SECONDS).close()
