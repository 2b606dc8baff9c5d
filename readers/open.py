"""Opening a dataset without saying of which kind it is."""

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path

from readers.folder import FolderDataset, ListDataset
from readers.sample import Dataset, PathLike, SourceError, is_image_file
from readers.tar import TarDataset

_LIST_EXTENSIONS = (".txt", ".lst", ".tsv")
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def open_dataset(source: PathLike | Sequence[PathLike]) -> Dataset:
    """Open whatever there is.

    Args:
        source: One of
            a folder of images or of class folders (FolderDataset),
            a folder that holds .tar shards and no images (TarDataset, shards sorted by name),
            a list file that ends in .txt, .lst or .tsv (ListDataset),
            one .tar shard, or a pattern such as ``train-{000000..000099}.tar`` (TarDataset),
            a sequence of shards or patterns of shards (TarDataset),
            a sequence of image files (ListDataset).

    Raises:
        SourceError: It is missing, empty, or none of these.
    """
    if not isinstance(source, (str, os.PathLike)):
        return _open_sequence(source)
    path = Path(source)
    if path.is_dir():
        shards = _shards_in(path)
        return TarDataset(shards) if shards else FolderDataset(path)
    if not path.exists() and "{" in str(path):
        return _open_sequence([path])
    if not path.exists():
        raise SourceError(f"{path} does not exist: give a folder, a list file or .tar shards")
    if path.suffix.lower() in _LIST_EXTENSIONS:
        return ListDataset(path)
    if _is_shard(path):
        return TarDataset([path])
    raise SourceError(
        f"{path} is of no known kind: give a folder, a list file (.txt, .lst, .tsv) or .tar shards"
    )


def _open_sequence(source: Sequence[PathLike]) -> Dataset:
    paths = [Path(path) for item in source for path in _names(os.fspath(item))]
    if not paths:
        raise SourceError("the list of sources is empty: give paths of .tar shards or of images")
    num_shards = sum(map(_is_shard, paths))
    if num_shards == len(paths):
        return TarDataset(paths)
    if num_shards:
        other = next(path for path in paths if not _is_shard(path))
        raise SourceError(f"a list must hold either shards or images, got .tar files and {other}")
    return ListDataset(paths)


def _names(text: str) -> list[str]:
    # A file may have braces in its name.
    return expand_braces(text) if "{" in text and not Path(text).exists() else [text]


def expand_braces(pattern: str) -> list[str]:
    """Return the names that a pattern stands for, the last brace counting fastest.

    ``{000..099}`` counts, both ends included, with leading zeros if an end has them; ``{a,b}``
    lists. Other braces are left as they are, and braces do not nest.
    """
    pieces = _BRACES.split(pattern)
    choices = [
        _alternatives(piece) if number % 2 else [piece] for number, piece in enumerate(pieces)
    ]
    return ["".join(choice) for choice in itertools.product(*choices)]


def _alternatives(text: str) -> list[str]:
    counted = _RANGE.fullmatch(text)
    if counted:
        first, last = map(int, counted.groups())
        padded = any(len(end) > 1 and end[0] == "0" for end in counted.groups())
        width = max(map(len, counted.groups())) if padded else 0
        step = 1 if first <= last else -1
        return [f"{number:0{width}d}" for number in range(first, last + step, step)]
    return text.split(",") if "," in text else ["{" + text + "}"]


def _shards_in(folder: Path) -> list[Path]:
    """Return the shards in a folder; none when it holds images or folders beside them."""
    _, folders, files = next(os.walk(folder), ("", [], []))
    shards = sorted(name for name in files if _is_shard(Path(name)) and name[0] != ".")
    others = [name for name in files if is_image_file(name)] + folders
    others = sorted(name for name in others if name[0] != ".")
    if shards and others:
        raise SourceError(
            f"{folder} holds shards ({shards[0]}) and {others[0]}: "
            "give the shards as a list or a pattern, or move them to a folder of their own"
        )
    return [folder / name for name in shards]


def _is_shard(path: Path) -> bool:
    return path.name.lower().endswith((".tar", ".tar.gz", ".tgz"))
