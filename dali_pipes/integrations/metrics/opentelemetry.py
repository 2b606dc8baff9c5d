"""A loader's counters as instruments of OpenTelemetry."""

from collections.abc import Iterable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from dali_pipes.errors import MissingPackageError
from dali_pipes.integrations.metrics.table import METRICS, Latest, Metric
from dali_pipes.monitoring.metrics import OfRank
from dali_pipes.monitoring.stats import Stats

_SCOPE = "gpu_aug.loader"
_UNITS = {"seconds": "s", "bytes": "By", "": "1"}
_providers: "WeakKeyDictionary[Any, Latest]" = WeakKeyDictionary()


class OpenTelemetry(OfRank):
    """Counters of one loader, for ``Monitoring(metrics=...)``: ``gpu_aug.loader.samples`` and so on.

    They are observed when the provider's reader exports, and show what the loader reported last.

    Args:
        name: The attribute `loader`; each loader of a process has an object, and a name, of its own.
        provider: A MeterProvider; None is the global one, which must have been set before.
        rank: The attribute `rank`; None is the rank of the loader.

    Raises:
        MissingPackageError: opentelemetry-api is not installed.

    Example:
        >>> from dali_pipes.integrations.metrics import OpenTelemetry
        >>> photos = open_dataset("photos/")
        >>> recipe = Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, monitoring=Monitoring(metrics=OpenTelemetry("train")))
    """

    scope = "run"

    def __init__(
        self, name: str = "train", *, provider: Any = None, rank: int | None = None
    ) -> None:
        provider = _metrics().get_meter_provider() if provider is None else provider
        if provider not in _providers:
            _providers[provider] = Latest()
            _make_instruments(provider, _providers[provider])
        self._name, self.rank, self._latest = name, rank, _providers[provider]
        self._latest.forget(name, rank)  # what an object that was made before has left

    def __call__(self, stats: Stats) -> None:
        """Take the statistics that are exported from now on."""
        self._latest.put(self._name, self.rank or 0, stats)


def _make_instruments(provider: Any, latest: Latest) -> None:
    meter = provider.get_meter(_SCOPE)
    for metric in METRICS:
        counts = metric.kind == "counter"
        make = meter.create_observable_counter if counts else meter.create_observable_gauge
        make(
            f"{_SCOPE}.{metric.name}",
            callbacks=[partial(_observe, metric, latest)],
            unit=_UNITS[metric.unit],
            description=metric.text,
        )


def _observe(metric: Metric, latest: Latest, _options: object) -> Iterable[Any]:
    observation = _metrics().Observation
    return [observation(value, labels) for labels, value in latest.values(metric)]


def _metrics() -> Any:
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise MissingPackageError(
            'OpenTelemetry(...) needs opentelemetry-api: pip install "gpu-aug[opentelemetry]"'
        ) from error
    return metrics
