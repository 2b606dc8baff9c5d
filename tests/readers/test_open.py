import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from braceexpand import braceexpand

import readers
from readers import FolderDataset, ListDataset, Sample, SourceError, TarDataset, open_dataset
from readers.storage.paths import expand_braces
from tests.support.tars import write_tar


def write_shard(path: Path, key: str = "a") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_tar(path, [(f"{key}.jpg", b"x")])


def write_image(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(path.name.encode())
    return path


def keys_of(dataset: readers.Dataset) -> list[str]:
    return [entry.key for entry in dataset.fetch(range(len(dataset)))]


NUMBERED = [f"train-{number:03d}.tar" for number in range(12)]


@pytest.mark.parametrize(
    ("files", "source", "kind", "keys"),
    [
        (["cat/a.jpg"], "", FolderDataset, ["cat/a.jpg"]),
        (["train.tar"], "train.tar", TarDataset, ["train.tar/a"]),
        (NUMBERED, "train-{008..011}.tar", TarDataset, [f"{name}/a" for name in NUMBERED[8:]]),
        (
            ["a.tar", "b.tar", "c.tar"],
            ["c.tar", "{a,b}.tar"],
            TarDataset,
            ["c.tar/a", "a.tar/a", "b.tar/a"],
        ),
        (
            ["train-b.tar", "train-a.tar", "val.tar"],
            "train-*.tar",
            TarDataset,
            ["train-a.tar/a", "train-b.tar/a"],
        ),
        (["b.jpg", "a.jpg"], ["b.jpg", "a.jpg"], ListDataset, ["b.jpg", "a.jpg"]),
        (["photo.jpg"], "photo.jpg", ListDataset, ["photo.jpg"]),
        # A file that is there is taken by its name, whatever that looks like.
        (["{a,b}.tar"], "{a,b}.tar", TarDataset, ["{a,b}.tar/a"]),
        (["{1..2}.jpg"], ["{1..2}.jpg"], ListDataset, ["{1..2}.jpg"]),
    ],
    ids=str,
)
def test_sources(
    tmp_path: Path, files: list[str], source: str | list[str], kind: type, keys: list[str]
) -> None:
    """Folders, files, patterns and lists of them, as texts and as paths, in the order that they say."""
    for name in files:
        (write_shard if name.endswith(".tar") else write_image)(tmp_path / name)
    for join in (Path, "{}/{}".format):
        paths = [join(tmp_path, name) for name in ([source] if isinstance(source, str) else source)]
        given = paths[0] if isinstance(source, str) else paths
        dataset = open_dataset(given)

        assert isinstance(dataset, kind)
        assert keys_of(dataset) == keys


@pytest.mark.parametrize(("name", "source"), [("shard-0", "shard-0"), ("a.tar", "")])
def test_a_format_that_was_named(tmp_path: Path, name: str, source: str) -> None:
    """It says what an unusual file is, and what is taken out of a folder."""
    write_shard(tmp_path / name)
    write_image(tmp_path / "b.jpg")

    assert keys_of(open_dataset(tmp_path / source, format="tar")) == [f"{name}/a"]


@pytest.mark.parametrize("extension", ["txt", "lst", "tsv", "TXT"])
def test_list_file(tmp_path: Path, extension: str) -> None:
    """A list is known by its extension."""
    path = tmp_path / f"files.{extension}"
    path.write_text("a.jpg\t5\n")
    write_image(tmp_path / "a.jpg")
    dataset = open_dataset(path)

    assert isinstance(dataset, ListDataset)
    assert dataset.fetch([0])[0].label == 5


def test_folder_of_shards(tmp_path: Path) -> None:
    """A folder with shards and no images opens as shards, sorted; other files do not matter."""
    for name in "hcafbgde":
        write_shard(tmp_path / f"{name}.tar")
    (tmp_path / "readme.md").touch()
    first = open_dataset(tmp_path)
    again = open_dataset(tmp_path)  # now with the side-car indexes beside the shards

    assert isinstance(first, TarDataset)
    assert keys_of(first) == keys_of(again) == [f"{name}.tar/a" for name in "abcdefgh"]


@pytest.mark.parametrize("other", ["photo.jpg", "cat/photo.jpg"])
def test_folder_of_shards_and_images_is_refused(tmp_path: Path, other: str) -> None:
    """What is meant cannot be told when shards and images lie side by side."""
    write_shard(tmp_path / "a.tar")
    write_image(tmp_path / other)

    with pytest.raises(SourceError, match=r"holds shards \(a\.tar\) and (photo\.jpg|cat)"):
        open_dataset(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "does not exist: give a folder, a list file, shards or a URL"),
        ("missing.tar", "missing.tar is not a file"),
        ("missing-{0..4}.tar", r"missing-0.tar is not a file \(5 of 5 shards are missing\)"),
        ("missing-*.tar", r"missing-\*.tar fits no file: correct the pattern"),
        (
            "notes.md",
            r"is of no known kind: give a folder, or files that end in \.txt, .*\.parquet",
        ),
        ("", "holds no images"),
        ("a.tar.gz", r"can only be read forward: .*gpu-aug pack"),
        ("a.tgz", r"can only be read forward: say format='stream'"),
    ],
)
def test_what_cannot_be_opened_is_refused(tmp_path: Path, name: str, message: str) -> None:
    """The error names the source and what could be given instead."""
    folder = tmp_path / "data"
    folder.mkdir()
    if name == "notes.md":
        (folder / name).write_text("x")
    if name.endswith("gz"):
        tarfile.open(folder / name, "w:gz").close()

    with pytest.raises(SourceError, match=message) as caught:
        open_dataset(folder / name)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_of_the_hub_is_no_path() -> None:
    """Other libraries take the name without the scheme."""
    with pytest.raises(
        SourceError, match=r"lerobot/pusht does not exist.*hf://datasets/lerobot/pusht\)"
    ):
        open_dataset("lerobot/pusht")


