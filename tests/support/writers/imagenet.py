"""ImageNet's validation images, and a development kit whose numbers of classes are in another order than their ids."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.writers import Expected, Written, break_link, write_images

FORMAT = "imagenet"
CHECKED_AGAINST = "torchvision"
SYNSETS = (
    (1, "n02119789", "kit fox, Vulpes macrotis", 0),
    (2, "n02100735", "English setter", 0),
    (3, "n01440764", "tench, Tinca tinca", 0),
    (1001, "n02084071", "dog, domestic dog", 1),
)
OF_CLASS = {0: 3, 1: 2, 2: 1}  # by the order of the ids


def write_devkit(folder: Path, numbers: list[int]) -> Path:
    """Write a kit that gives the validation images these numbers of classes."""
    savemat = pytest.importorskip("scipy.io").savemat
    names = ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children", "children")
    rows = [
        (float(n), wnid, words, "a thing", float(k), np.zeros((0, 0)))
        for n, wnid, words, k in SYNSETS
    ]
    (folder / "data").mkdir(parents=True)
    synsets = np.array(rows, dtype=[(name, "O") for name in names]).reshape(-1, 1)
    savemat(folder / "data" / "meta.mat", {"synsets": synsets})
    lines = "".join(f"{number}\n" for number in numbers)
    (folder / "data" / "ILSVRC2012_validation_ground_truth.txt").write_text(lines)
    return folder


def write(folder: Path, samples: list[Written]) -> Path:
    names = [f"ILSVRC2012_val_{number:08d}" for number in range(1, len(samples) + 1)]
    renamed = [replace(one, name=name) for one, name in zip(samples, names, strict=True)]
    write_images(folder / "val", renamed, "JPEG")
    write_devkit(folder / "ILSVRC2012_devkit_t12", [OF_CLASS[one.label] for one in samples])
    return folder


def expected(source: Path) -> list[Expected]:
    kit = source / "ILSVRC2012_devkit_t12" / "data"
    lines = (kit / "ILSVRC2012_validation_ground_truth.txt").read_text().split()
    ids = sorted(wnid for _, wnid, _, children in SYNSETS if not children)
    of_number = {number: wnid for number, wnid, *_ in SYNSETS}
    paths = sorted((source / "val").iterdir())
    return [
        Expected(path.name, path.read_bytes(), ids.index(of_number[int(line)]))
        for path, line in zip(paths, lines, strict=True)
    ]


def damage(source: Path) -> Path:
    """Let an image be a link to nothing."""
    break_link(sorted((source / "val").iterdir())[11])
    return source
