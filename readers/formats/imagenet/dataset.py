"""Datasets of ImageNet's images, whose classes come from the development kit or from Kaggle's files."""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from readers.detect.splits import split_alone
from readers.formats.files import FileDataset
from readers.formats.folder import FileKind, FilesFound, find_files
from readers.formats.imagenet.matlab import read_structures
from readers.formats.named_splits import choose_name
from readers.sample import IMAGE_FIELDS, PathLike, SourceError
from readers.storage.whole_files import read_text, read_whole

KAGGLE_CLASSES = "LOC_synset_mapping.txt"
_VALIDATION = re.compile(r"ILSVRC2012_val_(\d{8})\.\w+")  # the digits are the line number in _TRUTH
_META, _TRUTH = "meta.mat", "ILSVRC2012_validation_ground_truth.txt"
_LINE = re.compile(r"(n\d{8}) (\S.*)")  # a line of KAGGLE_CLASSES
_IMAGES = FileKind("images", IMAGE_FIELDS)
_KAGGLE_IMAGES = "ILSVRC/Data/CLS-LOC"


class Classes(NamedTuple):
    """The classes of ImageNet, and the class of each validation image.

    Attributes:
        words: Words of a class by its WordNet id, sorted by id; this order gives the class numbers.
        truth: Class number of each validation image, in the order of the images' numbers; None for Kaggle's layout.
        solution: Class number by the name of a validation image without its ending; None without Kaggle's solution file.
    """

    words: Mapping[str, str]
    truth: Sequence[int] | None = None
    solution: Mapping[str, int] | None = None

    def of_validation(self, names: Sequence[str]) -> list[int]:
        """Return the class number of each validation image.

        Args:
            names: Names of the image files, without folders, sorted.

        Raises:
            SourceError: An image has no known class, or cannot be assigned to a line of the ground truth.
        """
        if self.solution is not None:
            missing = [name for name in names if name.rpartition(".")[0] not in self.solution]
            if missing:
                raise SourceError(
                    f"{len(missing)} of {len(names)} validation images ({missing[0]}, ...) are not in the solution: give the "
                    "LOC_val_solution.csv that belongs to them"
                )
            return [self.solution[name.rpartition(".")[0]] for name in names]
        if self.truth is None:
            raise SourceError(
                "the validation images lie in one folder and LOC_val_solution.csv is missing: put it beside "
                f"{KAGGLE_CLASSES}"
            )
        numbered = [_VALIDATION.fullmatch(name) for name in names]
        lines = [int(one[1]) - 1 for one in numbered if one]
        if len(lines) < len(names):
            lines = list(range(len(names))) if len(names) == len(self.truth) else []
        if not lines or not 0 <= min(lines) <= max(lines) < len(self.truth):
            raise SourceError(
                f"{len(names)} validation images ({names[0]}, ...) and {len(self.truth)} lines of {_TRUTH} do not fit: "
                "the images are called ILSVRC2012_val_00000001.JPEG and so on, or there are as many as lines"
            )
        return [self.truth[line] for line in lines]


def find_devkit(folder: Path) -> Path | None:
    """Return the folder that holds the development kit's meta.mat, None if there is none.

    Args:
        folder: The kit, its folder ``data``, or a folder that holds the kit.
    """
    inside = sorted(folder.glob("*devkit*")) if folder.is_dir() else []
    for one in (folder, folder / "data", *inside, *(path / "data" for path in inside)):
        if (one / _META).is_file():
            return one
    return None


def read_devkit(folder: Path) -> Classes:
    """Return the classes that the development kit's files define.

    Args:
        folder: The kit, its folder ``data``, or a folder that holds it.

    Raises:
        SourceError: A file of the kit is missing or damaged.
    """
    kit_folder = find_devkit(folder)
    if kit_folder is None:
        raise SourceError(
            f"{folder} holds no {_META}: give the folder that ILSVRC2012_devkit_t12.tar.gz unpacks to"
        )
    numbers = _read_meta(kit_folder / _META)
    words = dict(sorted(numbers.values()))
    class_of = {wnid: label for label, wnid in enumerate(words)}
    path = kit_folder / _TRUTH
    try:
        lines = read_text(path, "a list of classes").split()
        truth = [class_of[numbers[int(line)][0]] for line in lines]
    except (OSError, UnicodeDecodeError, ValueError, KeyError) as error:
        raise SourceError(
            f"{path} cannot be read as one number of a class for each line ({error}): unpack the kit again"
        ) from None
    return Classes(words, truth)


def read_kaggle(folder: Path) -> Classes:
    """Return the classes in ``LOC_synset_mapping.txt`` and, if the file exists, in ``LOC_val_solution.csv``.

    Raises:
        SourceError: A file is damaged.
    """
    path = folder / KAGGLE_CLASSES
    lines = [line for line in read_text(path, "a list of classes").splitlines() if line.strip()]
    matched = [_LINE.fullmatch(line.strip()) for line in lines]
    words = {one[1]: one[2] for one in matched if one}
    if len(words) < max(len(lines), 1) or list(words) != sorted(words):
        raise SourceError(
            f"{path} must have one line for each class, an id such as n01440764 and words, sorted by id: restore it"
        )
    class_of = {wnid: label for label, wnid in enumerate(words)}
    answers = folder / "LOC_val_solution.csv"
    return Classes(words, None, _read_solution(answers, class_of) if answers.is_file() else None)


