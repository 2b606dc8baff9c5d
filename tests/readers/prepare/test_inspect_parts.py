"""`inspect --verify` in parts gives what one process finds, whoever makes the parts."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_pipes.decode.check import CHECKS
from readers.prepare import Inspection, PrepareError, inspect
from readers.prepare.inspection import doubled_keys
from readers.prepare.inspection import parts as inspection_parts
from readers.prepare.inspection.doubled_keys import DoubledKeys
from readers.prepare.inspection.percentiles import Spread
from readers.prepare.job import ArrayTask, LocalExecutor
from readers.storage.destination import open_destination
from tests.readers.prepare.test_inspect import Checked
from tests.support.commands import Run
from tests.support.executors import Backwards
from tests.support.packed import Jpeg
from tests.support.s3_server import Storage
from tests.support.tars import write_tar
from tests.support.videos import pan, write_video

# The shards of these tests hold keys that come again, which opening them says.
pytestmark = pytest.mark.filterwarnings("ignore:.* with the key of an earlier one:UserWarning")


@pytest.fixture
def shards(tmp_path: Path, jpeg: Jpeg, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two shards of twelve samples: of several sizes and kinds, with a bad one, a damaged one and keys that come again."""
    monkeypatch.setattr(inspection_parts, "_LEAST_SAMPLES", 4)
    for shard in range(2):
        members = []
        for number in range(12):
            data = jpeg(40 + 7 * (number % 3), 60 + number, seed=number)
            data = {5: data[:-300], 6: data[:-300] + data[-2:]}.get(number, data)
            members += [(f"{number % 8}.jpg", data), (f"{number % 8}.cls", b"%d" % (number % 4))]
        write_tar(tmp_path / f"{shard}.tar", members)
    return str(tmp_path / "{0..1}.tar")


def told(found: Inspection) -> dict[str, Any]:
    """All that was found, with the order in which things were first seen."""
    names = {one.name for one in fields(found)} - {"dataset", "num_earlier"}
    values = {name: getattr(found, name) for name in names}
    return values | {"order": [list(found.shapes), list(found.formats), list(found.fields)]}


def test_whoever_looks_finds_the_same(shards: str, tmp_path: Path) -> None:
    """Tasks in reverse order and twice, and tasks of an array job, put together, give what threads give."""
    expected = inspect(shards, verify=CHECKS, num_workers=1)
    backwards, folder = Backwards(), tmp_path / "parts"

    badly = inspect(shards, verify=CHECKS, executor=backwards)
    tasks = [
        inspect(
            shards, verify=CHECKS, executor=ArrayTask(number, 4, LocalExecutor(1)), parts=folder
        )
        for number in (3, 0, 2, 1)
    ]
    merged = inspect(shards, verify=CHECKS, parts=folder, merge=True)

    assert (expected.num_bad, expected.num_damaged, expected.num_doubled) == (2, 2, 8)
    assert len(backwards.done) == 8
    assert told(badly) == told(merged) == told(expected)
    assert sum(task.num_looked_at for task in tasks) == 24
    again = inspect(shards, verify=CHECKS, executor=Backwards(), parts=folder)
    assert (again.num_earlier, merged.num_earlier, again.num_looked_at) == (24, 0, 24)
    assert not any(task.verified for task in tasks)


