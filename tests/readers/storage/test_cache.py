"""The cache of blocks: right bytes whatever lies there, bounded, and shared by processes."""

import os
import random
import shutil
import signal
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from readers import SourceError
from readers.storage.remote.cache import BlockCache, open_cache
from tests.support.forks import forks

BLOCK = 1 << 16
DATA = random.Random(0).randbytes(40 * BLOCK + 1234)
Places = list[tuple[int, int]]


def fetch(places: Places) -> list[bytes | memoryview]:
    return [DATA[start:stop] for start, stop in places]


class Counted:
    """A fetch that remembers what it was asked for."""

    def __init__(self) -> None:
        self.places: Places = []

    def __call__(self, places: Places) -> list[bytes | memoryview]:
        """Fetch."""
        self.places += places
        return fetch(places)


def some_places(seed: int, num: int = 30) -> Places:
    rng = random.Random(seed)
    starts = [rng.randrange(len(DATA)) for _ in range(num)]
    return [(start, min(start + rng.randrange(3 * BLOCK), len(DATA))) for start in starts]


def read(cache: BlockCache, places: Places, use: Callable[..., object] = fetch) -> None:
    """Read, and see that it is the truth."""
    got = cache.read("file", len(DATA), places, use)  # type: ignore[arg-type]
    assert [bytes(data) for data in got] == [DATA[start:stop] for start, stop in places]


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("??/*") if path.is_file())


def used(folder: Path) -> int:
    return sum(path.stat().st_size for path in entries(folder))


@pytest.fixture
def cache(tmp_path: Path) -> BlockCache:
    return BlockCache(tmp_path / "blocks", 100 * BLOCK, BLOCK)


def test_ranges_come_back_in_order_whether_they_are_kept_or_not(
    cache: BlockCache, tmp_path: Path
) -> None:
    """Random, overlapping, empty and last ranges, first from afar and then from here, also in another process."""
    places = [*some_places(1), (0, 0), (5, 5), (0, len(DATA)), (len(DATA) - 1, len(DATA))]
    counted = Counted()
    read(cache, places, counted)
    assert sorted(counted.places) == sorted(set(counted.places))  # no block twice
    before = len(counted.places)
    for one in (cache, BlockCache(tmp_path / "blocks", 100 * BLOCK, BLOCK)):
        read(one, places[::-1], counted)
        assert len(counted.places) == before


def test_another_content_of_the_same_file_is_another_entry(cache: BlockCache) -> None:
    """What was kept under one key is not given out under another."""
    read(cache, [(0, 100)])
    got = cache.read("file, changed", 100, [(0, 100)], lambda places: [b"x" * 100 for _ in places])
    assert bytes(got[0]) == b"x" * 100
    read(cache, [(0, 100)])


@pytest.mark.parametrize("damage", ["flip", "flip description", "cut", "empty", "swap", "longer"])
def test_a_damaged_block_is_fetched_anew(cache: BlockCache, tmp_path: Path, damage: str) -> None:
    """Flipped bits, lost ends and mixed-up files are noticed and mended."""
    read(cache, [(0, len(DATA))])
    files = entries(tmp_path / "blocks")
    contents = [path.read_bytes() for path in files]
    for number, (path, content) in enumerate(zip(files, contents, strict=True)):
        place = 40 + (number * 977) % (len(content) - 40)
        changed = {
            "flip": content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :],
            "flip description": content[: number % 32]
            + bytes([content[number % 32] ^ 128])
            + content[number % 32 + 1 :],
            "cut": content[: len(content) * 2 // 3],
            "longer": b"\0" + content,
            "empty": b"",
            "swap": contents[number - 1],
        }
        path.write_bytes(changed[damage])
    counted = Counted()
    read(cache, [(0, len(DATA))], counted)
    assert len(counted.places) == len(files)
    counted = Counted()
    read(cache, [(0, len(DATA))], counted)
    assert counted.places == []


