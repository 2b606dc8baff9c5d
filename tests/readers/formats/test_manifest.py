"""Manifests: which columns mean what, lines that are no samples, and paths that lead elsewhere."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from readers import BadSample, Sample, SourceError
from readers.formats.manifest import LineReader, ManifestDataset
from readers.video import read_seconds
from tests.support.annotated import put
from tests.support.damage import overwrite
from tests.support.entries import fetch_all
from tests.support.opening import assert_refused


def write(folder: Path, lines: list[Any], name: str = "train.jsonl") -> Path:
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / name).write_text("\n".join(text), "utf-8")
    return folder / name


GOOD = {"image": "a.jpg"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files whose content is their name."""
    put(tmp_path, {"outside.jpg": b"secret"})
    return put(tmp_path / "data", {name: name for name in ("a.jpg", "sub/ä b.PNG", "noext")})


@pytest.mark.parametrize(
    "column", ["image", "file", "file_name", "path", "image_path", "filepath", "img_path", "jpg"]
)
def test_image_columns(folder: Path, column: str) -> None:
    """The image is found under each of the usual names; the others are fields as text or JSON."""
    line = {"label": 3, column: "a.jpg", "text": "Ä", "tags": ["x", 1], "none": None}
    [sample] = ManifestDataset(write(folder, [line])).fetch([0])

    assert sample == Sample(
        0,
        "train.jsonl/a.jpg",
        {"jpg": b"a.jpg", "label": b"3", "text": "Ä".encode(), "tags": b'["x",1]'},
        3,
        image_field="jpg",
    )


@pytest.mark.parametrize("column", ["video", "mp4", "video_path", "path"])
def test_video_columns(folder: Path, column: str) -> None:
    """A video is the field of its extension, and mapped; the seconds of a clip are fields beside it."""
    (folder / "a.mp4").write_bytes(b"video")
    line = {column: "a.mp4", "label": 3, "start_seconds": 1.5, "end_seconds": 4}
    [sample] = ManifestDataset(write(folder, [line])).fetch([0])

    assert (sample.video_field, sample.label) == ("mp4", 3)
    assert isinstance(sample.video, memoryview)
    assert bytes(sample.video) == b"video"
    assert read_seconds(sample) == (1.5, 4.0)
    [named] = ManifestDataset(folder / "train.jsonl", image=column).fetch([0])
    assert named.video_field == "mp4"


def test_roles_that_are_named(folder: Path) -> None:
    """Columns that the caller names are taken, and a name that is not there is an error."""
    path = write(folder, [{"img": "noext", "photo": "sub/ä b.PNG", "y": "4", "label": 1, "who": 7}])
    dataset = ManifestDataset(path, image="photo", label="y", key="who")
    [sample] = dataset.fetch([0])

    assert (sample.key, sample.label, sample.image) == ("train.jsonl/7", 4, "sub/ä b.PNG".encode())
    assert next(iter(sample.fields)) == "png"
    assert ManifestDataset(path).fetch([0])[0].fields["jpg"] == b"noext"
    for role in ("image", "label", "key"):
        assert_refused(
            f"train.jsonl has no column 'nope' for {role}=",
            path,
            by=ManifestDataset,
            **{role: "nope"},
        )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"image": "a.jpg"', "line 2: it is no JSON"),
        (["a.jpg"], "line 2: it is no JSON object but"),
        ({"label": 3}, "line 2: it has no image's path"),
        ({"image": 7}, "line 2: it has an image's path that is 7"),
        ({"image": "a.jpg", "label": "cat"}, "line 2: the label 'cat' is not a whole number"),
        ({"image": "a.jpg", "label": [0, 1]}, "line 2: the label [0, 1] is not a whole number"),
        ("[" * 100_000, "line 2: it is no JSON"),
        ({"image": "gone.jpg"}, "the file gone.jpg cannot be read: No such file"),
        ({"image": "sub"}, "the file sub cannot be read"),
        ({"image": "a.jpg", "mask": "gone.png"}, "the file gone.png cannot be read"),
        ({"image": "a\0.jpg"}, "names no file"),
    ],
)
def test_bad_lines_are_bad_samples(folder: Path, line: Any, reason: str) -> None:
    """Each line that is no sample is one BadSample which says why; empty lines do not count."""
    good, bad, after = fetch_all(ManifestDataset(write(folder, [GOOD, line, "", GOOD])))

    assert (good.image, after.image) == (b"a.jpg", b"a.jpg")
    assert reason in bad.reason
    assert str(folder) not in bad.reason


