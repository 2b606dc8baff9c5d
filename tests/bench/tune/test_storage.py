"""What storage gives alone: reads that are cold, reads that are warm, and what is said of both."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.tune.facts import look_at_facts
from bench.tune.facts_place import Place, place_of
from bench.tune.storage import StorageCeiling
from bench.tune.storage_cold import chill_of, drop_pages, is_cached
from bench.tune.storage_measure import measure_storage
from bench.tune.storage_read import read_for
from readers import open_dataset
from tests.support.bottlenecks import photograph, slow_storage, small_photographs
from tests.support.ceilings import reading, storage
from tests.support.remote_data import set_up
from tests.support.s3_server import storage as served

LOCAL = Place("local disk", "ext4 on /", 10**10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve files of one picture."""
    data = photograph(120, 160)
    for number in range(12):
        (tmp_path / f"{number:02d}.jpg").write_bytes(data)
    return tmp_path


def test_the_system_is_told_to_take_files_out_of_its_cache(folder, monkeypatch):
    """Once they are on the disk, and what is read again is cached again; a busy system may keep them all the same."""
    path, told = folder / "00.jpg", []
    monkeypatch.setattr(os, "fdatasync", lambda _: told.append("written"))
    monkeypatch.setattr(os, "posix_fadvise", lambda *asked: told.append(asked[1:]))
    drop_pages([path, folder / "gone.jpg"], written=False)
    drop_pages([path])
    path.read_bytes()
    assert told == ["written", *[(0, 0, os.POSIX_FADV_DONTNEED)] * 2]
    assert is_cached(path) in (True, None)  # None: a file system that does not tell


def test_cold_reads_of_files_are_cold_every_time(folder, monkeypatch):
    """Every sample has its own file, and each turn begins with all of them taken out of the cache."""
    taken: list[Path] = []
    dataset = open_dataset(folder)
    chill = chill_of(LOCAL, str(folder), [sample.key for sample in dataset.fetch(range(12))])
    assert chill.one_file_each
    assert len(chill.files) == 12
    chill = replace(chill, possible=True)  # which a busy system denies now and then
    monkeypatch.setattr("bench.tune.storage_cold.drop_pages", taken.extend)
    for turn in range(2):
        with chill.fresh():
            assert taken == [*chill.files] * (turn + 1)
            assert (
                read_for(dataset, np.arange(12), request=4, in_flight=2, seconds=60).samples == 12
            )


def test_what_cannot_be_made_cold_is_said(folder, monkeypatch):
    """Data in memory, data without a path, and a system that does not let files be taken out of its cache."""
    assert "the data lie in memory" in chill_of(Place("memory", "tmpfs on /x", 1), "/x", []).note
    assert "the data have no path that is known" in chill_of(Place("unknown", "", 1), None, []).note
    nowhere = chill_of(LOCAL, str(folder / "nowhere" / "*.tar"), ["a"])
    assert (nowhere.possible, nowhere.files) == (False, ())
    (folder / "list.txt").write_text("elsewhere/photo.jpg 1\n")
    listed = chill_of(LOCAL, str(folder / "list.txt"), ["elsewhere/photo.jpg"], 10**6)
    assert "does not tell which files hold the samples" in listed.note
    beside = chill_of(LOCAL, str(folder / "list.txt"), ["03.jpg"], 10**6)
    assert beside.files == (folder / "03.jpg",)
    monkeypatch.delattr(os, "posix_fadvise")
    chill = chill_of(LOCAL, str(folder), ["00.jpg"])
    assert not chill.possible
    assert "this system does not let" in chill.note


def test_reading_counts_what_came(folder):
    """Each row once, whole requests, bytes as the files have them, and a sentence for what did not come."""
    dataset = open_dataset(folder)
    found = read_for(dataset, np.arange(12), request=5, in_flight=3, seconds=60)
    assert sorted(found.rows) == list(range(10))  # two would be no whole request
    assert found.num_bytes == 10 * (folder / "00.jpg").stat().st_size
    assert len(found.fetches) == 2
    assert found.seconds > 0
    once = read_for(dataset, np.arange(12), request=3, in_flight=1, seconds=0)
    assert once.rows == [0, 1, 2]