def test_it_stays_below_its_limit(tmp_path: Path) -> None:
    """With room for a quarter of the data, at every moment."""
    cache = BlockCache(tmp_path, 10 * BLOCK, BLOCK)
    for seed in range(40):
        read(cache, some_places(seed, num=4))
        assert used(tmp_path) <= 10 * BLOCK
    assert used(tmp_path) > 5 * BLOCK


def test_what_was_used_last_stays(tmp_path: Path) -> None:
    """The first block is used all the time and kept, the others come and go."""
    cache = BlockCache(tmp_path, 10 * BLOCK, BLOCK)
    counted = Counted()
    for number in range(1, 30):
        for path in entries(tmp_path):  # a second is long for a test: all become older instead
            status = path.stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**10))
        read(cache, [(0, 10), (number * BLOCK, number * BLOCK + 10)], counted)
    read(cache, [(BLOCK, BLOCK + 10)], counted)
    assert (counted.places.count((0, BLOCK)), counted.places.count((BLOCK, 2 * BLOCK))) == (1, 2)


def test_a_wrong_account_is_put_right(tmp_path: Path) -> None:
    """Neither a lost nor a nonsensical total lets the cache grow or empties it for good."""
    cache = BlockCache(tmp_path, 10 * BLOCK, BLOCK)
    for content in (
        b"",
        b"nonsense" * 4,
        b"\xff" * 8 + zlib.crc32(b"\xff" * 8).to_bytes(4, "little"),
    ):
        (tmp_path / "total").write_bytes(content)
        for seed in range(5):
            read(cache, some_places(seed, num=4))
        assert 0 < used(tmp_path) <= 10 * BLOCK


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    """A folder with other things in it is refused; what is put there later is not deleted."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SourceError, match=r"holds something else \(thesis.txt\)"):
        BlockCache(tmp_path, 10 * BLOCK, BLOCK)
    cache = BlockCache(tmp_path / "new", 10 * BLOCK, BLOCK)
    read(cache, [(0, BLOCK)])
    photo = entries(tmp_path / "new")[0].with_name("photo.jpg")
    strangers = [tmp_path / "new" / "notes.txt", photo]
    for path in strangers:
        path.write_bytes(b"mine" * BLOCK)
    for seed in range(10):
        read(cache, some_places(seed, num=4))
    assert all(path.exists() for path in strangers)


def test_what_dead_writers_left_goes(tmp_path: Path) -> None:
    """An unfinished block is removed by whoever opens the cache next."""
    read(BlockCache(tmp_path, 10 * BLOCK, BLOCK), [(0, 10)])
    whole = entries(tmp_path)[0]
    unfinished = whole.with_name(f"{whole.name}.new")
    unfinished.write_bytes(b"half a bl")
    BlockCache(tmp_path, 10 * BLOCK, BLOCK)
    assert entries(tmp_path) == [whole]


def test_a_full_disk_is_told_once(
    cache: BlockCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading goes on without a cache, after one warning."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        read(cache, [(0, 10)])
    counted = Counted()
    read(cache, [(0, len(DATA)), (7, 9), (3, 3)], counted)  # a second warning would be an error
    # What is not kept is not rounded up to blocks either.
    assert (counted.places, entries(tmp_path / "blocks")) == ([(0, len(DATA)), (7, 9)], [])


def test_a_deleted_folder_is_told_once(cache: BlockCache, tmp_path: Path) -> None:
    """It is not made again beside somebody who removed it."""
    shutil.rmtree(tmp_path / "blocks")
    with pytest.warns(RuntimeWarning, match="No such file or directory"):
        read(cache, [(0, 10)])
    read(cache, [(0, len(DATA))])
    assert not (tmp_path / "blocks").exists()


def test_a_folder_that_cannot_be_made_is_told_once(tmp_path: Path) -> None:
    """No cache, one warning, and no second one."""
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(RuntimeWarning, match="the cache .* cannot be written"):
        assert open_cache(str(tmp_path / "file" / "blocks"), None, BLOCK) is None
    assert open_cache(str(tmp_path / "file" / "blocks"), None, BLOCK) is None


def test_threads_fetch_a_block_once(cache: BlockCache) -> None:
    """Eight threads that want the same blocks wait for the one that fetches them."""
    counted = Counted()

    def slowly(places: Places) -> list[bytes | memoryview]:
        time.sleep(0.05)
        return counted(places)

    threads = [
        threading.Thread(target=read, args=(cache, [(0, 9 * BLOCK)], slowly)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counted.places) == [(n * BLOCK, (n + 1) * BLOCK) for n in range(9)]


def test_an_error_lets_go_of_the_block(cache: BlockCache) -> None:
    """Who fails to fetch a block does not keep others from it."""

    def failing(_: Places) -> list[bytes]:
        raise OSError(5, "no network")

    with pytest.raises(OSError, match="no network"):
        read(cache, [(0, 10)], failing)
    read(cache, [(0, 10)])


READER = """
import time
from pathlib import Path
from readers.storage.remote.cache import BlockCache
from tests.readers.storage.test_cache import BLOCK, fetch, read, some_places