def test_paths_that_leave_the_folder_are_refused(folder: Path) -> None:
    """Neither dots nor absolute paths lead out, and nothing tells where this machine keeps its files."""
    secret = str(folder.parent / "outside.jpg")
    outside = ["../outside.jpg", "sub/../../outside.jpg", secret, f"{folder}/../outside.jpg"]
    inside = [{"image": "sub/../a.jpg"}, {"image": f"{folder}/a.jpg"}]
    lines = [*({"image": name} for name in outside), GOOD | {"masks": ["../outside.jpg"]}, *inside]
    entries = fetch_all(ManifestDataset(write(folder, lines)))

    assert [isinstance(entry, Sample) for entry in entries] == [False] * 5 + [True] * 2
    reason = "outside.jpg lies outside the folder of the manifest"
    assert all(reason in entry.reason for entry in entries[:5])
    assert not any(str(folder) in repr(entry) for entry in entries)


def test_root(folder: Path) -> None:
    """Paths are relative to the root, where there is one, and absolute ones may lead below it."""
    secret = folder.parent / "outside.jpg"
    path = write(
        folder, [{"image": "outside.jpg"}, {"image": str(secret)}, {"image": "/etc/passwd"}]
    )
    entries = ManifestDataset(path, root=folder.parent).fetch([0, 1, 2])

    assert [getattr(entry, "image", None) for entry in entries] == [b"secret", b"secret", None]
    assert entries[2].reason == ".../passwd lies outside the root folder"


def test_masks(folder: Path) -> None:
    """The files that a line names are fields, one of them or several."""
    lines = [GOOD | {"mask": "sub/ä b.PNG"}, GOOD | {"masks": ["sub/ä b.PNG"] * 3}]
    first, second = fetch_all(ManifestDataset(write(folder, lines)))

    assert bytes(first.fields["mask.png"]) == "sub/ä b.PNG".encode()
    assert list(second.fields) == ["jpg", "mask.0.png", "mask.1.png", "mask.2.png", "masks"]


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("nowhere.jsonl", "is not a file"),
        ("binary.jsonl", "binary.jsonl names no files .*JSON object per line"),
        ("empty.jsonl", "empty.jsonl names no files"),
        ("text.jsonl", r"no column with a usual name for the image or video .its columns are text.*image="),
        ("list.jsonl", "list.jsonl names no files"),
        ("names.jsonl", r"names.jsonl has no label that can be read .*'dog' .*classes=\['cat'"),
    ],
)  # fmt: skip
def test_files_are_refused(folder: Path, name: str, match: str) -> None:
    """A manifest that is missing, empty, foreign, or names no images."""
    put(folder, {"binary.jsonl": bytes(range(256)) * 99})
    lines = {
        "empty": [],
        "text": [{"text": "a"}],
        "names": [GOOD | {"label": "dog"}],
        "list": json.dumps([GOOD], indent=1).split("\n"),
    }
    for stem, written in lines.items():
        write(folder, written, f"{stem}.jsonl")
    assert_refused(match, folder / name, by=ManifestDataset)


LINE = b'{"image": "a.jpg", "label": 1}'


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b"\xef\xbb\xbf" + LINE, 1),
        (LINE + b"\r\n" + LINE + b"\r\n", 2),
        (LINE + b"\n\n \n" + LINE, 2),
    ],
)
def test_lines_end_as_they_like(folder: Path, text: bytes, count: int) -> None:
    """A byte order mark, CR LF, and a last line with or without an end."""
    (folder / "a.jsonl").write_bytes(text)
    dataset = ManifestDataset(folder / "a.jsonl")

    assert [entry.image for entry in fetch_all(dataset)] == [b"a.jpg"] * count
    assert dataset.column("label").tolist() == [1] * count


