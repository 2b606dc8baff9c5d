"""LeRobot datasets: what contradicts itself is refused with a sentence, or makes bad samples of its own frames alone."""

import errno
import io
import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from readers import BadSample, Sample, SourceError, open_dataset
from readers.formats.lerobot.cameras import VideoCamera
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.lerobot.tables import Table
from readers.formats.lerobot.videos import Videos
from readers.prepare import PrepareError, pack
from readers.video import VideoError, VideoIndex
from tests.support.damage import overwrite
from tests.support.lerobot import (
    TOP,
    WRIST,
    Robot,
    change_info,
    picture_feature,
    write_tables,
)
from tests.support.opening import open_with_warning

TABLE = "data/chunk-000/file-000.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound dataset."""
    return Robot(codec="mpeg4").write(tmp_path_factory.mktemp("robot"))


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoilt."""
    shutil.copytree(made, tmp_path / "robot")
    return tmp_path / "robot"


def change_table(root: Path, name: str, column: str, change: Callable[[list[Any]], Any]) -> None:
    """Change the values of a column."""
    table = pq.read_table(root / name, partitioning=None)
    values = table.column(column).to_pylist()
    change(values)
    field = table.schema.field(column)
    number = table.schema.get_field_index(column)
    table = table.set_column(number, field, pa.array(values, field.type))
    pq.write_table(table, root / name, row_group_size=4)


def drop(root: Path, name: str, column: str) -> None:
    """Leave a column out."""
    table = pq.read_table(root / name, partitioning=None)
    pq.write_table(table.drop_columns([column]), root / name)


def put(at: int, value: Any) -> Callable[[list[Any]], None]:
    """Set one value of a list."""

    def change(values: list[Any]) -> None:
        values[at] = value

    return change


def without_rows(root: Path) -> None:
    table = pq.read_table(root / TABLE, partitioning=None)
    pq.write_table(table.slice(0, 7), root / TABLE)


REFUSED: list[tuple[Change, dict[str, Any], str]] = [
    (
        lambda r: change_info(r, codebase_version="v2.1"),
        {},
        r"version v2\.1.*convert_dataset_v21_to_v30",
    ),
    (
        lambda r: change_info(r, codebase_version="v4.0"),
        {},
        r"of version v4\.0, and those of v3\.0 are read",
    ),
    (lambda r: change_info(r, fps=0), {}, r"`float` > 0.0 - at `\$\.fps`"),
    (lambda r: change_info(r, data_path=None), {}, r"required field `data_path`"),
    (lambda r: change_info(r, data_path="../{file_index}.parquet"), {}, r"lies outside the folder"),
    (lambda r: change_info(r, video_path="/etc/{file_index}.mp4"), {}, r"lies outside the folder"),
    (
        lambda r: change_info(r, data_path="{chunk_index.__class__}"),
        {},
        r"__class__} is not a file",
    ),
    (lambda r: change_info(r, data_path="data/{episode_chunk}"), {}, r"asks for episode_chunk"),
    (lambda r: change_info(r, features={}), {}, r"features must have 'timestamp'"),
    (
        lambda r: [path.unlink() for path in r.glob("data/*/*")],
        {},
        r"no table of .* can be read: data/chunk-000/file-000\.parquet is not a file",
    ),
    (lambda r: (r / EPISODES).unlink(), {}, r"no tables of episodes"),
    (
        lambda r: (r / "meta/tasks.parquet").unlink(),
        {},
        r"no meta/tasks\.parquet.*task_index refers",
    ),
    (lambda r: drop(r, EPISODES, "length"), {}, r"no column 'length'"),
    (lambda r: drop(r, "meta/tasks.parquet", "task"), {}, r"no column of texts"),
    (without_rows, {}, r"have 8 frames together, but it has 7 rows"),
    (
        lambda r: change_table(r, EPISODES, "length", put(1, 4)),
        {},
        r"episode 1 has 4 frames, which are those from 5 to 8",
    ),
    (lambda r: change_table(r, EPISODES, "episode_index", put(1, 2)), {}, r"lists episode 2 twice"),
    (lambda _: 0, {"episodes": [1, 7]}, r"no episode 7: its 3 episodes are numbered from 0 to 2"),
    (lambda _: 0, {"episodes": []}, r"a list of at least one number of an episode, got \[\]"),
    (lambda _: 0, {"episodes": 2}, r"a list of at least one number of an episode, got 2"),
    (lambda _: 0, {"cameras": "top"}, rf"cameras='top' must name.*{TOP}, {WRIST}"),
    (lambda _: 0, {"cameras": [TOP, TOP]}, r"must name different cameras"),
    (lambda _: 0, {"split": "test"}, r"has no split 'test': its splits are train"),
    (lambda _: 0, {"split": "train", "episodes": [0]}, r"give one of them"),
    (
        lambda r: change_info(r, splits={"train": "0:2", "val": "2:3"}),
        {},
        r"holds the splits train, val, which are never one",
    ),
    (lambda r: change_info(r, splits={"train": "0-2"}), {}, r"the split 'train' must be episodes"),
    (
        lambda _: 0,
        {"delta_timestamps": {"action": [0.0, 0.15]}},
        r"'action' has 0\.15 s, which is no multiple of 1/10 s within tolerance_s=0\.0001",
    ),
    (lambda _: 0, {"delta_timestamps": {"velocity": [0.0]}}, r"'velocity', which is no feature"),
    (
        lambda _: 0,
        {"cameras": TOP, "delta_timestamps": {WRIST: [0.0]}},
        r"wrist', which is no feature that is read",
    ),
    (lambda _: 0, {"delta_timestamps": {"action": []}}, r"a list of at least one second"),
    (lambda _: 0, {"delta_timestamps": [0.1]}, r"must name seconds by feature, got list"),
    (lambda _: 0, {"tolerance_s": -1.0}, r"tolerance_s must be seconds from 0 on"),
    (lambda _: 0, {"rename": [TOP]}, r"rename must give new names by stored name, got list: write"),
    (lambda _: 0, {"rename": {"top": TOP}}, r"rename=.*rename some of .*action.*, obs"),
    (lambda _: 0, {"rename": {TOP: WRIST}}, r"must give features names that no other feature has"),
    (lambda _: 0, {"rename": {"timestamp": "t"}}, r"no other feature has"),
    (
        lambda r: change_table(r, "meta/tasks.parquet", "task_index", put(0, 1_000_000)),
        {},
        r"has task_index 1000000: number its texts from 0 to 999999",
    ),
    (lambda _: 0, {"image": "x"}, r"LeRobot v3\.0 has no option 'image'"),
]


@pytest.mark.parametrize(("spoil", "options", "says"), REFUSED, ids=[one[2] for one in REFUSED])
def test_refused(root: Path, spoil: Change, options: dict[str, Any], says: str) -> None:
    """One sentence says what is wrong, and nothing is opened."""
    spoil(root)

    with pytest.raises(SourceError, match=says) as caught:
        open_dataset(root, **options)
    assert "\n" not in str(caught.value)


BAD: list[tuple[Change, list[int], str]] = [
    (lambda r: change_table(r, TABLE, "frame_index", put(2, 9)), [2], r"says episode 0, frame 9"),
    (
        lambda r: change_table(r, TABLE, "task_index", put(3, 8)),
        [3],
        r"task_index is 8, which meta",
    ),
    (
        lambda r: change_table(r, TABLE, "timestamp", put(1, 0.13)),
        [1],
        r"no frame at 0\.1300 s within",
    ),
    (
        lambda r: change_table(r, TABLE, "timestamp", put(6, float("nan"))),
        [6],
        r"no frame at nan s within",
    ),
    (
        lambda r: change_table(r, EPISODES, f"videos/{TOP}/from_timestamp", put(1, 0.3)),
        [],
        "",
    ),  # another frame, which nothing contradicts
    (
        lambda r: change_table(r, EPISODES, f"videos/{TOP}/from_timestamp", put(1, 0.55)),
        [5, 6, 7],
        r"the nearest is shown at|lies beyond the video",
    ),
    (
        lambda r: change_table(r, TABLE, "action", put(6, None)),
        [6],
        r"a row of its window has no 'action'",
    ),
    (
        lambda r: change_table(r, TABLE, "note", put(5, None)),
        [5],
        r"a row of its window has no 'note'",
    ),
    (
        lambda r: change_table(r, TABLE, "grid", put(1, [[1, 2], [3, 4], [5]])),
        [0, 1, 2, 3],  # of its row group: where the others lie is not known
        r"is not int64 of the shape \[2, 3\] in meta/info.json",
    ),
    (lambda r: drop(r, TABLE, "reward"), [*range(8)], r"no column 'reward'"),
    (lambda r: overwrite(r / TABLE, 4, bytes(36)), [*range(4)], r"row group 0 .* cannot be read"),
    (
        lambda r: (r / f"videos/{WRIST}/chunk-000/file-000.mp4").write_bytes(b"no video"),
        [*range(8)],
        rf"videos/{WRIST}/chunk-000/file-000\.mp4",
    ),
    (
        lambda r: (r / f"videos/{WRIST}/chunk-000/file-001.mp4").unlink(),
        [*range(8, 14)],
        r"No such file",
    ),
]


@pytest.mark.parametrize(("spoil", "rows", "says"), BAD, ids=[one[2] for one in BAD])
def test_bad_frames(root: Path, spoil: Change, rows: list[int], says: str) -> None:
    """A frame that contradicts itself is a bad sample, and its neighbours are sound."""
    spoil(root)
    entries = open_dataset(root).fetch(range(14))
    bad = {entry.index: entry for entry in entries if isinstance(entry, BadSample)}

    assert sorted(bad) == rows
    for entry in bad.values():
        assert re.search(says, entry.reason)
        assert str(root) not in entry.reason


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (Path.unlink, "is not a file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "is cut off"),
        (lambda path: path.write_bytes(b""), "is empty"),
    ],
)
@pytest.mark.parametrize("pictures", [False, True])
def test_a_table_that_cannot_be_opened(
    root: Path, spoil: Callable[[Path], object], says: str, pictures: bool, tmp_path: Path
) -> None:
    """It costs its own frames, opening the dataset warns with their count, and the others are as before."""
    if pictures:
        root, robot = tmp_path / "pictures", Robot()
        names, table = {TOP: picture_feature((2, 2))}, robot.values()
        encoded = {TOP: [b"\x89PNG %d" % n for n in range(14)]}
        write_tables(root, table, robot.lengths, robot.files, 10, names, {}, encoded)
    wanted = open_dataset(root).fetch(range(14))
    spoil(root / TABLE)
    warning = rf"8 frames of .* are bad samples, because 1 table cannot be read: {TABLE} {says}"
    entries = open_with_warning(warning, root).fetch(range(14))

    assert [isinstance(entry, BadSample) for entry in entries] == [True] * 8 + [False] * 6
    assert all(f"{TABLE} {says}" in entry.reason for entry in entries[:8])
    assert str(root) not in entries[0].reason
    for entry, same in zip(entries[8:], wanted[8:], strict=True):
        assert {k: bytes(v) for k, v in entry.fields.items()} == {
            k: bytes(v) for k, v in same.fields.items()
        }


def test_another_rate_than_that_of_the_time_stamps_is_warned_of(root: Path) -> None:
    """Offsets count frames at the stated rate, so windows would span other times than the user says."""
    change_info(root, fps=20)

    open_with_warning(
        r"states 20 frames per second, but its time stamps show 10, and delta_timestamps count",
        root,
        delta_timestamps={"action": [0.0, 0.05]},
    )
    open_dataset(root)  # single frames do not depend on it


def test_annotations_of_frames_are_json(root: Path) -> None:
    """Features of the type "language" are lists of annotations."""
    table = pq.read_table(root / TABLE, partitioning=None)
    notes = [[{"role": "user", "content": f"öffne {n}", "tool_calls": None}] for n in range(8)]
    pq.write_table(table.append_column("language_events", pa.array(notes)), root / TABLE)
    features = json.loads((root / "meta/info.json").read_text())["features"]
    feature = {"dtype": "language", "shape": [1], "names": None}
    change_info(root, features=features | {"language_events": feature})
    [sample] = open_dataset(root, episodes=[0]).fetch([3])

    assert isinstance(sample, Sample)
    assert json.loads(bytes(sample.fields["language_events"])) == notes[3]


def test_recognised_by_its_version(made: Path, tmp_path: Path) -> None:
    """By the folder or its info.json; a folder meta with another info.json is no dataset of this kind."""
    assert isinstance(open_dataset(made), LeRobotDataset)
    assert open_dataset(made / "meta/info.json").fingerprint == open_dataset(made).fingerprint
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/info.json").write_text('{"name": "photos"}')
    with pytest.raises(SourceError) as caught:
        open_dataset(tmp_path)
    assert "LeRobot" not in str(caught.value)


def test_splits_are_episodes(root: Path) -> None:
    """As info.json names them, and they are the same data as the episodes that they name."""
    change_info(root, splits={"train": "0:2", "val": "2:3"})

    assert len(open_dataset(root, split="train")) == 8
    val = open_dataset(root, split="val")
    assert val.fingerprint == open_dataset(root, episodes=[2]).fingerprint
    assert [entry.key for entry in val.fetch([0])] == ["episode_000002#0"]


def test_little_memory_gives_the_same(made: Path) -> None:
    """Row groups that are not kept are read again."""
    options: dict[str, Any] = {"delta_timestamps": {"action": [-0.3, 0.0, 0.4]}}
    kept = open_dataset(made, **options)
    again = pickle.loads(pickle.dumps(kept))
    little = open_dataset(made, decoded_bytes=1, **options)
    wanted = [13, 0, 5, 0, 7, 12]

    expected = [fields(one) for one in kept.fetch(wanted)]
    for other in (little, again):
        assert [fields(one) for one in other.fetch(wanted)] == expected
    assert again.fingerprint == kept.fingerprint != little.take(3).fingerprint


@pytest.mark.parametrize("in_tables", [False, True])
def test_renamed_features(made: Path, tmp_path: Path, in_tables: bool) -> None:
    """Two cameras change names, and one feature of numbers: all that is read is the same under the new names."""
    root = made
    if in_tables:
        root, robot = tmp_path, Robot()
        pictures = {name: [f"{name} {n}".encode() for n in range(14)] for name in robot.sizes}
        cameras = {name: picture_feature(size) for name, size in robot.sizes.items()}
        write_tables(root, robot.values(), robot.lengths, robot.files, 10, cameras, {}, pictures)
    names = {TOP: WRIST, WRIST: TOP, "action": "control"}
    deltas: dict[str, Any] = {TOP: [-0.1, 0.0], "action": [0.0, 0.1]}
    plain = open_dataset(root, delta_timestamps=deltas)
    again = open_dataset(
        root, rename=names, delta_timestamps={names[name]: one for name, one in deltas.items()}
    )
    for dataset in (again, pickle.loads(pickle.dumps(again))):
        assert dataset.cameras == (WRIST, TOP)
        assert dataset.fingerprint != plain.fingerprint
        for entry, wanted in zip(dataset.fetch([0, 9]), plain.fetch([0, 9]), strict=True):
            expected = {
                re.sub("|".join(names), lambda stored: names[stored[0]], name): content
                for name, content in fields(wanted).items()
            }
            assert fields(entry) == expected


def fields(entry: Sample | BadSample) -> dict[str, bytes]:
    return {name: bytes(one) for name, one in entry.fields.items()}


def test_declared_types_are_those_of_the_fields(made: Path) -> None:
    """Every field that is said to be an array of a type and shape is one."""
    deltas = {"done": [0.0, 0.1], "grid": [0.0], "note": [0.0, 0.1], TOP: [0.0, 0.1]}
    dataset = open_dataset(made, delta_timestamps=deltas)
    [entry] = dataset.fetch([13])
    arrays = {
        name: np.load(io.BytesIO(one))
        for name, one in entry.fields.items()
        if bytes(one[:6]) == b"\x93NUMPY"
    }

    assert dataset.field_types == dataset.take(2).field_types
    assert {n: (one.dtype.name, one.shape) for n, one in arrays.items()} == dataset.field_types
    assert bytes(entry.fields["note"]) == b'["note 13", "note 13"]'
    assert arrays["note_is_pad"].tolist() == [False, True]


@pytest.mark.parametrize("where", ["info", "video_info"])
def test_distances_without_settings_are_warned_of(where: str, root: Path) -> None:
    """A video that is said to show distances, without the settings of its codes, is read with lerobot's, with a warning."""
    features = {
        TOP: {
            "dtype": "video",
            "shape": [48, 64, 3],
            "names": ["height", "width", "channels"],
            where: {"video.is_depth_map": True},
        }
    }
    told = json.loads((root / "meta/info.json").read_text())["features"] | features
    change_info(root, features=told)

    dataset = open_with_warning(rf"{TOP} .* holds distances, .* from 0.01 to 10.0 m", root)
    assert dataset.cameras == (WRIST, TOP)
    open_dataset(root, cameras=WRIST)
    features[TOP]["info"] = {"is_depth_map": True, "video.depth_min": 0.5}
    change_info(root, features=told | features)
    other = open_dataset(root)
    features[TOP]["info"] = {"is_depth_map": True, "video.depth_min": 0.6}
    change_info(root, features=told | features)
    assert len({dataset.fingerprint, other.fingerprint, open_dataset(root).fingerprint}) == 3


