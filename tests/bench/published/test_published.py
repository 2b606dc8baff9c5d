"""`gpu-aug bench published`: the list of benchmarks, and what every result holds."""

import json
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest

from bench.baselines.peers.catalog import PEERS
from bench.micro.rows import Row, Task, contestants_of
from bench.published import published
from bench.published.published import PUBLISHED, Published
from tests.support.commands import Run


def _rows(task: Task) -> Iterator[Row]:
    def missing() -> None:
        raise ImportError("needs the library no-such-library: pip install no-such-library")

    assert Path(task.source).is_dir()
    works: Any = {"ours": lambda: lambda: None, "theirs": missing}
    yield Row("an image", contestants_of(works, 1))


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark "made-up", of which one contestant is missing."""
    one = Published("made-up", "module", "A paper, 2026", 3, "It differs.", ("numpy", "no-such"))
    module = SimpleNamespace(MEANING="Time per image.", rows=_rows)
    monkeypatch.setattr(published, "PUBLISHED", {"made-up": one})
    monkeypatch.setattr(published, "resolve_name", lambda _: module)


@pytest.mark.usefixtures("made_up")
def test_results_hold_their_origin(run: Run, photos: list[Path], tmp_path: Path) -> None:
    """The text and the file hold source, protocol, versions and machine, and name a missing contestant."""
    path = tmp_path / "result.json"
    code, said, _ = run(
        "bench", "published", "made-up", photos[0].parent, "--quick", "--json", path
    )

    written = json.loads(path.read_text())
    assert code == 0
    assert (written["source"], written["protocol"]) == ("A paper, 2026", 3)
    assert written["contestants"] == {
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
    }
    assert written["machine"]["cores"]
    assert list(written["rows"][0]["measured"]) == ["ours"]
    for part in ("A paper, 2026", "It differs.", "protocol: 3", "machine: ", "no-such-library"):
        assert part in said


@pytest.mark.usefixtures("made_up")
def test_an_unknown_name_is_refused(run: Run) -> None:
    code, _, error = run("bench", "published", "imred")

    assert code == 2
    assert "NAME must be one of made-up, got 'imred'" in error


def test_data_are_refused_where_images_are_random(run: Run) -> None:
    code, _, error = run("bench", "published", "kornia-ops", "photos")

    assert code == 2
    assert "kornia-ops takes no DATA, because its images are random, got photos" in error


@pytest.mark.parametrize("one", PUBLISHED.values(), ids=PUBLISHED)
def test_every_benchmark_has_its_module_peers_and_help(one: Published, run: Run) -> None:
    module = resolve_name(one.module)

    assert module.MEANING
    assert callable(module.rows)
    assert {*one.peers} <= {*PEERS}
    assert f" {one.name}: " in run("bench", "published", "--help")[1]