def run(folder, limit, first):
    folder = Path(folder)
    cache = BlockCache(folder, int(limit) * BLOCK, BLOCK)
    def logged(places):
        time.sleep(0.002)
        with folder.with_name("fetched").open("a") as file:
            file.writelines(f"{place}\\n" for place in places)
        return fetch(places)
    for seed in range(int(first), int(first) + 30):
        read(cache, some_places(seed, num=4), logged)
    return first
"""


def test_processes_share_it_while_some_are_killed(tmp_path: Path) -> None:
    """Three readers of a cache smaller than the data, and others that die by SIGKILL at any moment."""
    folder, most, rng = tmp_path / "blocks", 0, random.Random(3)
    with forks(READER) as readers:
        for first in (0, 20, 40):
            readers.start(folder, 10, first)
        for number in range(4):
            victim = readers.start(folder, 10, 1000 + 100 * number)
            until = time.monotonic() + rng.uniform(0, 0.2)
            while time.monotonic() < until:
                most = max(most, sum(_size(path) for path in entries(folder)))
            os.kill(victim, signal.SIGKILL)
        answers = {first for (first,) in readers.answers()}
    assert answers >= {"0", "20", "40"}  # a victim may have come to its end as well
    assert 0 < most <= 10 * BLOCK + 3 * BLOCK  # a look takes its time, and sees the old and the new
    assert used(folder) <= 10 * BLOCK
    BlockCache(folder, 10 * BLOCK, BLOCK)
    assert not list(folder.glob("??/*.new"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_processes_fetch_a_block_once(tmp_path: Path) -> None:
    """Three processes read the same and together fetch each block once."""
    with forks(READER) as readers:
        for _ in range(3):
            readers.start(tmp_path / "blocks", 100, 0)
        assert readers.answers() == [["0"]] * 3
    fetched = (tmp_path / "fetched").read_text().splitlines()
    assert len(fetched) == len(set(fetched)) == 41


def test_a_child_of_a_fork_reads_on(tmp_path: Path) -> None:
    """Locks held by threads of the parent do not stop the child."""
    cache = open_cache(str(tmp_path / "blocks"), 100 * BLOCK, BLOCK)
    assert cache
    with cache._lock.accounts():
        child = os.fork()
        if child == 0:
            signal.alarm(8)
            again = open_cache(str(tmp_path / "blocks"), 100 * BLOCK, BLOCK)
            os._exit(
                0 if again is None else 3
            )  # the parent holds the accounts: it may not wait for ever
        time.sleep(0.2)
    assert os.waitpid(child, 0)[1] == 3 << 8