def test_a_pack_that_was_stopped_is_refused(tmp_path: Path) -> None:
    """A part of the data is not taken for the whole; named by a pattern it can be had."""
    write_shard(tmp_path / "shard-000000.tar")
    (tmp_path / "manifest.json").write_text('{"complete": false}')

    with pytest.raises(SourceError, match="was not packed to its end"):
        open_dataset(tmp_path)
    assert len(open_dataset(tmp_path / "*.tar")) == 1
    (tmp_path / "manifest.json").write_text('{"complete": true}')
    assert len(open_dataset(tmp_path)) == 1


def test_copies_that_earlier_versions_tiled(tmp_path: Path) -> None:
    """A finished copy and its notes are ordinary data; a copy whose plan is still there is refused as unfinished."""
    shard = write_shard(tmp_path / "a.tar")
    folder = tmp_path / ".gpuaug-plan"
    folder.mkdir()
    (folder / "done-0123.json").write_text('{"version": 1, "sizes": [3], "done": {}}')
    assert keys_of(open_dataset(tmp_path)) == keys_of(open_dataset(shard))
    (folder / "tiling.plan").write_text("{}")

    with pytest.raises(SourceError, match="was not tiled to its end, and gpu-aug tile was removed"):
        open_dataset(tmp_path)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (5, {}, "source=the int 5 is no path"),
        ("", {}, r"the source is empty text: give a path"),
        (["a.tar", ""], {}, "the source is empty text"),
        ("photos", {"split": 1}, r"split=1 is no name"),
        ("photos", {"split": ["train", "val"]}, r"split=\['train', 'val'\] is no name"),
        ("a{0..99999999999}.tar", {}, "stands for more than 1,000,000 files"),
        ("a{0..9999}b{0..9999}.tar", {}, "stands for more than 1,000,000 files"),
    ],
)
def test_what_is_no_source_is_refused(source: Any, options: dict[str, Any], message: str) -> None:
    """The error says what was given and what is allowed."""
    with pytest.raises(SourceError, match=message):
        open_dataset(source, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "zip"}, r"format='zip' is not known: give one of folder, list,"),
        ({"image": "photo"}, r"WebDataset tar has no option 'image': it has "),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    """What a format does not know is an error that says what it knows."""
    with pytest.raises(SourceError, match=message):
        open_dataset(write_shard(tmp_path / "a.tar"), **options)


