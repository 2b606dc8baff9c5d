"""`gpu-aug bench read`: every reader gets the same samples, in a process of its own, and ratios are those of rounds."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.baselines.peers.far import PeerError
from bench.output.errors import BenchError
from bench.reading import read
from bench.reading import ways as read_ways
from bench.reading.read import ReadSettings, read_and_show
from bench.reading.result import Entry, ratios
from bench.reading.ways import Task


@pytest.fixture
def folder(tmp_path: Path, jpeg: Callable[..., bytes]) -> Path:
    """Twenty-five images, two classes."""
    for number in range(25):
        path = tmp_path / "data" / f"class-{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(30, 40, seed=number))
    return tmp_path / "data"


@pytest.mark.parametrize(
    "copy",
    [
        "files",
        pytest.param("tar", marks=pytest.mark.long),
        "parquet",
        "arrow",
        "lmdb",
        "hdf5",
        "tfrecord",
    ],
)
def test_ours_reads_every_copy(folder: Path, tmp_path: Path, copy: str) -> None:
    """An epoch of each format holds the samples of the data, each once."""
    if copy not in ("files", "tar"):
        pytest.importorskip(
            {"arrow": "datasets", "hdf5": "h5py", "parquet": "pyarrow"}.get(copy, copy)
        )
    settings = ReadSettings(size_bytes=10**9, only=(copy,))
    images = read._images(str(folder), 10_000_000)[:25]
    result = read.Result(25, 0)
    (tmp_path / "copies").mkdir()
    copies = read._make_copies(images, settings, tmp_path / "copies", result, lambda _: None)
    batches = read_ways.ours(Task(copies[copy], batch_size=5, num_threads=1, seed=0))
    epoch = [bytes(image) for _ in range(5) for image in next(batches)]

    assert result.absent == {}
    assert sorted(epoch) == sorted(image.data for image in images)
    assert epoch != [image.data for image in images]


def test_a_run(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Warm and cold rates of all readers are printed and written, and who cannot is named."""
    entries = (Entry("tar", "ours"), Entry("tar", "ours", "no-such-peer"))
    monkeypatch.setattr(read, "ENTRIES", (entries[0],))
    monkeypatch.setitem(read._WRITERS, "tar", "")
    settings = ReadSettings(
        seconds=0.2, rounds=2, cold_rounds=1, batch_size=4, num_threads=1, size_bytes=10**6
    )
    result = read_and_show(str(folder), settings, json_path=tmp_path / "read.json")
    written = json.loads((tmp_path / "read.json").read_text())
    printed = capsys.readouterr().out

    assert len(result.warm["gpu-aug, tar"]) == 2
    assert len(result.cold["gpu-aug, tar"]) == 1
    assert all(rate > 0 for rate, _ in result.warm["gpu-aug, tar"])
    assert "gpu-aug, tar" in printed
    assert written["settings"]["rounds"] == 2
    with pytest.raises(PeerError, match="not installed"):
        read.Reader(entries[1], tmp_path, settings)


def test_too_little_data_is_refused(folder: Path) -> None:
    """Two batches are the least."""
    with pytest.raises(BenchError, match="two batches need 512"):
        read_and_show(str(folder), ReadSettings(size_bytes=25_000), json_path=None)


def test_cold_rounds_need_a_page_cache_that_can_be_emptied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system has no such call, as on macOS, it is said before anything is measured."""
    monkeypatch.delattr("os.posix_fadvise")
    settings = ReadSettings(batch_size=4, cold_rounds=2, size_bytes=25_000)
    with pytest.raises(BenchError, match="add --cold-rounds 0"):
        read_and_show(str(folder), settings, json_path=None)


def test_ratios_are_medians_over_rounds() -> None:
    """Of the ratio within each round, not of the rates; to the fastest of the same format, and of all."""
    rounds = random.Random(0).choices(range(1, 9), k=5)
    turns = {
        "gpu-aug, tar": [(300.0 * noise, 1.0) for noise in rounds],
        "webdataset (tar)": [(100.0 * noise, 1.0) for noise in rounds],
        "lmdb_get (lmdb)": [(150.0 * noise, 1.0) for noise in rounds],
    }

    assert ratios(turns) == {"gpu-aug, tar": (3.0, "webdataset (tar)", 2.0)}
