"""Parser of a YOLO dataset's ``data.yaml``: classes, splits and keypoints. Commands in the file are never run."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from readers.formats.columns import shorten
from readers.sample import SourceError
from readers.storage.whole_files import read_head, read_text
from readers.storage.yaml_text import parse_yaml

SPLITS = ("train", "val", "test")
USUAL = ("data.yaml", "data.yml", "dataset.yaml", "dataset.yml")  # the preferred name first
_MOST_BYTES = 1 << 20  # bytes of a YAML file that are searched for keys; a data.yaml has a few kB
_NAMES = re.compile(rb"^(?:names|nc)[ \t]*:", re.MULTILINE)
_MASKS_DIR = re.compile(rb"^masks_dir[ \t]*:", re.MULTILINE)
_SPLIT = re.compile(rb"^(?:train|val)[ \t]*:", re.MULTILINE)


class Config(NamedTuple):
    """The content of a ``data.yaml``.

    Attributes:
        file: Path of the YAML file.
        path: Folder of the dataset as written, "" if it is missing.
        names: Class names, by class number.
        splits: Folders and lists of pictures, as written, by name of the split.
        kpt_shape: (keypoints per object, numbers per keypoint: 2 or 3); None without poses.
        flip_idx: For each keypoint, its index in the mirrored picture; () if it is missing.
        masks_dir: Folder of the semantic masks, "" without masks.
        kpt_names: Name of each keypoint; () if they are missing, or if classes name them differently.
    """

    file: Path
    path: str
    names: tuple[str, ...]
    splits: dict[str, tuple[str, ...]]
    kpt_shape: tuple[int, int] | None = None
    flip_idx: tuple[int, ...] = ()
    masks_dir: str = ""
    kpt_names: tuple[str, ...] = ()


NO_CONFIG = Config(Path(), "", (), {})
"""Stands for the content if a dataset has no ``data.yaml``."""


def find_config(folder: Path) -> Path | None:
    """Return the path of the YAML file that describes the dataset in a folder, None if there is none.

    Raises:
        SourceError: There are several such files, and none has a usual name.
    """
    usual = next((folder / name for name in USUAL if looks_like_config(folder / name)), None)
    if usual:
        return usual
    paths = [path for path in sorted(folder.glob("*.y*ml")) if looks_like_config(path)]
    if len(paths) > 1:
        names = ", ".join(path.name for path in paths)
        raise SourceError(f"{folder} has several files of splits ({names}): give one of them")
    return paths[0] if paths else None


def looks_like_config(path: Path) -> bool:
    """Return whether a file is YAML that describes a YOLO dataset, with classes and splits."""
    if path.suffix.lower() not in (".yaml", ".yml") or not path.is_file():
        return False
    text = read_head(path, _MOST_BYTES)
    return bool(_NAMES.search(text) and _SPLIT.search(text))


def names_masks(folder: Path) -> bool:
    """Return whether the YAML file that describes a folder names a folder of masks."""
    file = find_config(folder)
    return file is not None and bool(_MASKS_DIR.search(read_head(file, _MOST_BYTES)))


def read_config(path: Path) -> Config:
    """Return the content of a ``data.yaml``.

    Raises:
        SourceError: The file cannot be read, or a value in it is malformed; the text names the value.
    """
    stored = _load(path)
    if stored.get("label_mapping"):
        raise SourceError(
            f"{path} has a label_mapping, which is not applied here: write masks with the numbers of the classes"
        )
    splits = {
        name: _places(stored[name], name, path) for name in SPLITS if stored.get(name) is not None
    }
    if not splits:
        raise SourceError(
            f"{path} has none of train, val and test: write where the pictures lie, such as train: images/train"
        )
    shape = _whole_numbers(stored.get("kpt_shape"), "kpt_shape", path)
    if shape and (len(shape) != 2 or shape[0] < 1 or shape[1] not in (2, 3)):
        raise SourceError(
            f"{path}: kpt_shape must be [keypoints, 2 or 3], such as [17, 3], got {shorten([*shape])}"
        )
    flip = _whole_numbers(stored.get("flip_idx"), "flip_idx", path)
    if flip and (not shape or sorted(flip) != list(range(shape[0]))):
        raise SourceError(
            f"{path}: flip_idx must hold the number of each keypoint of kpt_shape once"
            if shape
            else f"{path} has flip_idx and no kpt_shape, without which keypoints are not read: add kpt_shape, such as "
            f"kpt_shape: [{len(flip)}, 3], or remove flip_idx"
        )
    if any(flip[other] != number for number, other in enumerate(flip)):
        raise SourceError(
            f"{path}: flip_idx must exchange keypoints in pairs, so that two flips change nothing, got {shorten([*flip])}"
        )
    return Config(
        path,
        _text(stored.get("path"), "path", path),
        _class_names(stored, path),
        splits,
        (shape[0], shape[1]) if shape else None,
        flip,
        _text(stored.get("masks_dir"), "masks_dir", path),
        _keypoint_names(stored.get("kpt_names"), shape),
    )


def _load(path: Path) -> Mapping[str, Any]:
    try:
        stored = parse_yaml(read_text(path, "YAML"))
    except ValueError as error:
        raise SourceError(f"{path} cannot be read as YAML: {error}") from None
    if not isinstance(stored, Mapping):
        raise SourceError(f"{path} must hold names: and train:, got {shorten(stored)}")
    return stored


def _class_names(stored: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    names, number = stored.get("names"), stored.get("nc")
    if number is not None and (type(number) is not int or number < 1):
        raise SourceError(f"{path}: nc must be the number of classes, got {shorten(number)}")
    if names is None:
        if number is None:
            raise SourceError(f"{path} has neither names nor nc: write names: [cat, dog]")
        return tuple(f"class_{one}" for one in range(number))
    if isinstance(names, Mapping):
        if sorted(names, key=str) != sorted(range(len(names)), key=str):
            raise SourceError(
                f"{path}: names must have the numbers 0 to {len(names) - 1}, got {shorten([*names])}"
            )
        names = [names[one] for one in range(len(names))]
    if not isinstance(names, list) or not names:
        raise SourceError(f"{path}: names must be a list of names, got {shorten(names)}")
    if number is not None and number != len(names):
        raise SourceError(f"{path}: nc is {number}, and names has {len(names)}")
    return tuple(str(name) for name in names)


def _keypoint_names(value: Any, shape: Sequence[int]) -> tuple[str, ...]:
    """Return the names that all classes give to keypoints, () without such; Ultralytics has a list per class number."""
    lists = [*value.values()] if isinstance(value, Mapping) else [value]
    names = lists[0] if lists and all(one == lists[0] for one in lists) else None
    is_full = isinstance(names, list) and [len(names)] == [*shape[:1]]
    return tuple(map(str, names or ())) if is_full else ()


def _places(value: Any, name: str, path: Path) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(isinstance(one, str) and one for one in listed):
        raise SourceError(
            f"{path}: {name} must be a folder, a .txt list, or a list of these, got {shorten(value)}"
        )
    return tuple(listed)


def _text(value: Any, name: str, path: Path) -> str:
    if value is not None and not isinstance(value, str):
        raise SourceError(f"{path}: {name} must be a path, got {shorten(value)}")
    return value or ""


def _whole_numbers(value: Any, name: str, path: Path) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(one) is int for one in value):
        raise SourceError(f"{path}: {name} must be a list of whole numbers, got {shorten(value)}")
    return tuple(value)
