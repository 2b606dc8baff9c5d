"""Videos are handed out unread; lists name clips of them; files are read in threads where they are slow."""

import importlib
import json
import os
import pickle
import resource
import time
from pathlib import Path

import pytest

from readers import BadSample, FolderDataset, Sample, SourceError, open_dataset
from readers.video import ClipListDataset, VideoFolderDataset

TREE = ("run/b.mp4", "run/deep/a.MKV", "run/b.json", "jump/c.webm", "jump/d.mov", "jump/x.jpg")


def grow(root: Path, names: tuple[str, ...]) -> Path:
    """Write a file for each name; its content is its name."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


def told(entry: Sample | BadSample) -> tuple[str, dict[str, str], int]:
    assert isinstance(entry, Sample), entry
    return (
        entry.key,
        {name: bytes(data).decode() for name, data in entry.fields.items()},
        entry.label,
    )


def test_class_folders(tmp_path: Path) -> None:
    """Fields are the extensions in lower case, classes and what lies beside are as for images."""
    dataset = VideoFolderDataset(grow(tmp_path, TREE))

    assert [told(entry) for entry in dataset.fetch(range(len(dataset)))] == [
        ("jump/c.webm", {"webm": "jump/c.webm"}, 0),
        ("jump/d.mov", {"mov": "jump/d.mov"}, 0),
        ("run/b.mp4", {"mp4": "run/b.mp4", "json": "run/b.json"}, 1),
        ("run/deep/a.MKV", {"mkv": "run/deep/a.MKV"}, 1),
    ]
    assert dataset.class_names == ("jump", "run")
    assert dataset.column("label").tolist() == [0, 0, 1, 1]
    assert dataset.column("num_bytes").tolist() == [11, 10, 19, 14]
    assert dataset.column("height").tolist() == [0, 0, 0, 0]
    assert dataset.where("label == 'run'").fetch([0])[0].key == "run/b.mp4"


def test_folder_without_videos_is_refused(tmp_path: Path) -> None:
    """The error names what was looked for; a class without videos is one, too."""
    with pytest.raises(
        SourceError, match=r"holds no videos: put files there .* \.mp4, .*\.3gp; .*left out"
    ):
        VideoFolderDataset(grow(tmp_path / "a", ("x.jpg",)))
    with pytest.raises(SourceError, match=r"has a class folder without videos \(jump\)"):
        VideoFolderDataset(grow(tmp_path / "b", ("run/a.mp4", "jump/x.jpg")))


def test_nothing_is_read_and_no_descriptor_stays(tmp_path: Path) -> None:
    """Views of 300 sparse videos of 1 TB in all take neither memory nor descriptors."""
    for number in range(300):
        with (tmp_path / f"{number:03d}.mp4").open("wb") as file:
            file.truncate(1 << 32)
    dataset = VideoFolderDataset(tmp_path)
    num_open, peak = (
        len(list(Path("/proc/self/fd").iterdir())),
        resource.getrusage(resource.RUSAGE_SELF),
    )
    samples = dataset.fetch(range(300))

    assert len(list(Path("/proc/self/fd").iterdir())) <= num_open
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak.ru_maxrss < 50_000  # kB
    assert {len(entry.fields["mp4"]) for entry in samples} == {1 << 32}
    assert (samples[299].fields["mp4"][-1], dataset.column("num_bytes").sum()) == (0, 300 << 32)


def test_unreadable_videos_leave_their_neighbours_alone(tmp_path: Path) -> None:
    """A video that went away and a pipe are bad samples; an empty file is an empty payload."""
    dataset = VideoFolderDataset(grow(tmp_path, ("a.mp4", "b.mp4", "c.mp4", "d.mp4")))
    (tmp_path / "a.mp4").write_bytes(b"")
    (tmp_path / "b.mp4").unlink()
    (tmp_path / "c.mp4").unlink()
    os.mkfifo(tmp_path / "c.mp4")
    empty, gone, pipe, good = dataset.fetch([0, 1, 2, 3])

    assert told(empty) == ("a.mp4", {"mp4": ""}, -1)
    assert told(good) == ("d.mp4", {"mp4": "d.mp4"}, -1)
    assert gone == BadSample(
        1, "b.mp4", "read", "the file cannot be read: No such file or directory"
    )
    assert pipe == BadSample(2, "c.mp4", "read", "the file cannot be read: not a regular file")


LINES = """\
# path, seconds, label
run/b.mp4
run/b.mp4 7

