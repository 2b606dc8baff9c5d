"""Export a loader's counters as OpenTelemetry instruments."""

from collections.abc import Iterable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from dali_pipes.errors import import_optional
from dali_pipes.integrations.metrics.counters import METRICS, Counters, Latest, Metric

_SCOPE = "gpu_aug.loader"
_UNITS = {"seconds": "s", "bytes": "By", "": "1"}  # UCUM codes, as OpenTelemetry requires
_providers: "WeakKeyDictionary[Any, Latest]" = WeakKeyDictionary()


class OpenTelemetry(Counters):
    """Exports the counters of one loader, for ``Monitoring(metrics=...)``: ``gpu_aug.loader.samples`` and so on.

    The provider's reader collects the counters when it exports; their values are those of the loader's latest report.

    Args:
        name: Value of the attribute `loader`; each loader of a process needs its own adapter and name.
        provider: A MeterProvider; None uses the global one, which must have been set before.
        rank: Value of the attribute `rank`; None uses the rank of the loader.

    Raises:
        MissingPackageError: opentelemetry-api is not installed.

    Example:
        >>> from dali_pipes.integrations.metrics import OpenTelemetry
        >>> photos = open_dataset("photos/")
        >>> recipe = Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, monitoring=Monitoring(metrics=OpenTelemetry("train")))
    """

    def __init__(
        self, name: str = "train", *, provider: Any = None, rank: int | None = None
    ) -> None:
        provider = _metrics().get_meter_provider() if provider is None else provider
        if provider not in _providers:
            _providers[provider] = Latest()
            _make_instruments(provider, _providers[provider])
        super().__init__(_providers[provider], name, rank)


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
    return import_optional(
        "opentelemetry.metrics",
        'OpenTelemetry(...) needs opentelemetry-api: pip install "gpu-aug[opentelemetry]"',
    )