def test_videos_and_checksums_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of videos, and what the checksums of a format say that no decoder sees, is the same, too."""
    monkeypatch.setattr(inspection_parts, "_LEAST_SAMPLES", 3)
    for number in range(4):
        path = tmp_path / "videos" / f"{number % 2}" / f"{number}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_video(path, pan(4 + 3 * number, (64, 80), seed=number), fps=25 if number else 30)
    videos = str(tmp_path / "videos")
    whole = inspect(videos, verify=CHECKS)
    parts = inspect(videos, verify=CHECKS, executor=Backwards())
    sums = inspect(Checked(), verify=CHECKS, executor=Backwards())

    assert (told(parts), len(whole.videos.rates)) == (told(whole), 2)
    assert told(sums) == told(inspect(Checked(), verify=CHECKS))
    assert [bad.index for bad in sums.bad] == [7]


def test_parts_are_gone_on_from(shards: str, tmp_path: Path) -> None:
    """What is there is not made again; what is missing is named."""
    folder, again = tmp_path / "parts", Backwards()
    expected = inspect(shards, verify=CHECKS, executor=Backwards(), parts=folder)
    for number in (1, 4):
        next(folder.glob(f"part-{number:06d}-*")).unlink()

    with pytest.raises(
        PrepareError, match=r"2 of 6 parts are missing in .* \(number 1, 4\): run the same command"
    ):
        inspect(shards, verify=CHECKS, parts=folder, merge=True)
    found = inspect(shards, verify=CHECKS, executor=again, parts=folder)

    assert (again.done, told(found)) == ([4, 1], told(expected))


def test_parts_of_other_data_are_refused(shards: str, tmp_path: Path) -> None:
    """By the fingerprint in them, and what is no part at all."""
    folder = tmp_path / "parts"
    inspect(shards, verify=CHECKS, executor=Backwards(), parts=folder)
    first = min(folder.iterdir())

    with pytest.raises(PrepareError, match="is a part of the inspection of another dataset"):
        inspect(shards.replace("{0..1}", "0"), verify=CHECKS, parts=folder, merge=True)
    first.write_bytes(first.read_bytes()[:-200])
    with pytest.raises(PrepareError, match="is damaged, or no part of an inspection"):
        inspect(shards, verify=CHECKS, parts=folder, merge=True)


def test_commands_put_an_array_job_together(shards: str, tmp_path: Path, run: Run) -> None:
    """Tasks say how far they are, and bad samples are a failure of the whole alone."""
    options = (shards, "--verify", "--workers", 1, "--parts", tmp_path / "parts")
    alone = run("inspect", shards, "--verify")
    first = run("inspect", *options, "--task", "0/2")
    lacking = run("inspect", *options, "--merge")
    second = run("inspect", *options, "--task", "1/2")
    merged = run("inspect", *options, "--merge")

    assert (first[0], second[0]) == (0, 0)
    assert "task 0/2: 12 of 24 samples looked at" in first[1]
    assert lacking[0] == 2
    assert "3 of 6 parts are missing in" in " ".join(lacking[2].split())
    assert merged == alone


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--task", "0/2"], "are for --verify"),
        (["--verify", "--task", "0/2"], "give --parts FOLDER"),
        (["--verify", "--merge"], "give --parts FOLDER"),
    ],
)
def test_what_does_not_go_together(shards: str, run: Run, options: list[str], words: str) -> None:
    """One sentence says what is missing."""
    code, _, error = run("inspect", shards, *options)

    assert code == 2
    assert words in " ".join(error.split())


@pytest.mark.parametrize("num_different", [9_000, 14_000])
def test_spreads_of_parts_are_that_of_the_whole(num_different: int) -> None:
    """However the numbers are divided: exact until there are too many different ones, and then rounded alike."""
    numbers = np.random.default_rng(0).integers(0, num_different, 60_000).tolist()
    whole = Spread()
    for number in numbers:
        whole.add(number)
    for cuts in ([30_000], [10, 20, 59_000], [15_000, 15_000, 45_000]):
        put = Spread()
        for begin, end in zip([0, *cuts], [*cuts, len(numbers)], strict=True):
            part = Spread()
            for number in numbers[begin:end]:
                part.add(number)
            put.extend(Spread.from_json(part.to_json()))
        assert put == whole
    assert whole.is_exact == (num_different < 10_000)


def test_doubled_keys_of_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted in several turns, through files, they are what a dictionary finds."""
    digests = np.random.default_rng(0).integers(0, 2**64, 3000, np.uint64)
    digests = digests[np.random.default_rng(1).integers(0, 3000, 8000)]
    last: dict[int, int] = {}
    expected = []
    for index, digest in enumerate(digests.tolist()):
        if digest in last:
            expected.append((digest, index, last[digest]))
        last[digest] = index
    monkeypatch.setattr(doubled_keys, "_BUCKET_KEYS", 1000)
    monkeypatch.setattr(doubled_keys, "_MEMORY_BYTES", 1000)
    with DoubledKeys(len(digests)) as keys:
        for part in np.array_split(digests, 7):
            keys.add(part)
        assert keys.find(10_000) == (len(expected), sorted(pair[1:] for pair in expected))
        lowest = sorted(pair[1:] for pair in sorted(expected)[:50])
        assert keys.find(50) == (len(expected), lowest)


def test_parts_in_a_store(s3: Storage, shards: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks write them there, a second run goes on from them, and what is missing or damaged is told."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    parts, rest = "s3://bucket/parts", Backwards()
    inspect(shards, verify=CHECKS, executor=ArrayTask(1, 2, LocalExecutor(1)), parts=parts)
    with pytest.raises(PrepareError, match=f"3 of 6 parts are missing in {parts}"):
        inspect(shards, verify=CHECKS, parts=parts, merge=True)
    found = inspect(shards, verify=CHECKS, executor=rest, parts=parts)
    with open_destination(parts).create("part-000000-of-000006.npz") as file:
        file.write(b"PK")
    with pytest.raises(PrepareError, match=f"{parts}/part-000000.* is damaged"):
        inspect(shards, verify=CHECKS, parts=parts, merge=True)

    assert set(rest.done) == {0, 2, 4}
    assert told(found) == told(inspect(shards, verify=CHECKS, executor=Backwards()))


def test_a_folder_with_something_else_gets_no_parts(shards: str, tmp_path: Path) -> None:
    """It is named, and nothing is written."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "cat.jpg").write_bytes(b"")

    with pytest.raises(PrepareError, match=r"mine holds cat\.jpg and no part of an inspection"):
        inspect(shards, verify=CHECKS, num_workers=1, parts=tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["cat.jpg"]
