"""Export a loader's counters to Prometheus, on a port of this process or in a registry of the user."""

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from dali_pipes.arguments.values import require_integers
from dali_pipes.errors import LoaderError, import_optional
from dali_pipes.integrations.metrics.counters import METRICS, Counters, Latest, Metric

_PREFIX = "gpu_aug_loader"
_collectors: "WeakKeyDictionary[Any, _Collector]" = WeakKeyDictionary()  # by registry
_servers: dict[int, Any] = {}  # registries by port


class Prometheus(Counters):
    """Exports the counters of one loader, for ``Monitoring(metrics=...)``: ``gpu_aug_loader_samples_total{loader="train",rank="0"}``.

    Several loaders of a process share a port and a registry; each needs its own adapter and name.

    Args:
        name: Value of the label `loader`.
        port: Port of an HTTP server in this process, started once; None starts no server, for a registry that is served
            elsewhere. Each rank of a machine needs its own port.
        host: The address on which the server listens; "127.0.0.1" is reachable from this machine only.
        registry: A registry of prometheus_client; None uses its default, ``REGISTRY``.
        rank: Value of the label `rank`; None uses the rank of the loader.

    Raises:
        MissingPackageError: prometheus_client is not installed.
        LoaderError: The port is not available.

    Example:
        >>> from dali_pipes.integrations.metrics import Prometheus
        >>> photos = open_dataset("photos/")
        >>> recipe = Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, monitoring=Monitoring(metrics=Prometheus("train")))
    """

    def __init__(
        self,
        name: str = "train",
        *,
        port: int | None = None,
        host: str = "0.0.0.0",
        registry: Any = None,
        rank: int | None = None,
    ) -> None:
        client = _client()
        registry = client.REGISTRY if registry is None else registry
        if registry not in _collectors:
            _collectors[registry] = _Collector()
            registry.register(_collectors[registry])
        super().__init__(_collectors[registry].latest, name, rank)
        if port is not None:
            _serve(port, host, registry)


class _Collector:
    """Returns the latest statistics whenever the registry collects."""

    def __init__(self) -> None:
        self.latest = Latest()

    def describe(self) -> list[Any]:
        """Return the metric families without values."""
        return [_family(metric) for metric in METRICS]

    def collect(self) -> Iterator[Any]:
        """Yield the metric families with their values."""
        for metric in METRICS:
            family = _family(metric)
            for labels, value in self.latest.values(metric):
                family.add_metric(list(labels.values()), value)
            yield family


def _family(metric: Metric) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    name = "_".join(filter(None, (_PREFIX, metric.name, metric.unit)))
    return kind(name, metric.text, labels=["loader", "rank", *metric.labels], unit=metric.unit)


def _client() -> Any:
    return import_optional(
        "prometheus_client",
        'Prometheus(...) needs prometheus_client: pip install "gpu-aug[prometheus]"',
    )


def _serve(port: int, host: str, registry: Any) -> None:
    require_integers(1, 65535, port=port)
    if port in _servers:
        if _servers[port] is registry:
            return
        raise LoaderError(f"port={port} shows another registry of this process; give another port")
    try:
        _client().start_http_server(port, host, registry)
    except OSError as error:
        raise LoaderError(
            f"Prometheus(port={port!r}, host={host!r}) cannot listen there ({error}); give a free port, and to each rank of "
            f"a machine its own"
        ) from error
    _servers[port] = registry
