"""A file of seek points: damaged or unfinished entries, and those of other data, count as missing."""

import fcntl
import os
import random
import time
from hashlib import sha256
from pathlib import Path

import pytest

from readers.jpeg_seek_points.layout import (
    Entry,
    Head,
    PackedSeekPoints,
    encode_file,
    encode_pieces,
)
from readers.jpeg_seek_points.seek_point_file import FileFullError, SeekPointFile, open_to_add
from readers.storage.side_file import DamagedFileError
from tests.support.seek_point_entries import HEAD, LIMIT, entry, start_writers


def some(count: int = HEAD.num_samples) -> list[Entry]:
    return [entry(number) for number in range(count)]


def found(file: SeekPointFile, entries: list[Entry]) -> list[bool]:
    """Which entries are found; what is found otherwise than it was kept fails the test."""
    kept = [(file.find(one.number, one.digest), one.points) for one in entries]
    assert all(mine is None or mine == theirs for mine, theirs in kept)
    return [mine is not None for mine, _ in kept]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Path of a file of seek points in a folder that does not exist yet."""
    return tmp_path / "a" / "file"


def written(path: Path, data: bytes) -> SeekPointFile:
    """Write the bytes of a file, and open it."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return SeekPointFile(path, HEAD, writable=True)


def test_what_is_kept_is_found(path: Path) -> None:
    """By who has it open and by who opens it later, and the last word counts."""
    file = open_to_add(path, HEAD)
    reader = SeekPointFile(path, HEAD)
    file.add(some(), LIMIT)
    file.add([entry(3, 1)], LIMIT)

    for one in (file, reader, SeekPointFile(path, HEAD)):
        assert found(one, some()) == [number != 3 for number in range(20)]
        assert found(one, [entry(3, 1)]) == [True]
    assert [one.number for one in reader.entries(2, 9)] == list(range(2, 9))


def test_other_bytes_find_nothing(path: Path) -> None:
    """A changed image has another digest; a sample that was not kept has none."""
    file = open_to_add(path, HEAD)
    file.add([entry(4)], LIMIT)

    assert file.find(4, entry(4).digest) == entry(4).points
    assert file.find(4, entry(4).digest ^ 1) is None
    assert file.find(5, 0) is None


def test_whole_files_are_the_same_for_the_same_entries(path: Path) -> None:
    """Made at once or piece by piece, and in whatever order they were found."""
    entries = [one for one in some() if one.number % 3]
    shuffled = random.Random(0).sample(entries, len(entries))
    file = open_to_add(path, HEAD)
    for one in shuffled:
        file.add([one], LIMIT)
    again = b"".join(encode_pieces(HEAD, lambda: file.entries(0, HEAD.num_samples)))

    assert again == encode_file(HEAD, entries)
    path.write_bytes(again)
    assert found(SeekPointFile(path, HEAD), some()) == [number % 3 > 0 for number in range(20)]


def test_golden_bytes() -> None:
    """Files of seek points are read by later versions, so their bytes must never change under this name."""
    data = encode_file(
        HEAD,
        [
            Entry(2, 1 << 63, PackedSeekPoints(-3, 8, b"rows")),
            Entry(19, 5, PackedSeekPoints(0, 1, b"")),
        ],
    )

    assert (data[:16], len(data)) == (b"gpu-aug points 1", 128 + 20 * 32 + 4)
    assert sha256(data).hexdigest()[:32] == "6b086370eff689526cb47d7c6717fe97"


@pytest.mark.parametrize(
    "other",
    [Head("f" * 32, 7, 20), Head(HEAD.belongs, 8, 20), Head(HEAD.belongs, 7, 21)],
    ids=["dataset", "version", "length"],
)
def test_a_file_of_something_else_is_refused(path: Path, other: Head) -> None:
    """It is replaced where something is kept."""
    open_to_add(path, HEAD).add(some(), LIMIT)

    with pytest.raises(DamagedFileError, match="belongs to something else"):
        SeekPointFile(path, other)
    file = open_to_add(path, other)
    assert found(file, some()) == [False] * 20
    file.add([entry(1)], LIMIT)
    assert found(SeekPointFile(path, other), [entry(1)]) == [True]