def test_fingerprint(folder: Path) -> None:
    """It sees other boxes and other sizes of files, and not when they were written."""
    line = GOOD | {"boxes": [[1, 2, 3, 4]]}

    def fingerprint(line: dict[str, Any]) -> str:
        path = write(folder, [line])
        os.utime(path, ns=(0, 0))
        return ManifestDataset(path).fingerprint

    first = ManifestDataset(write(folder, [line])).fingerprint
    other = fingerprint({**line, "boxes": [[1, 2, 3, 5]]})
    assert fingerprint(line) == first != other
    (folder / "a.jpg").write_bytes(b"longer")
    assert fingerprint(line) not in (first, other)


def test_an_indexed_manifest_opens_without_being_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time the lines are not gone through."""
    path = write(folder, [{"image": "a.jpg", "label": number} for number in range(3000)])
    ManifestDataset(path)
    monkeypatch.setattr(LineReader, "find_lines", lambda *_: pytest.fail("read again"))
    dataset = ManifestDataset(path)

    assert dataset.fetch([2999])[0].label == 2999


@pytest.mark.parametrize(
    "bad",
    [
        {"image": "a.jpg", "label": 10**30},
        {"image": "a.jpg", "label": 1e300},
        {"image": "a.jpg", "label": -5},
        {"image": "a.jpg", "label": False},
        {"image": "\ud800.jpg"},
        {"image": "\ud800.jpg", "label": 10**30},
        {"image": "a\0.jpg"},
        {"image": "a.jpg", "text": "\ud800"},
        {"image": "a.jpg", "mask": "\ud800.png"},
    ],
    ids=repr,
)
@pytest.mark.parametrize("first", [False, True])
def test_one_bad_line(folder: Path, bad: dict[str, Any], first: bool) -> None:
    """It takes no other line with it, wherever it stands."""
    good = {"image": "a.jpg", "label": 1}
    dataset = ManifestDataset(write(folder, [bad, good] if first else [good, bad]))
    entries = dataset.fetch([0, 1])

    assert [isinstance(entry, BadSample) for entry in entries] == [first, not first]
    if bad.get("label", 1) == 1:
        assert dataset.column("label")[int(first)] == 1
    else:
        with pytest.raises(SourceError, match="1 of 2 samples have a label that cannot be read"):
            dataset.column("label")
    assert "\n" not in entries[int(not first)].reason
    assert len(dataset.fingerprint) == 32


@pytest.mark.parametrize("text", ["\ud800", "a\0b"])
def test_half_characters_in_names(folder: Path, text: str) -> None:
    """In a key or the name of a column they do no harm."""
    lines = [
        {"image": "a.jpg", "x": [text], text: 1, "boxes": [text]},
        {"image": "a.jpg", "key": text},
    ]
    dataset = ManifestDataset(write(folder, lines))
    first, second = dataset.fetch([0, 1])

    assert isinstance(second, BadSample if text == "\ud800" else Sample)  # the key is a field, too
    assert second.key == f"train.jsonl/{text}".replace("\ud800", "\\ud800")
    assert first.fields[text] == b"1"
    assert json.loads(bytes(first.fields["json"])) == {"box_format": "xyxy", "boxes": [text]}
    assert len(dataset.fingerprint) == 32


def test_fingerprint_of_a_file_damaged_in_use(folder: Path) -> None:
    """What is no longer what was indexed has another identity, and is a bad sample."""
    path = write(folder, [{"image": "a.jpg"}])
    sound, dataset = ManifestDataset(path).fingerprint, ManifestDataset(path)
    status = path.stat()
    overwrite(path, 0, b"\xff")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert dataset.fingerprint != sound
    assert isinstance(dataset.fetch([0])[0], BadSample)
