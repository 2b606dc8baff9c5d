"""Recognise the splits of a dataset (train, validation, test) by the names of files and folders.

The rules are those of Hugging Face's datasets. In a folder ``data`` the files ``NAME-00000-of-00002.parquet`` belong to
the split NAME. Elsewhere a word such as ``val`` names the split, in capital or small letters, if ``-._``, spaces or digits
separate it from the rest of the name. Names of folders are searched first, then names of files. A folder ``split=train`` of a
partitioned table counts as a folder ``train``.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import NoReturn

from readers.plural import counted
from readers.sample import SourceError
from readers.storage.paths import without_query
from readers.storage.unreadable import oserror_as_source_error

_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SEPARATORS = r"[-._ 0-9]"
_HAS_WORD = {
    name: re.compile(rf"(?:^|.*{_SEPARATORS})(?:{'|'.join(words)})(?:$|{_SEPARATORS}.*)", re.DOTALL)
    for name, words in _WORDS.items()
}
_ONLY_WORD = {
    name: re.compile(rf"(?:{'|'.join(words)}){_SEPARATORS}*") for name, words in _WORDS.items()
}
_SHARD = re.compile(r"(\w+(?:\.\w+)*)-[0-9]{5}-of-[0-9]{5}(?:[^0-9].*)?", re.DOTALL)


def splits_of(paths: Sequence[str], folder: str = "") -> list[frozenset[str]]:
    """Return the splits of the files of a dataset.

    Args:
        paths: Paths of the files, relative to the folder of the dataset, with slashes.
        folder: Name of that folder.

    Returns:
        For each path the set of its splits: nearly always one; empty if no name tells the split.
    """
    parts = [path.split("/") for path in paths]
    shards = [_SHARD.fullmatch(one[-1]) if (folder, *one)[-2] == "data" else None for one in parts]
    if any(shards):
        found = zip(shards, parts, strict=True)
        return [
            frozenset({shard[1]}) if shard else _splits_named_in(one[-1:]) for shard, one in found
        ]
    by_folder = [_splits_named_in(one[:-1]) for one in parts]
    return by_folder if any(by_folder) else [_splits_named_in(one[-1:]) for one in parts]


def folder_splits(names: Sequence[str]) -> dict[str, str]:
    """Return which of several sibling folders are splits; none of them if they are classes.

    The folders are splits if the names of all contain a split, and at least two splits occur. Otherwise, folders whose
    names consist of a split alone (``train``, ``val2017``) are splits if at least two splits occur among them.

    Returns:
        A dict from the name of each folder that is a split to that split; empty if the folders are classes.
    """
    named = {name: split for name in names if (split := split_of(name))}
    alone = {name: split for name in names if (split := split_alone(name))}
    if len(named) == len(names) and len({*named.values()}) > 1:
        return named
    return alone if len({*alone.values()}) > 1 else {}


def folders_in(folder: Path) -> list[str]:
    """Return the sorted names of the subfolders of a folder, without names that begin with a dot.

    Raises:
        SourceError: The folder cannot be listed completely; numbering only some of the classes would be wrong.
    """
    with oserror_as_source_error(str(folder)):
        inside = [path for path in folder.iterdir() if path.name[0] != "." and path.is_dir()]
    return sorted(path.name for path in inside)


def train_beside(folder: Path) -> Path | None:
    """Return the folder of the training data next to the folder of another split.

    Returns None if `folder` is not named after another split, or if exactly one training folder cannot be found.
    """
    found: list[Path] = []
    if split_alone(folder.name) not in (None, "train"):
        with suppress(SourceError):  # what is read does not depend on it
            beside = folders_in(folder.parent)
            found = [folder.parent / name for name in beside if split_alone(name) == "train"]
    return found[0] if len(found) == 1 else None


def split_of(name: str) -> str | None:
    """Return the split in the name of a file or folder; None if the name contains no split or several."""
    found = _splits_named_in([name])
    return next(iter(found)) if len(found) == 1 else None


def split_alone(name: str) -> str | None:
    """Return the split if a name consists of a split alone, ``val`` or ``train2017``; None for others, ``train_images``."""
    text = name.lower().removeprefix("split=")
    return next((split for split, word in _ONLY_WORD.items() if word.fullmatch(text)), None)


def canonical(split: str) -> str:
    """Return the standard name of a split, "validation" for "val"; names that are no such word are returned unchanged."""
    return next((name for name, words in _WORDS.items() if split.lower() in words), split)


def choose_split(paths: Sequence[str], split: str | None, source: str) -> list[str]:
    """Return the files of a split; all files if no split is requested and there is only one.

    Args:
        paths: Paths or URLs of all files.
        split: Name of the requested split; None if none is requested.
        source: The source as the caller gave it, for errors.

    Raises:
        SourceError: No split is requested and there are several, or the requested split does not exist.
    """
    inside, folder = _relative(paths)
    splits = splits_of(inside, folder)
    names = in_order({name for one in splits for name in one})
    of_split = {
        name: [path for path, one in zip(paths, splits, strict=True) if name in one]
        for name in names
    }
    if split is not None:
        wanted = canonical(split) if split not in of_split else split
        if wanted not in of_split:
            raise no_such_split(source, split, names)
        return of_split[wanted]
    if len({one for one in splits if one}) < 2:
        return list(paths)
    first = _pattern(of_split[names[0]], paths)
    raise SourceError(several_splits(source, names, first))


def choose_split_of_column(
    counts: Counter[str], split: str | None, source: str, is_named: bool, column: str = "split"
) -> tuple[str | None, str]:
    """Choose a split among the values of a column.

    Args:
        counts: Number of rows for each value of the column; the key "" counts rows without a value.
        split: The requested split; None if none is requested.
        source: Name of the data, for errors.
        is_named: Whether the file or its folder is named after the requested split, so that the column may lack it.
        column: Name of the column, for errors.

    Returns:
        The value whose rows to take, None for all rows; and a warning about rows without a split, "" if there are none.

    Raises:
        SourceError: The requested split does not exist, several exist and none is requested, or the names of two splits
            differ only in capital letters.
    """
    there = in_order(value for value in counts if value)
    by_word = [one for one in there if split is None or canonical(one) == canonical(split)]
    wanted = [split] if split in there else by_word
    if not wanted and (split is None or is_named):
        return None, ""
    if split is not None and not wanted:
        raise no_such_split(source, split, there)
    meant = {one.lower() for one in wanted}
    alike = [one for one in there if one.lower() in meant]
    if len(meant) < len(alike):
        spelt = ", ".join(f"{one!r} ({counted(counts[one], 'row')})" for one in alike)
        raise SourceError(
            f"{source} spells splits in several ways in the column {column!r}: {spelt}; write each in one way"
        )
    if len(wanted) > 1:
        raise SourceError(
            several_splits(source, there, "")
            if split is None
            else f"{source}: the split {split!r} may be {' or '.join(wanted)}: say one of these"
        )
    fate = "are read together with the others" if split is None else "are left out"
    remark = (
        f"{source} has {counts['']:,} of {counted(counts.total(), 'row')} without a split in the column {column!r}, which "
        f"{fate}: write the split of each row"
    )
    return wanted[0] if split is not None else None, remark if counts[""] else ""


def refuse_several(source: str, splits: Mapping[str, str], what: str, hint: str = "") -> NoReturn:
    """Raise the error for a source with files or folders of several splits.

    Args:
        source: The source as the caller gave it.
        splits: The split of each file or folder, by name.
        what: Description of what to open instead, "the folder PATH/"; the name of the first file or folder is appended.
        hint: Further advice, appended to the error.

    Raises:
        SourceError: Always.
    """
    names = in_order(splits.values())
    first = next(name for name in splits if splits[name] == names[0])
    raise SourceError(f"{several_splits(source, names, what + first)}{hint}")


def several_splits(source: str, names: Sequence[str], instead: str) -> str:
    """Return the error text for data with several splits, which must not be mixed.

    Args:
        source: The source as the caller gave it.
        names: Names of the splits.
        instead: What may be opened instead, besides passing ``split=``; may be empty.
    """
    return (
        f"{source} holds the splits {', '.join(names)}, which are never one dataset: open one of them, "
        f"open_dataset(..., split={names[0]!r}){f' or {instead}' if instead else ''}"
    )


class UnnamedSplitsError(SourceError):
    """A split is requested, but no file or folder is named after one; a column of the data may hold splits."""


def no_such_split(source: str, split: str, names: Sequence[str]) -> SourceError:
    """Return the error for a split that does not exist; an `UnnamedSplitsError` if `names`, the existing splits, is empty."""
    if not names:
        return UnnamedSplitsError(
            f"{source} has no split {split!r}: no column 'split' and no names of files or folders in it name splits; leave out "
            "split=, or give a pattern of the files (of a table split_column=)"
        )
    return SourceError(f"{source} has no split {split!r}: its splits are {', '.join(names)}")


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of splits in the usual order: train, validation, test, then others alphabetically."""
    there = set(names)
    return [name for name in _WORDS if name in there] + sorted(there - _WORDS.keys())


