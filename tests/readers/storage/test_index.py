import os
import resource
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import pytest

from readers import IndexFileError, SourceError
from readers.sample import BadSample, Payload
from readers.storage.atomic_file import build_once
from readers.storage.blob import Content, LocalBlob
from readers.storage.blob.content_hash import pin_content
from readers.storage.blob.file import FileState
from readers.storage.index import Entry, FoundIndex, Scan, open_index
from readers.storage.index.index_file import BEFORE_TEXT, PREFIX
from readers.storage.shards import ShardDataset
from readers.storage.side_file import DamagedFileError
from tests.support.damage import flip, overwrite
from tests.support.forks import forks
from tests.support.index_entries import entry_of

ENTRIES = [
    Entry("a", (("jpg", 512, 1000), ("cls", 1536, 1537)), 7, (30, 40)),
    Entry("folder/ü-\udcff", (("txt", 2048, 2048),)),
    Entry("broken", (), fault="cut off at byte 5"),
    Entry("", (("jpg", 2**40, 2**41),), 10**17, (2**32 - 1, 1)),
    Entry("named", (("a", 1, 2), ("b", 5, 7)), image_field="b"),
]


def all_entries(content: Content, name: str) -> Sequence[Entry]:  # noqa: ARG001
    """Return the entries, whatever the shard."""
    return ENTRIES


@dataclass(frozen=True)
class Tenths:
    """Finds samples of ten bytes under the name of a field."""

    field: str = "txt"

    def __call__(self, content: Content, name: str) -> Iterator[Entry]:  # noqa: ARG002
        """Cut the content into pieces."""
        for start in range(0, len(content), 10):
            yield Entry(str(start), ((self.field, start, start + 10),), start)


def tenths(field: str | None = None) -> Scan:
    """A scan with an option."""
    return Scan("tenths", 1, Tenths(field or "txt"), {"field": field})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, which does not exist yet."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache" / "deep"))
    return tmp_path / "cache" / "deep"


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    """A file that stands for a shard: most scans of these tests do not look into it."""
    path = tmp_path / "data" / "train.tar"
    path.parent.mkdir()
    path.write_bytes(bytes(range(200)))
    return path


@pytest.fixture
def lonely_shard(tmp_path: Path) -> Path:
    """A shard that no file can be put beside, not even by root: the name would be too long."""
    path = tmp_path / "data" / ("x" * 246 + ".tar")
    path.parent.mkdir()
    path.write_bytes(b"content")
    return path


def beside(shard: Path) -> Path:
    return shard.with_name(f"{shard.name}.gpuaug-index")


def scan_of(entries: Sequence[Entry]) -> Scan:
    return Scan("any", 1, lambda _, __: entries)


ANY = Scan("any", 1, all_entries)


def find(shard: Path, scan: Scan = ANY) -> FoundIndex:
    """Open the index of a shard; its `built` says whether the shard was scanned for it."""
    return open_index(LocalBlob(shard), scan)


def without_stamp(index: Path) -> bytes:
    data = index.read_bytes()
    return data[: PREFIX.size] + data[BEFORE_TEXT:]


