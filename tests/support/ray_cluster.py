"""A Ray cluster of several nodes on this machine; import this before Ray.

Its settings are those of tests: nothing is reported to anybody, a dead node is noticed after two seconds instead of
fifteen, and a token of this run alone keeps others of the machine out.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MEGABYTE = 1 << 20
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_BACKEND_LOG_LEVEL": "error",
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "OMP_NUM_THREADS": "1",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}
for _name, _value in _SETTINGS.items():
    os.environ.setdefault(_name, _value)
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, dict.fromkeys([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]))
)


@contextmanager
def ray_nodes(
    count: int, *, num_cpus: int = 1, store_bytes: int = 150 * MEGABYTE
) -> Iterator[tuple[Any, list[Any]]]:
    """Give a cluster that this process is connected to, and its nodes besides the head, which has no cores.

    A node has the resource ``node0``, ``node1`` and so on. End one with ``cluster.remove_node(node, allow_graceful=False)``.
    """
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": store_bytes, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, connect=False, head_node_args=head)
    try:
        nodes = [
            cluster.add_node(
                num_cpus=num_cpus, object_store_memory=store_bytes, resources={f"node{number}": 100}
            )
            for number in range(count)
        ]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster, nodes
    finally:
        ray.shutdown()
        cluster.shutdown()
