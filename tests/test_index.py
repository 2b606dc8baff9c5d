import io
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from readers import IndexFileError
from readers.index import Entry, ShardIndex, open_index

ENTRIES = [
    Entry("a", (("jpg", 512, 1000), ("cls", 1536, 1537)), 7, (30, 40)),
    Entry("folder/ü-\udcff", (("txt", 2048, 2048),)),
    Entry("broken", (), fault="cut off at byte 5"),
    Entry("", (("jpg", 2**40, 2**41),), 10**17, (2**32 - 1, 1)),
]


class Scan:
    """A scan that counts how often it was needed."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _: Path) -> list[Entry]:
        """Return the entries, whatever the shard."""
        self.count += 1
        return ENTRIES


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, which does not exist yet."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache" / "deep"))
    return tmp_path / "cache" / "deep"


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    """A file that stands for a shard: the scan of these tests does not look into it."""
    path = tmp_path / "data" / "train.tar"
    path.parent.mkdir()
    path.write_bytes(b"content")
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


def entries_of(index: ShardIndex) -> list[Entry]:
    return [index.entry(row) for row in range(len(index))]


def test_entries_come_back_as_they_were(shard: Path) -> None:
    """What was scanned is what the index says, when built and when read."""
    built = open_index(shard, Scan())
    read = open_index(shard, Scan())

    assert entries_of(built) == ENTRIES
    assert entries_of(read) == ENTRIES
    assert read.digest == built.digest


def test_second_opening_does_not_scan(shard: Path) -> None:
    """The file beside the shard saves the scan, and nothing else is left in the folder."""
    scan = Scan()
    open_index(shard, scan)
    open_index(shard, scan)

    assert scan.count == 1
    assert sorted(path.name for path in shard.parent.iterdir()) == [
        "train.tar",
        "train.tar.gpuaug-index",
    ]


@pytest.mark.parametrize("change", ["size", "mtime"])
def test_changed_shard_is_scanned_again(shard: Path, change: str) -> None:
    """Another size or time of the shard makes the index void."""
    scan = Scan()
    open_index(shard, scan)
    status = shard.stat()
    if change == "size":
        shard.write_bytes(b"more content")
        os.utime(shard, ns=(status.st_atime_ns, status.st_mtime_ns))
    else:
        os.utime(shard, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    open_index(shard, scan)
    open_index(shard, scan)

    assert scan.count == 2


def test_damage_anywhere_is_noticed(shard: Path) -> None:
    """A flipped bit, wherever it is, and a lost end lead to a new scan."""
    open_index(shard, Scan())
    intact = beside(shard).read_bytes()
    damaged = [intact[:length] for length in (0, 10, 24, 100, len(intact) - 1)]
    for place in (*range(24), *range(24, len(intact), 7)):
        damaged.append(intact[:place] + bytes([intact[place] ^ 1]) + intact[place + 1 :])
    for content in damaged:
        beside(shard).write_bytes(content)
        scan = Scan()

        assert entries_of(open_index(shard, scan)) == ENTRIES
        assert scan.count == 1
        assert beside(shard).read_bytes() == intact


def test_index_is_as_readable_as_the_shard(shard: Path) -> None:
    """Whoever may read the shard may read its index."""
    shard.chmod(0o640)
    open_index(shard, Scan())

    assert stat.S_IMODE(beside(shard).stat().st_mode) == 0o640


def test_cache_folder_is_used_where_the_shards_cannot_be_written(
    lonely_shard: Path, cache: Path
) -> None:
    """The index then lies in the cache folder, and is found there."""
    scan = Scan()
    open_index(lonely_shard, scan)
    found = open_index(lonely_shard, scan)

    assert entries_of(found) == ENTRIES
    assert scan.count == 1
    assert [path.suffix for path in cache.iterdir()] == [".gpuaug-index"]
    assert list(lonely_shard.parent.iterdir()) == [lonely_shard]


def test_shards_of_one_name_do_not_share_a_cached_index(
    lonely_shard: Path, cache: Path, tmp_path: Path
) -> None:
    """The cache tells shards apart by their whole path."""
    other = tmp_path / "other" / lonely_shard.name
    other.parent.mkdir()
    other.write_bytes(b"content")
    open_index(lonely_shard, Scan())
    open_index(other, Scan())

    assert len(list(cache.iterdir())) == 2


def test_home_is_the_place_of_the_cache(
    lonely_shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without GPU_AUG_CACHE the cache is ~/.cache/gpu-aug."""
    monkeypatch.delenv("GPU_AUG_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    open_index(lonely_shard, Scan())

    assert len(list((tmp_path / "home" / ".cache" / "gpu-aug").iterdir())) == 1


def test_no_place_for_the_index_is_an_error(lonely_shard: Path, cache: Path) -> None:
    """The error says what can be done about it."""
    cache.parent.mkdir()
    cache.write_bytes(b"a file where the folder should be")

    with pytest.raises(IndexFileError, match=r"can be written neither .* set GPU_AUG_CACHE to"):
        open_index(lonely_shard, Scan())


BUILD = """
import sys, tarfile
from pathlib import Path
from readers import TarDataset
sys.stdin.readline()
dataset = TarDataset([Path(sys.argv[1])])
print(dataset.fingerprint, len(dataset), bytes(dataset.fetch([499])[0].fields["txt"]).decode())
"""


def test_processes_may_build_at_the_same_time(tmp_path: Path) -> None:
    """Several processes that open a new shard at once all get a whole index, and leave one."""
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(500):
            member = tarfile.TarInfo(f"{number:04d}.txt")
            member.size = 4
            archive.addfile(member, io.BytesIO(b"%04d" % number))
    root = Path(__file__).resolve().parents[1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, str(path)],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:  # all have imported what they need, or nearly
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = {process.communicate(timeout=60)[0] for process in processes}

    assert len(answers) == 1
    assert answers.pop().split()[1:] == ["500", "0499"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar", "a.tar.gpuaug-index"]
