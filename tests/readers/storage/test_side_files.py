"""What holds for each writer of side files when processes meet, are killed or find no room."""

import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from readers.storage.index.index_file import Stamp
from tests.support.forks import forks
from tests.support.side_file_users import USERS, prepare

PROGRAM = "from tests.support.side_file_users import use as run"
ANSWERS = {**dict.fromkeys(USERS, "True"), "index": "299", "sizes": "5000", "videos": "360/89"}
MADE_ONCE = ("index", "sizes", "videos", "unpacked", "blocks")
"""Users of whom one does the work, and the others wait."""
REFUSALS = {
    "full": {
        "index": "IndexFileError",
        "videos": "IndexFileError",
        "unpacked": "OSError",
        "seek_points": "False",
        "destination": "TransientError",
    },
    "unwritable": {
        "videos": "IndexFileError",
        "unpacked": "NotADirectoryError",
        "seek_points": "False",
        "destination": "TransientError",
        "blocks": "NotADirectoryError",
    },
}
"""Answers of users that need a file; the others give the right answer without one."""
FINISHED = re.compile(
    r"log|packed\.gz|shard(\.gpuaug-index)?|cache/(\w+/)*[\w-]*\.?(npy|gpuaug-[a-z]+)?"
    r"|cache/blocks/(lock|total|CACHEDIR\.TAG)"
)
GOLDEN = {
    "sizes sizes/027734b69c3c1b024046136ae7799e6d.npy": "aa14616300b29c89",
    "videos ffffffffffffffffffffffffffffffff.gpuaug-videos": "4d99bb1ae22638bf",
    "seek_points checkpoints/9703b7ac6b45ea58d865682a8e90a573.gpuaug-checkpoints": "002dd10854b4216d",
    "blocks blocks/3b/3b1d8dd9b22676f1dc88feccab959b87": "5370dd082da89fb1",
    "blocks blocks/96/9692e377cf6c661517b9b86567972db4": "3eeb78a4157cbc93",
    "blocks blocks/CACHEDIR.TAG": "d753d0c2a1073fca",
    "blocks blocks/lock": "e3b0c44298fc1c14",
    "blocks blocks/total": "9771c78bf46c360f",
    "index": "1ec1dd254d94d3e1",
    "stamp": "dcf456ec93523b44",
}

Use = Callable[..., dict[str, set[str]]]


@pytest.fixture
def use_all(tmp_path: Path) -> Use:
    """Let all users work at the same time, each in several processes that begin together, under a fault.

    Returns the different answers of the processes that survive.
    """

    def use(fault: str, num_processes: int = 1) -> dict[str, set[str]]:
        for name in USERS:
            if not (tmp_path / name).exists():
                prepare(tmp_path / name)
        found: dict[str, set[str]] = {}
        with forks(PROGRAM) as processes:
            for name in USERS:
                for _ in range(num_processes):
                    processes.start(name, tmp_path / name, fault)
            for name, answer in processes.answers():
                found.setdefault(name, set()).add(answer)
        return found

    return use


def unfinished(folder: Path) -> list[str]:
    """Return the files of all users that are neither data nor a finished side file."""
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    names = [file.relative_to(file.parts[0]).as_posix() for file in files]
    return [
        str(file) for file, name in zip(files, names, strict=True) if not FINISHED.fullmatch(name)
    ]


def right_answers() -> dict[str, set[str]]:
    """Return the answers of users that nothing disturbs."""
    return {name: {answer} for name, answer in ANSWERS.items()}


def test_processes_that_meet_share_one_side_file(tmp_path: Path, use_all: Use) -> None:
    """All get the same; where one can wait for another, only one does the work, and nothing else remains."""
    assert use_all("none", num_processes=3) == right_answers()
    workers = {name: (tmp_path / name / "log").read_text().split() for name in MADE_ONCE}
    assert {name: len(set(pids)) for name, pids in workers.items()} == dict.fromkeys(MADE_ONCE, 1)
    assert unfinished(tmp_path) == []


@pytest.mark.parametrize("moment", ["in-writing", "before-renaming"])
def test_a_killed_writer_is_replaced(tmp_path: Path, use_all: Use, moment: str) -> None:
    """The next process gives the right answer, and what the dead one left is gone."""
    assert use_all(f"killed-{moment}") == {}
    # Seek points are added to a file that has its name already.
    assert len(unfinished(tmp_path)) >= len(USERS) - 1
    assert use_all("none") == right_answers()
    assert unfinished(tmp_path) == []


@pytest.mark.parametrize("fault", REFUSALS)
def test_without_room_a_user_answers_or_refuses(tmp_path: Path, use_all: Use, fault: str) -> None:
    """Nothing unfinished remains, and later runs find nothing that is damaged."""
    refusals = {name: {answer} for name, answer in REFUSALS[fault].items()}
    assert use_all(fault) == right_answers() | refusals
    assert unfinished(tmp_path) == []
    assert use_all("none") == right_answers()


def golden(folder: Path) -> dict[str, str]:
    """Return a digest of every side file that does not depend on paths and inodes, and of the words within them."""
    found = {}
    for name in ("sizes", "videos", "seek_points", "blocks"):
        for path in sorted((folder / name / "cache").rglob("*")):
            if path.is_file():
                digest = sha256(path.read_bytes()).hexdigest()[:16]
                found[f"{name} {path.relative_to(folder / name / 'cache')}"] = digest
    index = (folder / "index" / "shard.gpuaug-index").read_bytes()
    found["index"] = sha256(index[:32] + index[72:]).hexdigest()[:16]
    found["stamp"] = sha256(Stamp(1, -2, 3, 4, True).pack()).hexdigest()[:16]
    return found


def test_bytes_and_names_of_side_files_never_change(tmp_path: Path, use_all: Use) -> None:
    """Files that earlier versions wrote are read: another layout needs another version in its first bytes."""
    use_all("none")
    assert golden(tmp_path) == GOLDEN