def test_frames_are_not_packed(made: Path, tmp_path: Path) -> None:
    """A shard would hold the whole video with every frame."""
    with pytest.raises(PrepareError, match="whose frames no shard holds"):
        pack(str(made), tmp_path / "shards")


def test_a_batch_reads_each_row_group_and_maps_each_video_once(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many samples, features and windows need them, and although no row group stays in memory."""
    deltas = {"action": [-0.4, 0.0, 0.4], TOP: [-0.4, 0.0], "note": [0.0, 0.1]}
    dataset = open_dataset(made, delta_timestamps=deltas, decoded_bytes=1)
    groups, videos = [], []
    real_read, real_payload = Table.read, VideoCamera.payload

    def read(table: Table, group: int, *given: Any) -> Any:
        groups.append((table.name, group))
        return real_read(table, group, *given)

    def payload(camera: VideoCamera, *given: Any) -> Any:
        field, content = real_payload(camera, *given)
        videos.append((field, len(content)))
        return field, content

    monkeypatch.setattr(Table, "read", read)
    monkeypatch.setattr(VideoCamera, "payload", payload)
    found = dataset.fetch([13, 0, 4, 8, 7, 0])

    assert all(isinstance(one, Sample) for one in found)
    assert len(groups) == len(set(groups)) == 4  # of four rows: 8 rows in one table, 6 in the other
    assert len(videos) == len(set(videos)) == 4  # two cameras with two videos each


def test_a_video_deleted_while_running_is_named(made: Path, tmp_path: Path) -> None:
    """The samples of that video are bad, and the reason has its path."""
    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    dataset = open_dataset(copy)
    dataset.fetch([0])
    video = copy / f"videos/{WRIST}/chunk-000/file-001.mp4"
    video.unlink()

    bad = [one for one in dataset.fetch(range(14)) if isinstance(one, BadSample)]
    assert [one.index for one in bad] == [*range(8, 14)]
    assert {one.reason for one in bad} == {f"{video} cannot be read: No such file or directory"}


def test_an_index_that_cannot_be_read_is_transient(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The samples of that video are bad for now, and those of other videos are sound."""
    real = Videos.frames_at

    def frames_at(videos: Videos, video: int, *given: Any) -> Any:
        if videos.files.name(video).endswith("file-001.mp4"):
            raise OSError(errno.EIO, "the disk does not answer")
        return real(videos, video, *given)

    monkeypatch.setattr(Videos, "frames_at", frames_at)
    found = open_dataset(made).fetch(range(14))

    bad = [one for one in found if isinstance(one, BadSample)]
    assert [one.index for one in bad] == [*range(8, 14)]
    assert {(one.transient, one.reason) for one in bad} == {
        (True, "a file cannot be read: the disk does not answer")
    }


def test_a_video_that_the_storage_withholds_is_transient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its samples may be good later."""
    dataset = open_dataset(Robot().write(tmp_path))
    failed = VideoError("the disk fails")
    failed.__cause__ = OSError(errno.EIO, "broken")
    monkeypatch.setattr(VideoIndex, "__getitem__", lambda *_: failed)
    [bad] = dataset.fetch([0])

    assert isinstance(bad, BadSample)
    assert bad.transient
    assert bad.reason.endswith("file-000.mp4: the disk fails")