def _splits_named_in(parts: Sequence[str]) -> frozenset[str]:
    """Return the splits whose words occur in parts of a path."""
    texts = [part.lower().removeprefix("split=") for part in parts]
    return frozenset(
        name for name, word in _HAS_WORD.items() if any(word.fullmatch(text) for text in texts)
    )


def _relative(paths: Sequence[str]) -> tuple[list[str], str]:
    """Return paths relative to the deepest folder that contains all of them, and the name of that folder."""
    parts = [without_query(path).split("/") for path in paths]
    alike = (len(set(level)) == 1 for level in zip(*(one[:-1] for one in parts), strict=False))
    shared = len(list(takewhile(bool, alike)))
    folder = parts[0][shared - 1] if shared else ""
    return ["/".join(one[shared:]) for one in parts], folder


def _pattern(files: Sequence[str], paths: Sequence[str]) -> str:
    """Return a pattern with one ``*`` that matches exactly `files` among `paths`; "" if no such pattern is found."""
    if len(files) == 1:
        return files[0]
    start = os.path.commonprefix(list(files))  # noqa: RUF071, letter by letter is meant
    end = os.path.commonprefix([file[::-1] for file in files])[::-1]  # noqa: RUF071
    pattern = f"{start.rstrip('0123456789')}*{end.lstrip('0123456789')}"
    if any(sign in start + end for sign in "*?["):
        return ""
    return pattern if [one for one in paths if fnmatchcase(one, pattern)] == [*files] else ""