def _read_solution(path: Path, class_of: Mapping[str, int]) -> dict[str, int]:
    """Return the class number of each image in Kaggle's solution file; an image may have several boxes of one class."""
    solution = {}
    try:
        rows = list(csv.DictReader(read_text(path, "a table of classes").splitlines()))
    except csv.Error as error:
        raise SourceError(f"{path} cannot be read: {error}") from None
    for number, row in enumerate(rows, start=2):
        name, words = row.get("ImageId"), str(row.get("PredictionString") or "").split()
        classes = {*words[::5]}
        if not name or len(words) % 5 or len(classes) != 1 or not classes <= class_of.keys():
            raise SourceError(
                f"{path}, line {number}: it must have an ImageId and boxes of one known class, each 'wnid x y x y'"
            )
        solution[name] = class_of[classes.pop()]
    return solution


def _read_meta(path: Path) -> dict[int, tuple[str, str]]:
    """Return (WordNet id, words) of each class without subclasses, by the class's number in the kit."""
    try:
        rows = read_structures(read_whole(path), "synsets")
        leaves = [row for row in rows if int(row["num_children"]) == 0]
        named = {int(row["ILSVRC2012_ID"]): (str(row["WNID"]), str(row["words"])) for row in leaves}
    except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise SourceError(
            f"{path} cannot be read as ImageNet's classes ({error}): unpack the kit again"
        ) from None
    if len({wnid for wnid, _ in named.values()}) < max(len(named), 1):
        raise SourceError(f"{path} has no classes, or one of them twice: unpack the kit again")
    return named


class ImageNetDataset(FileDataset):
    """Images of ILSVRC 2012, with class numbers in the order of the WordNet ids.

    torchvision's ImageNet and a folder of all 1000 class folders have equal class numbers. `class_names` are the
    WordNet ids, since two pairs of classes have equal words; `words` are the words. Validation images in one folder get their
    classes from the development kit or from Kaggle's ``LOC_val_solution.csv``, images in class folders from the folder. Test images have
    the label -1.

    Args:
        root: One of
            a folder of images, ``ILSVRC2012_img_val``, or of class folders, with ``devkit``,
            a folder that holds the kit, ``train`` and ``val``,
            Kaggle's folder, which holds ``LOC_synset_mapping.txt`` and ``ILSVRC``.
        split: Name of the split, if root holds folders of splits.
        devkit: Path of the folder that ILSVRC2012_devkit_t12.tar.gz unpacks to.

    Attributes:
        words: Words of each class, such as "tench, Tinca tinca", by class number.

    Raises:
        SourceError: The kit or the images are missing; there are several splits but `split` is None; a class folder is none of
            the classes; or the counts of validation images and of their classes differ.
    """

    def __init__(
        self, root: PathLike, *, split: str | None = None, devkit: PathLike | None = None
    ) -> None:
        root = Path(root).absolute()
        is_kaggle = devkit is None and (root / KAGGLE_CLASSES).is_file()
        classes = read_kaggle(root) if is_kaggle else read_devkit(Path(devkit or root).absolute())
        folder = _folder_of(root / _KAGGLE_IMAGES if is_kaggle else root, split)
        files = _in_class_folders(folder, classes) or _in_one_folder(folder, classes)
        self.words = tuple(classes.words.values())
        super().__init__(folder, files.names, files.labels, tuple(classes.words), *files[3:])
        if self.unlabelled and self.unlabelled[0] == len(self):
            self.unlabelled = None  # labels of the test split were never published


def fits(folder: Path) -> bool:
    """Return whether a folder has Kaggle's layout, or holds the development kit next to folders of splits."""
    has_splits = any(split_alone(path.name) for path in folder.iterdir())
    is_kaggle = (folder / KAGGLE_CLASSES).is_file() and (folder / _KAGGLE_IMAGES).is_dir()
    return is_kaggle or (has_splits and find_devkit(folder) is not None)


def _folder_of(root: Path, split: str | None) -> Path:
    if not root.is_dir():
        raise SourceError(f"{root} is no folder: give the one that holds the images")
    splits = {
        path.name: name
        for path in sorted(root.iterdir())
        if path.is_dir() and (name := split_alone(path.name))
    }
    return root / choose_name(splits, split, root) if splits or split else root


def _in_class_folders(folder: Path, classes: Classes) -> FilesFound | None:
    """Return the images in class folders, None if there are no folders."""
    inside = [path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."]
    if not inside:
        return None
    numbers = {wnid: label for label, wnid in enumerate(classes.words)}
    unknown = sorted(name for name in inside if name not in numbers)
    if unknown:
        raise SourceError(
            f"{folder} has the folder {unknown[0]}, which is none of the {len(numbers)} classes: move it elsewhere"
        )
    files = find_files(folder, _IMAGES)
    labels = [numbers[files.class_names[label]] for label in files.labels]
    return files._replace(labels=labels)


def _in_one_folder(folder: Path, classes: Classes) -> FilesFound:
    files = find_files(folder, _IMAGES)
    if split_alone(folder.name) == "test" or files.names[0].startswith("ILSVRC2012_test_"):
        return files
    return files._replace(labels=classes.of_validation(files.names))
