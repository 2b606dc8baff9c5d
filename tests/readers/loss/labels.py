"""Labels: -1 is "the data holds no label" and nothing else, and is told; what cannot be read is bad, or refused."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readers import BadSample, IndexedDataset, SourceError, open_dataset
from tests.support import labelled as write
from tests.support.annotated import put
from tests.support.loss import Cell, NotApplicable
from tests.support.opening import assert_refused, open_with_warning

SOUND, BAD = (
    [b"3", b"\xef\xbb\xbf1 ", b"-1"],
    [b"cat", b"", b"1.5", b"[0]", b"9" * 40, b"2024-01-01"],
)


def check(source: Path, missing: int, num_sound: int, num_bad: int) -> None:
    """The sound ones first, then the bad ones, then those without a label."""
    count = num_sound + num_bad + missing
    dataset = open_with_warning(rf"{missing} of {count} samples of .* have no label", source)
    check_dataset(dataset, num_sound, num_bad)


def check_dataset(dataset: IndexedDataset, num_sound: int, num_bad: int) -> None:
    """Bad labels are bad samples, which selections by labels refuse, and others go on without them."""
    entries = dataset.fetch(range(len(dataset)))
    last = num_sound + num_bad
    bad = [entry for entry in entries if isinstance(entry, BadSample)]
    labels = [entry.label for entry in entries if not isinstance(entry, BadSample)]

    assert [entry.index for entry in bad] == list(range(num_sound, last))
    assert all("the label " in entry.reason for entry in bad)
    assert labels == [3, 1, -1][:num_sound] + [-1] * (len(dataset) - last)
    with pytest.raises(SourceError, match=rf"the label .*; {num_bad} of {len(dataset)} samples"):
        dataset.where("label == 3")
    with pytest.raises(SourceError, match=r"the label .* cannot be read"):
        dataset.balanced()
    sound = dataset.take([*range(num_sound), *range(last, len(dataset))])
    assert sound.column("label").tolist() == labels


def values(writer: write.Write, *, sound: int = 2) -> Callable[[Path], None]:
    """A format that states labels one by one, of which some may be missing."""

    def cell(folder: Path) -> None:
        check(writer(folder, SOUND[:sound] + BAD + [None] * 2), 2, sound, len(BAD))

    return cell


def parquet(folder: Path) -> None:
    """Also of files without the column, or in the folder of a partition without a value; both are named."""
    values(write.write_parquet)(folder)
    pq = pytest.importorskip("pyarrow.parquet")
    for labelled, without in (
        ("part=b", "part=a"),
        ("label=3", "label=__HIVE_DEFAULT_PARTITION__"),
    ):
        parts = folder / f"parts{len(labelled)}"
        for name, labels in ((labelled, [b"3"]), (without, [None, None])):
            (parts / name).mkdir(parents=True)
            path = write.write_parquet(parts / name, labels)
            if name != "part=b":
                pq.write_table(pq.read_table(path, partitioning=None).drop_columns("label"), path)
        match = rf"2 of 3 samples .*: 1 file \({without}/a.parquet\) without the column 'label'"
        dataset = open_with_warning(match, parts)
        assert sorted(dataset.column("label").tolist()) == [-1, -1, 3]


def all_there(writer: write.Write) -> Callable[[Path], None]:
    """A format in which each sample has a label."""

    def cell(folder: Path) -> None:
        check_dataset(open_dataset(writer(folder, SOUND + BAD)), 3, len(BAD))

    return cell


def stream(folder: Path) -> None:
    entries = list(open_dataset(write.write_tar(folder, [*SOUND, *BAD, None]), format="stream"))
    assert [getattr(entry, "label", None) for entry in entries] == [3, 1, -1] + [None] * len(
        BAD
    ) + [-1]


def no_label(
    files: dict[str, bytes | str], name: str = "", format_name: Any = None
) -> Callable[[Path], None]:
    """A format that has labels for all samples or none: which it is, is told when these files are opened by a name."""

    def cell(folder: Path) -> None:
        source = put(folder, files) / name
        match = r"no sample of .* has a label \(all are -1"
        dataset = open_with_warning(match, source, format=format_name)
        assert set(dataset.column("label").tolist()) == {-1}

    return cell


PICTURES: dict[str, bytes | str] = {f"{number}.png": write.picture(number) for number in range(3)}


def csv_rows(folder: Path, rows: list[list[str]]) -> Path:
    with (folder / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return folder / "a.csv"


def path_table(folder: Path) -> None:
    """All labels are read at once: a wrong one is refused with file and line, a missing one is told."""
    names = write.write_files(folder, 3)
    rows = [[name, label] for name, label in zip(names, ["3", "cat", ""], strict=True)]
    assert_refused(
        r"3.* and others are names .*'cat'", csv_rows(folder, [["image", "label"], *rows])
    )
    for labels in (["3", "9" * 20, "4"], ["9" * 20] * 3):
        large = [[name, label] for name, label in zip(names, labels, strict=True)]
        assert_refused(
            r"line [23]: the label '9{20}' is no class number",
            csv_rows(folder, [["image", "label"], *large]),
        )
    open_with_warning(
        r"1 of 3 samples of .*a.csv have no label",
        csv_rows(folder, [["image", "label"], rows[0], [names[1], "4"], rows[2]]),
    )
    csv_rows(folder, [["file_name", "label"], rows[0], [names[1], "4"], rows[2]]).rename(
        folder / "metadata.csv"
    )
    open_with_warning(r"1 of 3 samples of .* have no label", folder)
    assert_refused(
        r"line 3: .*'1e300', which does not fit float32",
        csv_rows(folder, [["image", "x"], [names[0], "1"], [names[1], "1e300"]]),
        label=["x"],
    )


def npy(folder: Path) -> None:
    np.save(folder / "a.npy", np.zeros((4, 8, 8, 3), np.uint8))
    np.save(folder / "a_labels.npy", np.array([3, 1, -5, -1]))
    check(folder / "a.npy", 1, 2, 1)


DETECTION = NotApplicable("Its samples have boxes and no label of their own, which is not missed.")
CELLS: dict[str, Cell] = {
    "folder": no_label(PICTURES),
    "list": no_label(PICTURES | {"files.txt": "\n".join(PICTURES)}, "files.txt"),
    "csv": path_table,
    "video-folder": no_label({"a.mp4": b""}),
    "clip-list": no_label({"clips.txt": "a.mp4\nb.mp4\n"}, "clips.txt"),
    "frame-folder": no_label(
        {f"{name}/img_00001.jpg": b"" for name in "xy"}, format_name="frame-folder"
    ),
    "tar": values(write.write_tar),
    "stream": stream,
    "parquet": parquet,
    "arrow": values(write.write_arrow),
    "lmdb": values(write.write_lmdb),
    "hdf5": all_there(write.write_hdf5),
    "tfrecord": values(write.write_tfrecord),
    "arrayrecord": all_there(write.write_arrayrecord),
    "mds": all_there(write.write_mds_folder),
    "npy": npy,
    "manifest": values(write.write_manifest),
    "coco": DETECTION,
    "voc": DETECTION,
    "yolo": DETECTION,
    "labelme": DETECTION,
    "dota": DETECTION,
    "mask-folder": NotApplicable("Its labels are masks; an image without one is no sample."),
    "imagenet": NotApplicable(
        "Class folders and the development kit number all images but those of the test split."
    ),
    "openimages": DETECTION,
    "lerobot": NotApplicable("Its targets are actions, and it has no labels."),
    "lance": values(write.write_lance),
    "delta": values(write.write_delta),
    "iceberg": values(write.write_iceberg),
    "energon": values(write.write_energon),
}