def test_a_slot_in_another_place_counts_for_nothing(path: Path) -> None:
    """Of another sample, and of the file of another dataset: their checksums differ."""
    data = bytearray(encode_file(HEAD, some()))
    data[128 + 32 * 4 : 128 + 32 * 5] = data[128 + 32 * 9 : 128 + 32 * 10]
    other = encode_file(Head("f" * 32, 7, 20), some())
    data[128 + 32 * 6 : 128 + 32 * 7] = other[128 + 32 * 6 : 128 + 32 * 7]
    file = written(path, data)

    assert file.find(4, entry(9).digest) is None
    assert found(file, some()) == [number not in (4, 6) for number in range(20)]


def test_a_flipped_bit_is_never_believed(path: Path) -> None:
    """Anywhere in the file: what it touches is unknown, and everything else is as it was."""
    entries = some()
    data = encode_file(HEAD, entries)
    lost = []
    rng = random.Random(1)
    for position in [*range(128), *rng.sample(range(128, len(data)), 250)]:
        flipped = bytearray(data)
        flipped[position] ^= 1 << rng.randrange(8)
        try:
            lost.append(found(written(path, flipped), entries).count(False))
        except DamagedFileError:
            assert position < 128
            lost.append(20)

    assert set(lost[:68]) == {20}
    assert set(lost[68:128]) == {0}  # nothing stands there
    assert set(lost[128:]) == {1}


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(path: Path) -> None:
    """While it is open as well, and what is kept then is found."""
    data = encode_file(HEAD, some())
    file = written(path, data)
    for length in range(len(data) - 1, 0, -61):
        os.truncate(path, length)
        found(file, some())
    assert found(file, some()) == [False] * 20
    file.add(some(), LIMIT)

    assert all(found(file, some()))


def test_killed_while_writing(path: Path) -> None:
    """At any moment: what is there is right, and others go on, also behind a row that has no slot yet."""
    [process] = start_writers(path, 1)
    while not path.exists():
        time.sleep(0.001)
    time.sleep(0.02)
    process.kill()
    process.wait()
    file = open_to_add(path, HEAD)
    for one in file.entries(0, 20):
        assert one.points == entry(one.number, one.digest - entry(one.number).digest).points
    with path.open("ab") as half:
        half.write(b"half a row")
    file.add(some(), LIMIT)

    assert all(found(file, some()))


def test_two_processes_write_at_once(path: Path) -> None:
    """Everything of both is there, though they begin without a file, and no rows lie on others."""
    processes = start_writers(path, 2, turns=200)

    assert [process.wait() for process in processes] == [0, 0]
    assert all(found(SeekPointFile(path, HEAD), [entry(number, 199) for number in range(20)]))
    row_bytes = sum(len(one.points.rows) for one in some())  # as many in every turn
    assert path.stat().st_size == HEAD.first_row + 200 * row_bytes


def test_a_writer_that_was_stopped_is_not_waited_for(path: Path) -> None:
    """Nothing is kept then, and reading goes on."""
    file = open_to_add(path, HEAD)
    file.add(some(10), LIMIT)
    stopped = os.open(path, os.O_RDWR)
    with pytest.MonkeyPatch.context() as patch:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        patch.setattr("readers.jpeg_seek_points.seek_point_file._LOCK_SECONDS", 0.01)
        kept = file.add(some(), LIMIT)
    os.close(stopped)

    assert not kept
    assert found(file, some()) == [number < 10 for number in range(20)]
    assert file.add(some(), LIMIT)


def test_a_child_of_a_fork_has_a_lock_of_its_own(path: Path) -> None:
    """Its parent holds one meanwhile, which the child would share with the descriptor."""
    file = open_to_add(path, HEAD)
    with pytest.MonkeyPatch.context() as patch, file.open_file.locked() as held:
        patch.setattr("readers.jpeg_seek_points.seek_point_file._LOCK_SECONDS", 0.01)
        child = os.fork()
        if not child:
            os._exit(int(file.add([entry(0)], LIMIT)))
        _, status = os.waitpid(child, 0)

    assert held
    assert status == 0  # it did not add
    assert found(file, [entry(0)]) == [False]


def test_a_full_file_stays_as_it_is(path: Path) -> None:
    """Who would make it larger than allowed is told, and nothing of it is lost."""
    file = open_to_add(path, HEAD)
    file.add(some(10), LIMIT)
    size = path.stat().st_size

    with pytest.raises(FileFullError):
        file.add([entry(11)], size + 1)
    assert found(file, some()) == [number < 10 for number in range(20)]
    assert path.stat().st_size == size