def test_empty_and_mixed_sequences_are_refused(tmp_path: Path) -> None:
    """A sequence holds something, and one kind of it."""
    with pytest.raises(SourceError, match="the list of sources is empty"):
        open_dataset([])
    with pytest.raises(
        SourceError, match=r"one format, got .*a\.tar \(WebDataset tar\) and .*a\.jpg"
    ):
        open_dataset([write_shard(tmp_path / "a.tar"), tmp_path / "a.jpg"])


@pytest.mark.parametrize(
    "pattern",
    [
        "train-{000000..000099}.tar",
        "{1..10}",
        "{08..11}.tar",
        "{0..10}{1..010}{010..7}",
        "{a,b,}x{0..2}",
        "plain.tar",
        "{5..5}",
        "a{x}b{}c",
        "{train,val}/{00..01}-{a,b}.tar",
        "{a,b{1..2}}.tar",
        "{0..9..3}.tar",
    ],
)
def test_braces_agree_with_braceexpand(pattern: str) -> None:
    """Patterns stand for the names that webdataset takes them for."""
    assert expand_braces(pattern) == list(braceexpand(pattern))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a{0..1.tar", ["a{0..1.tar"]),  # braceexpand raises an error
        ("{a,b}}.tar", ["{a,b}}.tar"]),
        (
            r"a\{0,1}.tar",
            [r"a\0.tar", r"a\1.tar"],
        ),  # for WebDataset the backslash takes a brace its meaning
    ],
)
def test_braces_differ_from_braceexpand(pattern: str, names: list[str]) -> None:
    """Names of files with single braces stay, and so do backslashes."""
    assert expand_braces(pattern) == names


def test_public_names_are_what_they_say() -> None:
    """__all__ is sorted, and holds every public class and function of the package."""
    here = {
        name
        for name, value in vars(readers).items()
        if getattr(value, "__module__", "").startswith("readers.") and not name.startswith("_")
    }

    assert (readers.__all__, set(readers.__all__)) == (sorted(readers.__all__), here)


def test_import_needs_numpy_alone() -> None:
    """Neither torch, nor Pillow, nor any decoder is imported along with the package."""
    program = "import sys, readers; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    root = Path(__file__).resolve().parents[2]
    modules = subprocess.check_output([sys.executable, "-c", program], cwd=root, text=True).split()

    assert "numpy" in modules
    assert not {"torch", "PIL", "cv2", "nvidia", "webdataset", "gpu_aug", "dali_pipes"} & {*modules}


@pytest.mark.parametrize("pattern", ["*", "{cat,dog}", None])
def test_several_folders_are_refused(tmp_path: Path, pattern: str | None) -> None:
    """Whether a pattern or a list gives them: the error says what to give instead."""
    for name in ("cat", "dog"):
        write_image(tmp_path / name / "a.jpg")
    source = [tmp_path / "cat", tmp_path / "dog"] if pattern is None else tmp_path / pattern

    with pytest.raises(
        SourceError, match=r"cat is a folder, .*: give the one folder that holds all"
    ):
        open_dataset(source)  # type: ignore[arg-type]


def test_a_folder_is_no_list(tmp_path: Path) -> None:
    """It is refused, and of a folder of arrays the error says the call that opens them."""
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, np.zeros((4, 5, 3), np.uint8))
    with pytest.raises(SourceError, match=r"is a folder, .*: say format='folder', or give a list"):
        open_dataset(tmp_path, format="list")
    with pytest.raises(SourceError, match=r"but a.npy, b.npy: where each is one image") as error:
        open_dataset(tmp_path)
    [call] = re.findall(r"open_dataset\(.*\'list\'\)", str(error.value))
    assert all(isinstance(one, Sample) for one in eval(call).fetch([0, 1]))