with space/c 3.webm 0.5 2.25 1
run/b.mp4\t1e1\t12
run/b.mp4 0 1 -1
"""


def test_clip_list(tmp_path: Path) -> None:
    """A line is a video, with a label, with a time, or with both; paths may hold spaces."""
    grow(tmp_path, ("run/b.mp4", "with space/c 3.webm"))
    (tmp_path / "clips.txt").write_text(LINES)
    dataset = ClipListDataset(tmp_path / "clips.txt")
    entries = dataset.fetch(range(len(dataset)))
    clips = [json.loads(bytes(entry.fields.get("clip", b"null"))) for entry in entries]

    assert [(entry.key, entry.label) for entry in entries] == [
        ("run/b.mp4", -1),
        ("run/b.mp4", 7),
        ("with space/c 3.webm@0.5-2.25", 1),
        ("run/b.mp4@10.0-12.0", -1),
        ("run/b.mp4@0.0-1.0", -1),
    ]
    assert clips == [
        None,
        None,
        {"start_seconds": 0.5, "end_seconds": 2.25},
        {"start_seconds": 10.0, "end_seconds": 12.0},
        {"start_seconds": 0.0, "end_seconds": 1.0},
    ]
    assert bytes(entries[2].fields["webm"]) == b"with space/c 3.webm"
    assert pickle.loads(pickle.dumps(dataset)).fetch([2]) == [entries[2]]


def test_clip_list_in_csv(tmp_path: Path) -> None:
    """Commas part the columns, the first line may name them, and quotes guard commas in names."""
    (tmp_path / "clips.csv").write_text(
        'path,start,end,label\nrun/b.mp4,0.5,2,3\n"a, b.mov", 1, 2,\n\nc.mkv,4\n'
    )
    dataset = ClipListDataset(tmp_path / "clips.csv")
    keys = [(entry.key, dataset.column("label")[entry.index]) for entry in dataset.fetch([0, 1, 2])]

    assert keys == [("run/b.mp4@0.5-2.0", 3), ("a, b.mov@1.0-2.0", -1), ("c.mkv", 4)]
    (tmp_path / "clips.csv").write_text(f'a.mp4,1\n"b{"x" * (1 << 18)}.mp4",2\n')
    with pytest.raises(SourceError, match=r"clips.csv, line 2 .* 131,072 characters"):
        ClipListDataset(tmp_path / "clips.csv")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.txt 3", r"'a.txt 3' is no video \(.mp4, .*\)"),
        ("a.mp4 1 2 3 4", "4 numbers follow a.mp4"),
        ("a.mp4 2 1", "a clip must have 0 <= start < end, got 2 and 1"),
        ("a.mp4 -1 1 0", "a clip must have 0 <= start < end, got -1 and 1"),
        ("a.mp4 1-2 3", "start and end must be seconds, got 1-2 and 3"),
        ("a.mp4 1.5", "the label '1.5' is not a whole number"),
        ("a.mp4 0 1 -7", "the label '-7' is negative"),
        ("b c.mp4 dog", "the label 'dog' is not a whole number"),
        ("path label", r"'path label' is no video"),  # a header, but not in the first line
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, line: str, message: str) -> None:
    """The error names the list, the line and what is allowed."""
    (tmp_path / "clips.txt").write_text(f"ok.mp4\n{line}\n")

    with pytest.raises(SourceError, match=f"clips.txt, line 2: {message}"):
        ClipListDataset(tmp_path / "clips.txt")


def test_empty_clip_list_is_refused(tmp_path: Path) -> None:
    """A list without a line is no dataset."""
    (tmp_path / "clips.tsv").write_text("# nothing\n")

    with pytest.raises(SourceError, match="names no videos: write one path per line"):
        ClipListDataset(tmp_path / "clips.tsv")


@pytest.mark.parametrize("header", ["path label", "# clips\npath\tstart\tend\tlabel"])
def test_columns_may_be_named(tmp_path: Path, header: str) -> None:
    """The first line of a list may say what stands in the others, and the list is still known for what it is."""
    (tmp_path / "clips.tsv").write_text(f"{header}\nv.mp4\t3\n")
    dataset = open_dataset(tmp_path / "clips.tsv")

    assert isinstance(dataset, ClipListDataset)
    assert dataset.column("label").tolist() == [3]


def test_lists_may_lead_out_of_their_folder(tmp_path: Path) -> None:
    """Keys are then the paths below the folder that holds all videos, whether they are written absolutely or not."""
    grow(tmp_path, ("videos/run/a.mp4", "videos/b.mkv", "lists/c.mp4"))
    prints = []
    for lines in (
        f"{tmp_path}/videos/run/a.mp4 0 1 5\n../videos/b.mkv",
        "../videos/run/a.mp4 0 1 5\n../videos/b.mkv",
    ):
        (tmp_path / "lists/clips.txt").write_text(lines)
        dataset = ClipListDataset(tmp_path / "lists/clips.txt")
        entries = dataset.fetch([0, 1])
        prints.append(dataset.fingerprint)

        assert [(entry.key, entry.label) for entry in entries] == [
            ("run/a.mp4@0.0-1.0", 5),
            ("b.mkv", -1),
        ]
        assert bytes(entries[0].fields["mp4"]) == b"videos/run/a.mp4"
    assert prints[0] == prints[1]


def test_videos_are_opened_by_their_paths(tmp_path: Path) -> None:
    """One video, several, a pattern and a folder without class folders are samples without labels, as images are."""
    grow(tmp_path, ("run/a.mp4", "run/b.MKV", "c.webm"))
    sources = (
        tmp_path / "c.webm",
        [tmp_path / "run/b.MKV", tmp_path / "c.webm"],
        tmp_path / "run/*.*",
        tmp_path / "run",
    )
    opened = [open_dataset(source) for source in sources]
    told_of = [[told(entry) for entry in one.fetch(range(len(one)))] for one in opened]

    assert told_of == [
        [("c.webm", {"webm": "c.webm"}, -1)],
        [("run/b.MKV", {"mkv": "run/b.MKV"}, -1), ("c.webm", {"webm": "c.webm"}, -1)],
        [("a.mp4", {"mp4": "run/a.mp4"}, -1), ("b.MKV", {"mkv": "run/b.MKV"}, -1)],
        [("a.mp4", {"mp4": "run/a.mp4"}, -1), ("b.MKV", {"mkv": "run/b.MKV"}, -1)],
    ]
    assert isinstance(opened[3], VideoFolderDataset)
    with pytest.raises(SourceError, match=r"none\.mp4 does not exist"):
        open_dataset(tmp_path / "none.mp4")
    with pytest.raises(SourceError, match=r"c\.txt is no video: give files that end in \.mp4"):
        ClipListDataset([tmp_path / "c.txt"])
    with pytest.raises(SourceError, match="the list of videos is empty"):
        ClipListDataset([])


def test_ts_is_not_taken(tmp_path: Path) -> None:
    """TypeScript ends like a transport stream; the error says what to do with real ones."""
    grow(tmp_path, ("class/a.ts",))

    for source in (tmp_path, tmp_path / "class/a.ts"):
        with pytest.raises(SourceError, match=r"a\.ts is not taken for a video.*call it \.mts"):
            open_dataset(source)
    (tmp_path / "class/b.mts").touch()
    assert len(open_dataset(tmp_path)) == 1


def test_fingerprint_knows_the_seconds(tmp_path: Path) -> None:
    """The same videos with other times are other data; their place does not matter."""
    prints = []
    for place, seconds in (("a", "0 1"), ("b", "0 1"), ("c", "0 2"), ("d", "")):
        grow(tmp_path / place, ("v.mp4",))
        (tmp_path / place / "clips.txt").write_text(f"v.mp4 {seconds}\n")
        prints.append(ClipListDataset(tmp_path / place / "clips.txt").fingerprint)

    assert (prints[0], len(set(prints))) == (prints[1], 3)


def test_slow_files_are_read_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files take their time to come, four and more are waited for at once, and come in order."""
    names = tuple(f"{number:03d}.jpg" for number in range(100))
    dataset = FolderDataset(grow(tmp_path, names))
    (tmp_path / "050.jpg").unlink()
    expected = dataset.fetch(range(100))
    module = importlib.import_module("readers.formats.files.dataset")
    read = module.read_whole
    under_way: list[str] = []
    most = 0

    def slow(path: str) -> bytes:
        nonlocal most
        under_way.append(path)
        most = max(most, len(under_way))
        time.sleep(0.01)
        under_way.remove(path)
        return read(path)

    monkeypatch.setattr(module, "read_whole", slow)
    fetched = dataset.fetch(range(100))

    assert most >= 4
    assert fetched == expected
    assert [entry.index for entry in fetched if isinstance(entry, BadSample)] == [50]


def test_columns_of_images_count_what_lies_beside(tmp_path: Path) -> None:
    """The size of a sample is that of all its files, and unknown when one of them is gone."""
    grow(tmp_path, ("cat/a.jpg", "cat/a.json", "dog/b.jpg", "dog/c.jpg"))
    dataset = FolderDataset(tmp_path)
    (tmp_path / "dog/c.jpg").unlink()

    assert dataset.column("label").tolist() == [0, 1, 1]
    assert dataset.column("num_bytes").tolist() == [len("cat/a.jpg") + len("cat/a.json"), 9, -1]
