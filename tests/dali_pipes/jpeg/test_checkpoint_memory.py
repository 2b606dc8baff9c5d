"""The checkpoints that a process remembers."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dali_pipes.jpeg.checkpoint_memory import CheckpointMemory
from dali_pipes.jpeg.checkpoints import CHECKPOINT, Checkpoints

BAD = 7


def rows_of(count: int, first: int = 0) -> np.ndarray:
    rows = np.zeros(count, CHECKPOINT)
    rows["bit"], rows["dc"] = np.arange(first, first + count), first
    return rows


def ask(memory: CheckpointMemory, *digests: int) -> list[Checkpoints | None]:
    known = memory.look_up(np.arange(len(digests)), np.array(digests, np.uint64))
    assert known.files["num_rows"].tolist() == [
        0 if one is None else len(one.rows) for one in known.held
    ]
    return list(known.held)


def test_what_is_kept_is_found() -> None:
    """By its digest, whatever its index, as a copy of its own."""
    memory, rows = CheckpointMemory(), rows_of(5, first=3)
    memory.keep_all(
        [(0, 2**64 - 1, Checkpoints(0, 8, rows)), (1, 12, Checkpoints(BAD, 8, rows[:0]))]
    )
    rows["bit"] = 99

    bad, none, good = ask(memory, 12, 13, 2**64 - 1)

    assert none is None
    assert bad is not None
    assert (bad.status, len(bad.rows)) == (BAD, 0)
    assert good is not None
    assert (good.status, good.every) == (0, 8)
    np.testing.assert_array_equal(good.rows, rows_of(5, first=3))


def test_verdicts_outlast_the_room_for_rows() -> None:
    """Of further files the verdicts are kept, and then nothing; it stays within its limit."""
    memory = CheckpointMemory(limit_bytes=20_000)
    for digest in range(1, 201):
        memory.keep_all([(0, digest, Checkpoints(0, 4, rows_of(100)))])
        assert memory.num_bytes <= 20_000
    found = ask(memory, *range(1, 201))
    kinds = ["" if one is None else "rows" if len(one.rows) else "verdict" for one in found]

    assert [kinds.count(kind) for kind in ("rows", "verdict")] == [12, 21]
    assert kinds == sorted(kinds, key=["rows", "verdict", ""].index)


def test_what_is_found_again_takes_no_more_room() -> None:
    """Threads that meet a file at the same time keep it once."""
    memory = CheckpointMemory(limit_bytes=20_000)
    for first in range(100):
        memory.keep_all([(0, 5, Checkpoints(0, 4, rows_of(100, first)))])
    (found,) = ask(memory, 5)

    assert found is not None
    assert found.rows["bit"][0] == 99
    assert memory.num_bytes < 2_000


def test_threads() -> None:
    """Whoever asks while others keep gets all of a file or nothing."""
    memory = CheckpointMemory(limit_bytes=1_000_000)

    def work(part: int) -> int:
        seen = 0
        for number in range(1, 400):
            memory.keep_all([(0, number, Checkpoints(0, 4, rows_of(10, number)))])
            asked = (number * (part + 3)) % 400 + 1
            for one in ask(memory, asked):
                if one is not None:
                    seen += 1
                    np.testing.assert_array_equal(one.rows, rows_of(10, asked))
        return seen

    with ThreadPoolExecutor(4) as pool:
        assert min(pool.map(work, range(4))) > 100
    assert memory.num_bytes == 399 * (240 + 100)
