"""A loader's statistics arrive in Prometheus, TensorBoard, OpenTelemetry and loggers, as their own readers read them."""

import socket
import sys
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_strictly,
)
from prometheus_client.parser import text_string_to_metric_families as parse

from dali_pipes import Every, LoaderError, Monitoring, Stats
from dali_pipes.integrations.metrics import Logged, OpenTelemetry, Prometheus, TensorBoard
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from tests.support.loaders import loader_maker
from tests.support.small import SmallDataset, make_small

RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])
NUM_STEPS = 5
Labels = tuple[tuple[str, str], ...]


@pytest.fixture
def dataset(jpeg: Callable[..., bytes]) -> SmallDataset:
    """Small pictures for five steps; one of them is a PNG in the name of a JPEG's place, and one is bad."""
    made = make_small(jpeg, 4 * NUM_STEPS)
    made.images[3] = b""
    return made


@pytest.fixture
def port() -> int:
    """A free one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


load = loader_maker(RECIPE, on_bad_sample="replace")


def scrape(port: int, accept: str = "text/plain") -> str:
    """What an HTTP server of this machine shows, as Prometheus asks for it."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


def values(text: str) -> dict[str, dict[Labels, float]]:
    """Samples by their full name and their sorted labels."""
    found: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    for family in parse(text):
        for sample in family.samples:
            found[sample.name][tuple(sorted(sample.labels.items()))] = sample.value
    return found


def expected(stats: Stats) -> dict[str, float]:
    """The sums that must have arrived, by the end of their names."""
    return {
        "samples": stats.samples,
        "steps": stats.steps,
        "wait": stats.wait_seconds,
        "loop": stats.seconds,
        "late": sum(stats.late.values()),
        "bad_samples": stats.bad_samples,
        "batches_asked": stats.queue.asked,
        "batches_missing": stats.queue.empty,
        "stage_busy": sum(one.busy_seconds for one in stats.stages.values()),
        "stage_calls": sum(one.calls for one in stats.stages.values()),
        "stage_samples": sum(one.samples for one in stats.stages.values()),
        "stage_processed": sum(one.bytes for one in stats.stages.values()),
        "stage_waits": sum(
            wait.count for one in stats.stages.values() for wait in one.waits.values()
        ),
    }


UNITS = {
    name: "_seconds" if name in ("wait", "loop", "late", "stage_busy") else ""
    for name in ("samples", "steps", "wait", "loop", "late", "bad_samples", "stage_busy")
} | {"stage_processed": "_bytes"}


def test_prometheus(dataset: SmallDataset, port: int) -> None:
    """Two loaders at one port, by real HTTP, in counters that only grow and that the library's parser reads."""
    registry = CollectorRegistry()
    here = {"port": port, "registry": registry}
    train = load(
        dataset, monitoring=Monitoring(metrics=Prometheus("train", host="127.0.0.1", **here))
    )
    val = load(
        dataset, monitoring=Monitoring(metrics=Prometheus("val", rank=3, **here)), batch_size=10
    )
    list(train)
    first = values(scrape(port))
    list(train)
    list(val)
    second = values(scrape(port))
    for name in (name for name in first if name.endswith("_total")):
        for labels, value in first[name].items():
            assert second[name][labels] >= value, name
    for name, value in expected(train.stats("run")).items():
        full = f"gpu_aug_loader_{name}{UNITS.get(name, '')}_total"
        mine = [one for labels, one in second[full].items() if ("loader", "train") in labels]
        assert sum(mine) == pytest.approx(value), name
    of_train, of_val = (("loader", "train"), ("rank", "0")), (("loader", "val"), ("rank", "3"))
    assert second["gpu_aug_loader_steps_total"] == {of_train: 2 * NUM_STEPS, of_val: 2}
    assert second["gpu_aug_loader_epoch"][of_train] == 1


def test_names_of_prometheus(dataset: SmallDataset, port: int) -> None:
    """As its conventions have them: base units in the names, help for each, and OpenMetrics' strict parser agrees."""
    registry = CollectorRegistry()
    list(
        load(
            dataset,
            monitoring=Monitoring(
                metrics=Prometheus(port=port, host="127.0.0.1", registry=registry)
            ),
        )
    )
    families = list(parse_strictly(scrape(port, "application/openmetrics-text; version=1.0.0")))
    assert len(families) > 20
    for family in families:
        assert family.name.startswith("gpu_aug_loader_")
        assert family.documentation.endswith(".")
        assert family.type in ("counter", "gauge")
        if "seconds" in family.name or "bytes" in family.name:
            assert family.unit in ("seconds", "bytes")
            assert family.name.endswith(family.unit)
    [busy] = [one for one in families if one.name == "gpu_aug_loader_stage_busy_seconds"]
    stages = {sample.labels["stage"] for sample in busy.samples}
    assert {"read", "decode", "augment", "hand_over"} <= stages


def test_prometheus_of_one_rank(dataset: SmallDataset) -> None:
    """The rank is the loader's, and an object that is made anew takes the place of the first."""
    registry = CollectorRegistry()
    ranks = {"rank": 1, "world_size": 2, "batch_size": 2}
    for _ in range(2):
        list(load(dataset, monitoring=Monitoring(metrics=Prometheus(registry=registry)), **ranks))
    labels = {"loader": "train", "rank": "1"}
    assert registry.get_sample_value("gpu_aug_loader_steps_total", labels) == NUM_STEPS