def test_storage_of_a_folder(folder, monkeypatch):
    """Cold and warm are told apart, single files from one large file."""
    # A busy system keeps some files all the same.
    monkeypatch.setattr("bench.tune.storage_cold._share_gone", lambda _: 1.0)
    dataset = open_dataset(folder)
    facts, _ = look_at_facts(dataset, source=str(folder))
    found = measure_storage(dataset, facts, source=str(folder), batch_size=2, seconds=0.5)
    temperatures = {rate.temperature for rate in found.rates}
    assert temperatures == ({"cold", "warm"} if facts.place.kind == "local disk" else {"warm"})
    assert {rate.in_flight for rate in found.of("warm")} >= {1}
    assert all(rate.sample_bytes == (folder / "00.jpg").stat().st_size for rate in found.rates)
    assert found.one_file_each == (facts.place.kind == "local disk")
    assert found.sequential is None or not found.one_file_each
    assert (found.big_bytes_per_second is None) == bool(found.note_big)


def test_a_server_that_gives_so_many_bytes_per_second(tmp_path, monkeypatch):
    """It is what storage then gives cold, at most, however many fetches are in flight; warm is many times as fast."""
    set_up(monkeypatch, tmp_path)
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    path = small_photographs(tmp_path / "data", 96)
    with slow_storage(tmp_path / "data", bytes_per_second=4e6) as url:
        source = f"{url}/{path.name}"
        dataset = open_dataset(source, block_bytes=1 << 16)
        facts, _ = look_at_facts(dataset, source=source, seconds=0)
        kept = sorted((tmp_path / "cache").rglob("*"))
        found = measure_storage(dataset, facts, source=source, batch_size=16, seconds=2)
        assert sorted((tmp_path / "cache").rglob("*")) == kept
    cold, warm = found.best("cold"), found.best("warm")
    assert cold is not None
    assert warm is not None
    # Blocks of 64 KiB hold three samples each; the server sends 32 KiB at a time.
    assert 1 < cold.megabytes_per_second < 5
    assert "times its bytes, in whole blocks" in found.note
    assert warm.megabytes_per_second > 3 * cold.megabytes_per_second
    assert facts.place.kind == "remote"
    assert "what http://127.0.0.1" in found.note
    assert not found.one_file_each


def test_cold_remote_reads_go_to_the_server_every_time(tmp_path, monkeypatch):
    """And warm ones never do: the server counts."""
    set_up(monkeypatch, tmp_path)
    path = small_photographs(tmp_path / "data", 8)
    with served(tmp_path / "data") as server:
        source = f"{server.url}/{path.name}"
        dataset = open_dataset(source)
        dataset.fetch(range(8))
        chill = chill_of(place_of(source), source, [])
        counts = []
        for _ in range(2):
            with chill.fresh():
                for _ in range(2):
                    server.count()
                    read_for(dataset, np.arange(8), request=8, in_flight=1, seconds=60)
                    counts.append(server.count()["bytes"])
        assert counts[0] == counts[2] > 0
        assert counts[1] == counts[3] == 0
        server.count()
        dataset.fetch(range(8))
        assert server.count()["bytes"] == 0  # the user's own cache is as it was


def test_the_fastest_with_so_many_in_flight():
    """No more than were asked for, and only what was measured."""
    found: StorageCeiling = storage(reading("cold", {1: 10.0, 2: 20.0, 4: 15.0, 8: 80.0}))
    at = {count: found.at("cold", count) for count in (0, 1, 3, 4, 16)}
    rates = {count: one and one.samples_per_second for count, one in at.items()}
    assert rates == {0: 10, 1: 10, 3: 20, 4: 20, 16: 80}
    assert found.at("warm", 4) is None
    assert [found.grows("cold", count) for count in (1, 4, 8)] == [True, True, False]
