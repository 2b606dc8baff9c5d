"""Manifests: which columns mean what, lines that are no samples, and paths that lead elsewhere."""

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dali_pipes.targets import TargetReader
from gpu_aug import BoxParams, HorizontalFlip, KeypointParams, Recipe
from readers import BadSample, Sample, SourceError
from readers.formats.manifest import LineReader, ManifestDataset
from readers.video import read_seconds


def write(folder: Path, lines: list[Any], name: str = "train.jsonl") -> Path:
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / name).write_text("\n".join(text), "utf-8")
    return folder / name


def png(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files whose content is their name."""
    for name in ("a.jpg", "sub/ä b.PNG", "noext"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_bytes(name.encode())
    (tmp_path / "outside.jpg").write_bytes(b"secret")
    return tmp_path / "data"


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
    assert sample.image == b"a.jpg"


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
        with pytest.raises(SourceError, match=f"train.jsonl has no column 'nope' for {role}="):
            ManifestDataset(path, **{role: "nope"})


def test_bad_lines_are_bad_samples(folder: Path) -> None:
    """Each line that is no sample is one BadSample which says why; empty lines do not count."""
    good = {"image": "a.jpg"}
    lines = [
        (good, ""),
        ('{"image": "a.jpg"', "line 2: it is no JSON"),
        ("", None),
        (["a.jpg"], "line 4: it is no JSON object but"),
        ({"label": 3}, "line 5: it has no image's path"),
        ({"image": 7}, "line 6: it has an image's path that is 7"),
        ({"image": "a.jpg", "label": "cat"}, "line 7: the label 'cat' is not a whole number"),
        ("[" * 100_000, "line 8: it is no JSON"),
        ({"image": "gone.jpg"}, "the file gone.jpg cannot be read: No such file"),
        ({"image": "sub"}, "the file sub cannot be read"),
        ({"image": "a.jpg", "mask": "gone.png"}, "the file gone.png cannot be read"),
        ({"image": "a\0.jpg"}, "names no file"),
        (good, ""),
    ]
    dataset = ManifestDataset(write(folder, [line for line, _ in lines]))
    entries = dataset.fetch(range(len(dataset)))
    expected = [reason for _, reason in lines if reason is not None]

    assert len(entries) == len(expected) == 12
    for entry, reason in zip(entries, expected, strict=True):
        assert isinstance(entry, BadSample) == bool(reason), entry
        assert not reason or reason in entry.reason
        assert str(folder) not in getattr(entry, "reason", "")


def test_paths_that_leave_the_folder_are_refused(folder: Path) -> None:
    """Neither dots nor absolute paths lead out, and nothing tells where this machine keeps its files."""
    secret = str(folder.parent / "outside.jpg")
    paths = ["../outside.jpg", "sub/../../outside.jpg", secret, f"{folder}/../outside.jpg"]
    path = write(
        folder,
        [
            *({"image": p} for p in paths),
            {"image": "a.jpg", "masks": ["../outside.jpg"]},
            {"image": "sub/../a.jpg"},
            {"image": f"{folder}/a.jpg"},
        ],
    )
    dataset = ManifestDataset(path)
    entries = dataset.fetch(range(7))

    assert [isinstance(entry, BadSample) for entry in entries] == [True] * 5 + [False] * 2
    assert all(
        "outside.jpg lies outside the folder of the manifest" in e.reason for e in entries[:5]
    )
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


def test_targets_are_what_the_loader_reads(tmp_path: Path) -> None:
    """Boxes, keypoints and masks of a line go through the loader's own reader."""
    mask = np.arange(12, dtype=np.uint8).reshape(3, 4)
    (tmp_path / "a.jpg").write_bytes(b"image")
    (tmp_path / "m.png").write_bytes(png(mask))
    targets = {
        "boxes": [[0, 0, 2, 2], [1, 1, 3, 3]],
        "labels": [4, 5],
        "keypoints": [[1, 2]],
        "keypoint_labels": [7],
    }
    path = write(
        tmp_path,
        [
            {"image": "a.jpg", **targets, "mask": "m.png"},
            {"image": "a.jpg", "masks": ["m.png"] * 3},
        ],
    )
    first, second = ManifestDataset(path).fetch([0, 1])
    recipe = Recipe([HorizontalFlip()], boxes=BoxParams(), keypoints=KeypointParams())
    reader = TargetReader(recipe, frozenset({"boxes", "keypoints", "masks"}))
    found = reader.read(first.fields, (3, 4)).targets

    assert first.label == -1
    assert np.array_equal(found.boxes, targets["boxes"])
    assert np.array_equal(found.box_labels, [4, 5])
    assert np.array_equal(found.keypoints, [[1, 2]])
    assert np.array_equal(found.masks, mask[None])
    assert np.array_equal(reader.read(second.fields, (3, 4)).targets.masks, [mask] * 3)


def test_files_are_refused(folder: Path) -> None:
    """A manifest that is missing, empty, foreign, or names no images."""
    (folder / "binary.jsonl").write_bytes(bytes(range(256)) * 99)
    write(folder, [], "empty.jsonl")
    write(folder, [{"text": "a"}], "text.jsonl")
    write(folder, [{"image": "a.jpg", "label": "dog"}], "names.jsonl")
    write(folder, json.dumps([{"image": "a.jpg"}], indent=1).split("\n"), "list.jsonl")
    for name, match in {
        "nowhere.jsonl": "is not a file",
        "binary.jsonl": "binary.jsonl names no files .*JSON object per line",
        "empty.jsonl": "empty.jsonl names no files",
        "text.jsonl": r"no column that is known to name the image or video .its columns are text.*image=",
        "list.jsonl": "list.jsonl names no files",
        "names.jsonl": r"names.jsonl has no label that can be read .*'dog' .*classes=\['cat'",
    }.items():
        with pytest.raises(SourceError, match=match):
            ManifestDataset(folder / name)


def test_lines_end_as_they_like(folder: Path) -> None:
    """A byte order mark, CR LF, and a last line with or without an end."""
    line = b'{"image": "a.jpg", "label": 1}'
    for number, text in enumerate(
        [b"\xef\xbb\xbf" + line, line + b"\r\n" + line + b"\r\n", line + b"\n\n \n" + line]
    ):
        path = folder / f"{number}.jsonl"
        path.write_bytes(text)
        dataset = ManifestDataset(path)
        assert [entry.image for entry in dataset.fetch(range(len(dataset)))] == [
            b"a.jpg"
        ] * text.count(b"{")
        assert set(dataset.column("label").tolist()) == {1}


def test_fingerprint(folder: Path) -> None:
    """It sees other boxes and other sizes of files, and not when they were written."""
    line = {"image": "a.jpg", "boxes": [[1, 2, 3, 4]]}
    path = write(folder, [line])
    first = ManifestDataset(path).fingerprint
    os.utime(path, ns=(0, 0))
    assert ManifestDataset(path).fingerprint == first
    write(folder, [{**line, "boxes": [[1, 2, 3, 5]]}])
    assert ManifestDataset(path).fingerprint != first
    write(folder, [line])
    assert ManifestDataset(path).fingerprint == first
    (folder / "a.jpg").write_bytes(b"longer")
    assert ManifestDataset(path).fingerprint != first


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
    with path.open("r+b") as file:
        file.write(b"\xff")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert dataset.fingerprint != sound
    assert isinstance(dataset.fetch([0])[0], BadSample)