def test_a_port_in_use(port: int) -> None:
    """That is said with what to do; nothing would be shown of another registry at a port, so it is refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(
            LoaderError, match=rf"port={port}.* cannot listen there .*; give a free port"
        ):
            Prometheus(port=port, host="127.0.0.1", registry=CollectorRegistry())
    Prometheus(port=port, host="127.0.0.1", registry=CollectorRegistry())
    with pytest.raises(LoaderError, match=rf"port={port} shows another registry"):
        Prometheus(port=port, host="127.0.0.1", registry=CollectorRegistry())


@pytest.mark.parametrize("port", ["9000", 70_000, 0, True])
def test_no_port(port: Any) -> None:
    """Neither is this one."""
    with pytest.raises(LoaderError, match="is not allowed; give an integer from 1 to 65535"):
        Prometheus(port=port, registry=CollectorRegistry())


def test_one_object_for_two_loaders(dataset: SmallDataset) -> None:
    """Counters would go back; it is told, and the first loader's stay."""
    registry = CollectorRegistry()
    both = Prometheus(registry=registry)
    list(load(dataset, monitoring=Monitoring(metrics=both)))
    with pytest.warns(UserWarning, match="make one for each loader, with a name of its own"):
        list(load(dataset, monitoring=Monitoring(metrics=both), batch_size=10))
    labels = {"loader": "train", "rank": "0"}
    assert registry.get_sample_value("gpu_aug_loader_steps_total", labels) == NUM_STEPS


def test_opentelemetry(dataset: SmallDataset) -> None:
    """Its SDK reads the same sums, by loader, with UCUM's units."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    train = load(
        dataset, monitoring=Monitoring(metrics=OpenTelemetry("train", provider=provider, rank=1))
    )
    val = load(
        dataset,
        monitoring=Monitoring(metrics=OpenTelemetry("val", provider=provider)),
        batch_size=10,
    )
    for loader in (train, train, val):
        list(loader)
    (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    assert scope.scope.name == "gpu_aug.loader"
    found = {metric.name.removeprefix("gpu_aug.loader."): metric for metric in scope.metrics}
    for name, value in expected(train.stats("run")).items():
        points = [p for p in found[name].data.data_points if p.attributes["loader"] == "train"]
        assert sum(point.value for point in points) == pytest.approx(value), name
        assert {point.attributes["rank"] for point in points} == {"1"}
        assert found[name].data.is_monotonic
    steps = {p.attributes["loader"]: p.value for p in found["steps"].data.data_points}
    assert steps == {"train": 2 * NUM_STEPS, "val": 2}
    assert {found[name].unit for name in ("wait", "stage_processed", "steps")} == {"s", "By", "1"}
    provider.shutdown()


def test_tensorboard(dataset: SmallDataset, tmp_path: Path) -> None:
    """Its own reader finds rates of the time since the last point, at the loader's steps."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path))  # type: ignore[no-untyped-call]
    seen: list[Stats] = []
    every = [Every(TensorBoard(writer), steps=2), Every(seen.append, steps=2, scope="run")]
    loader = load(dataset, monitoring=Monitoring(metrics=every))
    list(loader)
    writer.close()  # type: ignore[no-untyped-call]
    read = EventAccumulator(str(tmp_path)).Reload()
    rates = read.Scalars("loader/images_per_second")
    between = [seen[0], seen[1] - seen[0], seen[2] - seen[1]]
    assert [point.step for point in rates] == [2, 4, 5]
    expected_rates = [one.samples / (one.start_seconds + one.seconds) for one in between]
    assert [point.value for point in rates] == pytest.approx(expected_rates)
    shares = [point.value for point in read.Scalars("loader/wait_share")]
    assert shares == pytest.approx([one.wait_share for one in between])
    assert "loader/busy/decode" in read.Tags()["scalars"]


def test_tensorboard_at_other_steps(dataset: SmallDataset) -> None:
    """The user's own count of steps, and a name."""
    writer = Mock()
    list(load(dataset, monitoring=Monitoring(metrics=TensorBoard(writer, "val", step=lambda: 700))))
    points = [(call.args[0], call.args[2]) for call in writer.add_scalar.call_args_list]
    assert ("val/images_per_second", 700) in points
    assert {step for _, step in points} == {700}


@pytest.mark.parametrize("kind", ["object", "function"])
def test_logged(dataset: SmallDataset, kind: str) -> None:
    """A dictionary of plain numbers reaches an object with `log`, or a function."""
    log = Mock(spec=["log"] if kind == "object" else None)
    loader = load(
        dataset,
        monitoring=Monitoring(
            metrics=Logged(log if kind == "object" else lambda given: log.log(given))
        ),
    )
    list(loader)
    [[only]] = [call.args for call in log.log.call_args_list]
    stats = loader.stats()
    seconds = stats.start_seconds + stats.seconds  # in which all of it was done
    assert only["loader/images_per_second"] == stats.samples / seconds
    assert only["loader/bad_samples"] == 1.0
    assert only["loader/busy/decode"] == stats.stages["decode"].busy_seconds / seconds
    assert all(type(value) is float for value in only.values())


@pytest.mark.parametrize("adapter", [TensorBoard, Logged])
def test_not_what_it_needs(adapter: Any) -> None:
    """It is refused when the adapter is made."""
    with pytest.raises(LoaderError, match=r"=3\) has no "):
        adapter(3)


@pytest.mark.parametrize(
    ("adapter", "package", "extra"),
    [
        (Prometheus, "prometheus_client", "prometheus"),
        (OpenTelemetry, "opentelemetry.metrics", "opentelemetry"),
    ],
)
def test_a_missing_package(
    monkeypatch: pytest.MonkeyPatch, adapter: Any, package: str, extra: str
) -> None:
    """The error says how to install it."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install \"gpu-aug\[{extra}\]\""):
        adapter()