@pytest.fixture
def pins(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shards whose content was looked at to see whether an index fits."""
    found: list[str] = []

    def pin(blob: LocalBlob) -> str:
        found.append(blob.name)
        return pin_content(blob)

    monkeypatch.setattr("readers.storage.index.find_or_build.pin_content", pin)
    return found


def entries_of(found: FoundIndex) -> list[Entry]:
    index = found.map()
    return [entry_of(index, row) for row in range(len(index))]


@pytest.fixture
def copied(shard: Path, tmp_path: Path) -> Callable[[], Path]:
    """Indexes the shard, copies its folder, and returns where the copy of the shard lies."""

    def copy() -> Path:
        find(shard)
        return Path(shutil.copytree(shard.parent, tmp_path / "there")) / shard.name

    return copy


def change_byte(path: Path, place: int) -> None:
    """Change a byte of a file whose bytes there are not 255."""
    overwrite(path, place, b"\xff")


def test_entries_come_back_without_another_scan(shard: Path) -> None:
    """What was scanned is what the index beside the shard says; nothing else is left in the folder."""
    built, read = find(shard), find(shard)

    assert (entries_of(built), entries_of(read)) == (ENTRIES, ENTRIES)
    assert (read.head.mark, built.built, read.built) == (built.head.mark, True, False)
    assert sorted(shard.parent.iterdir()) == [shard, beside(shard)]


@pytest.mark.parametrize("change", ["size", "time", "first byte", "last byte"])
def test_changed_shard_is_scanned_again(shard: Path, change: str) -> None:
    """Another size, another time of change, earlier or later, and other bytes make an index void."""
    find(shard)
    before = shard.stat().st_mtime_ns
    place = {"size": 200, "first byte": 0, "last byte": 199}
    if change in place:
        change_byte(shard, place[change])
    # Of a time before the index was written, but not the one that is noted in it.
    after = beside(shard).stat().st_mtime_ns + 1 if change == "time" else before - 1
    os.utime(shard, ns=(after, after))

    assert find(shard).built
    assert not find(shard).built


@pytest.mark.parametrize("way", ["replaced", "written over"])
@pytest.mark.parametrize("settled", [False, True])
def test_size_and_time_alone_do_not_make_an_index_fit(shard: Path, way: str, settled: bool) -> None:
    """Where all files have the same time, as in reproducible builds."""
    os.utime(shard, (0, 0))
    if settled:
        time.sleep(0.15)
    assert find(shard).built
    target = shard.with_name("other.tar") if way == "replaced" else shard
    target.write_bytes(bytes(range(200, 0, -1)))
    target.replace(shard)
    os.utime(shard, (0, 0))

    assert find(shard).built
    assert not find(shard).built


@pytest.mark.parametrize("size_bytes", [1_000, 3_000_000])
def test_another_shard_that_was_made_before_the_index_is_scanned(
    shard: Path, size_bytes: int
) -> None:
    """One byte in the middle is other, and it is moved into place later."""
    shard.write_bytes(bytes(size_bytes))
    other = shard.with_name("other.tar")
    time.sleep(0.02)
    shutil.copyfile(shard, other)
    change_byte(other, size_bytes // 2 + 100_000 * (size_bytes > 1_000))
    time.sleep(0.02)
    find(shard)
    other.replace(shard)

    assert find(shard).built


def test_the_very_same_file_is_not_looked_into(
    shard: Path, copied: Callable[[], Path], pins: list[str]
) -> None:
    """After other rights, another name or a copy the content is looked at, and then no more."""
    time.sleep(0.15)
    find(shard)
    pins.clear()
    there = copied()
    assert len(pins) == 0

    written = beside(shard).stat().st_mtime_ns
    for path in (shard, there):
        path.chmod(0o600)
        time.sleep(0.15)
        pins.clear()
        assert not any(find(path).built for _ in range(3))
        assert len(pins) == 1, path
        assert beside(path).stat().st_mtime_ns == written


def test_a_changed_copy_is_scanned(shard: Path, copied: Callable[[], Path]) -> None:
    """A copy of the index does not hide that a byte of the shard is other, though its time is early."""
    shard.write_bytes(bytes(1_000_000))
    there = copied()
    change_byte(there, 500_000)
    os.utime(there, (1, 1))

    assert find(there).built


def test_a_copy_that_was_changed_after_its_index_is_scanned(
    shard: Path, copied: Callable[[], Path]
) -> None:
    """Also where the change touches no piece of the content that is looked at."""
    shard.write_bytes(bytes(3_000_000))
    there = copied()
    time.sleep(0.02)
    change_byte(there, 100_000)

    assert find(there).built


@pytest.mark.parametrize("clock", ["whole seconds", "coarse"])
def test_a_time_that_tells_nothing_is_not_trusted(
    shard: Path, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times of file systems without fine ones, and of a change within one step of the clock."""
    now = 1_000_000_000 if clock == "whole seconds" else time.time_ns() | 1
    monkeypatch.setattr(
        "readers.storage.blob.file._state", lambda status: FileState(status.st_size, now, now, 5)
    )
    find(shard)
    shard.write_bytes(bytes(200))

    assert find(shard).built


def test_a_damaged_stamp_costs_a_look_at_the_content(shard: Path, pins: list[str]) -> None:
    """And is written anew."""
    time.sleep(0.15)
    find(shard)
    intact = beside(shard).read_bytes()
    for place in range(PREFIX.size, BEFORE_TEXT):
        flip(beside(shard), place, 1)
        pins.clear()

        assert not any(find(shard).built for _ in range(2))
        assert (len(pins), beside(shard).read_bytes()) == (1, intact)


def test_an_index_that_cannot_be_stamped_is_used(
    copied: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that was copied and is read-only."""
    there = copied()

    refuse = Mock(side_effect=PermissionError)
    monkeypatch.setattr("readers.storage.index.find_or_build.write_stamp", refuse)

    assert not any(find(there).built for _ in range(2))


def test_an_index_goes_with_a_copy(copied: Callable[[], Path]) -> None:
    """Shard and index that are copied together fit each other, though the times are new."""
    there = copied()
    beside(there).touch()
    os.utime(there, (1, 1))
    found = find(there)

    assert (entries_of(found), found.built) == (ENTRIES, False)


@dataclass
class FakeBlob:
    """An object in a store, which has no time of change."""

    location: str
    data: bytes
    stamp: str = '"etag"'
    num_reads: int = 0

    @property
    def name(self) -> str:
        """Its last part."""
        return self.location.rpartition("/")[2]

    @property
    def size_bytes(self) -> int:
        """Its length."""
        return len(self.data)

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Payload]:
        """Count, and read."""
        self.num_reads += 1
        return [self.data[start:stop] for start, stop in ranges]

    def content(self) -> Content:
        """All of it."""
        return self.data


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeBlob]:
    """Objects by URL, as `open_blob` finds them."""
    objects: dict[str, FakeBlob] = {}

    def open_fake(url: str) -> FakeBlob | LocalBlob:
        if "://" not in str(url):
            return LocalBlob(url)
        if url not in objects:
            raise SourceError(f"{url} is not there")
        return objects[url]

    monkeypatch.setattr("readers.storage.index.find_or_build.open_blob", open_fake)
    monkeypatch.setattr("readers.storage.parallel_open.open_blob", open_fake)
    return objects


URL = "s3://bucket/train.tar"


def test_an_index_that_was_uploaded_is_used(shard: Path, store: dict[str, FakeBlob]) -> None:
    """What was built beside a shard fits the object that the shard became, and is fetched once."""
    find(shard, tenths())
    store[URL] = FakeBlob(URL, shard.read_bytes())
    store[f"{URL}.gpuaug-index"] = FakeBlob(f"{URL}.gpuaug-index", beside(shard).read_bytes())
    local = ShardDataset([shard], tenths())
    remote = ShardDataset([URL], tenths())
    reads = store[f"{URL}.gpuaug-index"].num_reads
    sampled = store[URL].num_reads
    again = ShardDataset([URL], tenths())

    assert remote.fingerprint == local.fingerprint == again.fingerprint
    assert [s.fields["txt"] for s in remote.fetch([3, 0])] == [
        bytes(range(30, 40)),
        bytes(range(10)),
    ]
    assert store[f"{URL}.gpuaug-index"].num_reads == reads > 0
    assert store[URL].num_reads == sampled + 1  # the fetch


@pytest.mark.parametrize("change", ["other bytes", "other size", "damaged index", "no index"])
def test_an_index_that_does_not_fit_an_object_is_built_anew(
    shard: Path, store: dict[str, FakeBlob], cache: Path, change: str
) -> None:
    """The new one lies in the cache folder."""
    find(shard, tenths())
    data, index = shard.read_bytes(), beside(shard).read_bytes()
    cases = {
        "other bytes": (b"\xff" + data[1:], index),
        "other size": (data + bytes(10), index),
        "damaged index": (data, index[:-1] + b"?"),
    }
    data, index = cases.get(change, (data, index))
    store[URL] = FakeBlob(URL, data)
    if change != "no index":
        store[f"{URL}.gpuaug-index"] = FakeBlob(f"{URL}.gpuaug-index", index)
    found = open_index(store[URL], ANY if change == "no index" else tenths())

    assert found.built
    assert found.path.parent == cache


def test_a_replaced_object_has_another_index(store: dict[str, FakeBlob]) -> None:
    """The index in the cache belongs to one ETag."""
    built = []
    for stamp in ('"etag"', '"etag"', '"other"'):
        store[URL] = FakeBlob(URL, b"content", stamp)
        built.append(open_index(store[URL], ANY).built)

    assert built == [True, False, True]


def test_options_of_a_scan_have_indexes_of_their_own(shard: Path) -> None:
    """Two datasets that read a shard in different ways do not take each other's index away."""
    assert find(shard, tenths()).built
    assert find(shard, tenths("jpg")).built
    assert not find(shard, tenths()).built
    assert not find(shard, tenths("jpg")).built
    assert entry_of(find(shard, tenths("jpg")).map(), 1).members == (("jpg", 10, 20),)
    assert len(list(shard.parent.iterdir())) == 3


@pytest.mark.parametrize("other", [Scan("any", 2, Tenths()), Scan("other", 1, Tenths())])
def test_an_index_of_other_rules_is_made_anew(shard: Path, other: Scan) -> None:
    """Another version and another format take no index that is not theirs, and leave one behind that is."""
    find(shard, Scan("any", 1, Tenths("jpg")))

    assert find(shard, other).built
    assert not find(shard, other).built
    assert entry_of(find(shard, other).map(), 1).members == (("txt", 10, 20),)


def test_the_code_that_scans_is_no_part_of_an_index(shard: Path) -> None:
    """It may be renamed and moved: an index that is there is taken."""
    find(shard, tenths())

    assert not find(shard, Scan("tenths", 1, all_entries)).built


def test_a_damaged_head_leads_to_a_new_scan(shard: Path) -> None:
    """A flipped bit before the tables, and a lost end, are seen when it is opened."""
    start = find(shard).head.start
    intact, expected = beside(shard).read_bytes(), without_stamp(beside(shard))
    damaged = [intact[:length] for length in (0, 10, 24, 100, len(intact) - 1)]
    for place in (*range(28), *range(BEFORE_TEXT, start, 7)):
        damaged.append(intact[:place] + bytes([intact[place] ^ 1]) + intact[place + 1 :])
    for content in damaged:
        beside(shard).write_bytes(content)
        found = find(shard)

        assert (entries_of(found), found.built) == (ENTRIES, True)
        assert without_stamp(beside(shard)) == expected


def test_a_damaged_table_is_seen_when_it_is_used(shard: Path) -> None:
    """A flipped bit behind the head is no row, no key and no label, but an error."""
    start = find(shard).head.start
    intact = beside(shard).read_bytes()
    for place in range(start, len(intact), 5):
        beside(shard).write_bytes(intact)
        flip(beside(shard), place, 1)
        index = find(shard).map()

        with pytest.raises(DamagedFileError):
            entry_of(index, 0)
        with pytest.raises(DamagedFileError):
            index.column("label")


def test_a_dataset_builds_a_damaged_index_anew(shard: Path) -> None:
    """In the midst of its work, without a word."""
    ShardDataset([shard], tenths())
    intact, expected = beside(shard).read_bytes(), without_stamp(beside(shard))
    beside(shard).write_bytes(intact[:-1] + b"?")
    dataset = ShardDataset([shard], tenths())
    (sample,) = dataset.fetch([7])

    assert (sample.fields["txt"], without_stamp(beside(shard))) == (bytes(range(70, 80)), expected)

    dataset = ShardDataset([shard], tenths())
    beside(shard).write_bytes(intact[:-1] + b"?")

    assert dataset.column("label").tolist() == list(range(0, 200, 10))
    assert without_stamp(beside(shard)) == expected


def test_a_shard_that_changed_with_its_index_gives_bad_samples(shard: Path) -> None:
    """What was opened is not mixed with what lies there now."""
    dataset = ShardDataset([shard], tenths())
    shard.write_bytes(bytes(300))
    ShardDataset([shard], tenths())
    (bad,) = dataset.fetch([7])

    assert isinstance(bad, BadSample)
    assert "has changed since it was" in bad.reason


def test_long_tables_are_spilled_and_come_back(
    shard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables that do not stay in memory while they are written; no file of theirs is left."""
    entries = [
        Entry(
            f"key-{number:05d}", (("jpg", number, number + 9), ("cls", number, number + 1)), number
        )
        for number in range(5000)
    ]
    entries[4000] = Entry("bad", (), fault="lost")
    expected = find(shard, scan_of(entries)).head.digest
    intact = without_stamp(beside(shard))
    beside(shard).unlink()
    monkeypatch.setattr("readers.storage.index.writer._SPILL_BYTES", 1000)
    monkeypatch.setattr("readers.storage.index.writer._HASHES_PER_PASS", 999)
    found = find(shard, scan_of(entries))
    index = found.map()

    assert (found.head.digest, without_stamp(beside(shard))) == (expected, intact)
    assert [entry_of(index, row) for row in (0, 3999, 4000, 4999)] == [
        entries[row] for row in (0, 3999, 4000, 4999)
    ]
    assert index.column("label").tolist() == [entry.label for entry in entries]
    assert index.column("num_bytes").tolist() == [10] * 4000 + [-1] + [10] * 999
    assert len(list(shard.parent.iterdir())) == 2


def test_repeated_keys_are_counted(shard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sample whose key came before, wherever."""
    entries = [Entry(str(number % 700), ()) for number in range(1000)]
    monkeypatch.setattr("readers.storage.index.writer._HASHES_PER_PASS", 99)

    assert find(shard, scan_of(entries)).head.num_repeated_keys == 300


def test_index_is_as_readable_as_the_shard(shard: Path) -> None:
    """Whoever may read the shard may read its index; its owner may write it, to stamp it anew."""
    shard.chmod(0o440)
    find(shard)

    assert stat.S_IMODE(beside(shard).stat().st_mode) == 0o640


def test_cache_folder_is_used_where_the_shards_cannot_be_written(
    lonely_shard: Path, cache: Path, tmp_path: Path
) -> None:
    """The index then lies in the cache folder, and is found there; the cache tells shards apart by their whole path."""
    assert find(lonely_shard).built
    found = find(lonely_shard)

    assert (entries_of(found), found.built) == (ENTRIES, False)
    assert [path.suffix for path in cache.iterdir()] == [".gpuaug-index"]
    assert list(lonely_shard.parent.iterdir()) == [lonely_shard]
    other = Path(shutil.copytree(lonely_shard.parent, tmp_path / "other")) / lonely_shard.name
    assert find(other).built
    assert len(list(cache.iterdir())) == 2


def test_home_is_the_place_of_the_cache(
    lonely_shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without GPU_AUG_CACHE the cache is ~/.cache/gpu-aug."""
    monkeypatch.delenv("GPU_AUG_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    find(lonely_shard)

    assert len(list((tmp_path / "home" / ".cache" / "gpu-aug").iterdir())) == 1


def test_no_place_for_the_index_is_an_error(lonely_shard: Path, cache: Path) -> None:
    """The error says what can be done about it."""
    cache.parent.mkdir()
    cache.write_bytes(b"a file where the folder should be")

    with pytest.raises(
        IndexFileError, match=r"cannot be written to .* or to .*: set GPU_AUG_CACHE to"
    ):
        find(lonely_shard)


def test_a_failed_scan_leaves_nothing(shard: Path) -> None:
    """The error names the shard with its folder, and no part of an index stays."""

    def scan(content: Content, name: str) -> Iterator[Entry]:  # noqa: ARG001
        yield ENTRIES[0]
        raise SourceError(f"{name} is not what it seems: correct the path")

    with pytest.raises(SourceError, match=f"^{shard} is not what it seems"):
        find(shard, Scan("any", 1, scan))

    assert list(shard.parent.iterdir()) == [shard]


BUILD = """
import os, time
from readers.storage.index import Entry, Scan, open_index
from readers.storage.blob import LocalBlob
from tests.support.index_entries import entry_of

def run(shard, log_path, seconds):
    def scan(content, name):
        with open(log_path, "a") as log:
            log.write(f"{os.getpid()}\\n")
        for number in range(300):
            time.sleep(float(seconds) / 300)
            yield Entry(str(number), (("jpg", number, number + 1),), number)

    found = open_index(LocalBlob(shard), Scan("any", 1, scan))
    return f"{found.head.digest} {entry_of(found.map(), 299).label} {found.built}"
"""


def test_one_of_several_processes_builds(shard: Path, tmp_path: Path) -> None:
    """The others wait and take what it built; nothing but the index stays."""
    with forks(BUILD) as builders:
        for _ in range(3):
            builders.start(shard, tmp_path / "log", 0.3)
        answers = builders.answers()

    assert len((tmp_path / "log").read_text().split()) == 1
    assert len({digest for digest, _, _ in answers}) == 1
    assert [label for _, label, _ in answers] == ["299"] * 3
    assert sorted(built for _, _, built in answers) == ["False"] * 2 + ["True"]
    assert len(list(shard.parent.iterdir())) == 2


def test_a_killed_builder_holds_nobody_up(shard: Path, tmp_path: Path) -> None:
    """Another one of those that wait builds the index; what the dead one wrote is gone."""
    log = tmp_path / "log"
    with forks(BUILD) as builders:
        victim = builders.start(shard, log, 60)
        while not log.exists():
            time.sleep(0.01)
        for _ in range(2):
            builders.start(shard, log, 0.1)
        time.sleep(0.2)
        waiting = log.read_text().split()
        os.kill(victim, signal.SIGKILL)
        answers = builders.answers()

    assert (waiting, [label for _, label, _ in answers]) == ([str(victim)], ["299"] * 2)
    assert (len(log.read_text().split()), len(list(shard.parent.iterdir()))) == (2, 2)


def test_a_lock_has_one_holder_though_its_file_comes_and_goes(tmp_path: Path) -> None:
    """Who waited for a file that is gone waits for the new one."""
    inside: list[int] = []
    most = []

    def hold(number: int) -> None:
        for _ in range(20):
            with build_once(tmp_path / "lock"):
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hold, range(8)))

    assert (max(most), len(most), list(tmp_path.iterdir())) == (1, 160, [])


@pytest.mark.parametrize("moment", ["half written", "not yet renamed"])
def test_what_a_killed_builder_left_is_written_over(shard: Path, moment: str) -> None:
    """Half an index, or a whole one under the name of a part, is no index."""
    find(shard, scan_of(ENTRIES[:1]))
    left = beside(shard).read_bytes()
    beside(shard).unlink()
    part = shard.with_name(f"{shard.name}.gpuaug-index.part")
    part.write_bytes(left[: len(left) // 2] if moment == "half written" else left + bytes(5000))

    assert entries_of(find(shard)) == ENTRIES
    assert len(list(shard.parent.iterdir())) == 2


def num_descriptors() -> int:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("no /proc here")
    return len(list(folder.iterdir()))


def test_more_shards_than_descriptors(tmp_path: Path) -> None:
    """Mapped indexes keep no descriptor, and shards no more than a quarter of what the process may have."""
    paths = [tmp_path / f"{number}.bin" for number in range(100)]
    for path in paths:
        path.write_bytes(bytes(range(200)))
    before, limits = num_descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = before + 64  # other tests may have left some open; 100 shards are too many
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, limits[1]))
    try:
        dataset = ShardDataset(paths, tenths())
        samples = dataset.fetch(range(0, len(dataset), 20))
        again = dataset.fetch(range(0, len(dataset), 20))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    after = num_descriptors()

    assert [bytes(sample.fields["txt"]) for sample in samples] == [bytes(range(10))] * 100
    assert again == samples
    assert after <= before + allowed // 4


def test_version_before_is_replaced(shard: Path) -> None:
    """An index of another version is built anew without a word."""
    find(shard)
    new = without_stamp(beside(shard))
    beside(shard).write_bytes(
        beside(shard).read_bytes().replace(b"gpu-aug index 4", b"gpu-aug index 3")
    )

    assert (find(shard).built, without_stamp(beside(shard))) == (True, new)
