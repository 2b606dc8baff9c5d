"""`gpu-aug bench read`: every reader gets the same samples, in a process of its own, and ratios are those of rounds."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.output.errors import BenchError
from bench.reading import read, ways
from bench.reading.read import ReadSettings, read_and_show
from bench.reading.result import Entry, Result, ratios_of
from bench.reading.ways import Task
from bench.timing import Measurement, Turn

SMALL = ReadSettings(
    seconds=0.2, rounds=2, cold_rounds=1, batch_size=4, num_threads=1, size_bytes=25_000
)


@pytest.fixture
def folder(tmp_path: Path, jpeg: Callable[..., bytes]) -> Path:
    """Twenty-five images, two classes."""
    for number in range(25):
        path = tmp_path / "data" / f"class-{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(30, 40, seed=number))
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("copy", "library"),
    [
        ("files", "numpy"),
        pytest.param("tar", "webdataset", marks=pytest.mark.long),
        ("parquet", "pyarrow"),
        ("arrow", "datasets"),
        ("lmdb", "lmdb"),
        ("hdf5", "h5py"),
        ("tfrecord", "tfrecord"),
        ("array_record", "array_record"),
    ],
)
def test_ours_reads_every_copy(folder: Path, tmp_path: Path, copy: str, library: str) -> None:
    """An epoch of each format holds the samples of the data, each once, in another order."""
    pytest.importorskip(library)
    images = read._images(str(folder), 10_000_000)[:25]
    result = Result(25, 0)
    (tmp_path / "copies").mkdir()
    settings = ReadSettings(only=(copy,))
    copies = read._make_copies(images, settings, tmp_path / "copies", result, lambda _: None)
    batches = ways.ours(Task(copies[copy], batch_size=5, num_threads=1, seed=0))
    epoch = [bytes(image) for _ in range(5) for image in next(batches)]

    assert result.absent == {}
    assert sorted(epoch) == sorted(image.data for image in images)
    assert epoch != [image.data for image in images]


def test_a_run_names_whoever_cannot_take_part(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One that is not installed and one that fails are named; the others have warm and cold rates."""
    entries = (Entry("files", "ours"), Entry("files", "no_way"), Entry("files", "ours", "litdata"))
    monkeypatch.setattr("bench.baselines.peers.catalog.ENVIRONMENTS", tmp_path / "none")
    monkeypatch.setattr(read, "ENTRIES", entries[:2])
    read_and_show(str(folder), SMALL, json_path=tmp_path / "read.json")
    [row] = json.loads((tmp_path / "read.json").read_text())["rows"]
    printed = capsys.readouterr().out

    assert len(row["warm"]["gpu-aug, files"]) == 2
    assert len(row["cold"]["gpu-aug, files"]) == 1
    assert all(min(rates) > 0 for rates in row["warm"]["gpu-aug, files"])
    assert row["absent"] == {"no_way (files)": "its process ended with 1: KeyError: 'no_way'"}
    assert "absent: no_way (files): its process ended with 1" in printed

    monkeypatch.setattr(read, "ENTRIES", entries[2:])
    with pytest.raises(BenchError, match="two batches need 512"):
        read_and_show(str(folder), ReadSettings(size_bytes=25_000), json_path=None)
    assert "not installed" in read_and_show(str(folder), SMALL, json_path=None).absent.popitem()[1]


def test_cold_rounds_need_a_page_cache_that_can_be_emptied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system has no such call, as on macOS, this is said before anything is measured."""
    monkeypatch.delattr("os.posix_fadvise")
    with pytest.raises(BenchError, match="add --cold-rounds 0"):
        read_and_show(str(folder), SMALL, json_path=None)


def test_ratios_are_medians_over_rounds() -> None:
    """Of the ratio within each round, not of the rates; to the fastest of the same format, and of all."""

    def measured(rate: int) -> Measurement:
        return Measurement(tuple(Turn(rate * noise, 1.0) for noise in (3, 1, 8)))

    rates = {"gpu-aug, tar": 300, "webdataset (tar)": 100, "lmdb_get (lmdb)": 150}

    assert ratios_of({name: measured(rate) for name, rate in rates.items()}) == {
        "gpu-aug, tar": {"own": 3.0, "fastest_own": "webdataset (tar)", "all": 2.0}
    }
