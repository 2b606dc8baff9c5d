"""Find the files of a source: paths, patterns, URLs, and folders in object stores."""

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from readers.describe import describe, few_of
from readers.detect.files import is_shard, refuse_remote_folder
from readers.detect.registry import FORMATS, NUMBERED
from readers.detect.splits import (
    canonical,
    choose_split,
    folder_splits,
    refuse_several,
    split_of,
)
from readers.formats.declared import refuse_unfinished
from readers.sample import SourceError
from readers.storage.atomic_file import OWN
from readers.storage.paths import expand_braces, find_paths, has_wildcards, is_url

if TYPE_CHECKING:
    from readers.storage.remote import StorageOptions


def texts_of(source: Any) -> list[str]:
    """Return the paths, patterns and URLs of a source as text.

    Raises:
        SourceError: It is something else, such as an array.
    """
    if hasattr(source, "dtype"):
        raise SourceError(
            f"source={describe(source)} is no path: of images in memory make a dataset with "
            "readers.from_arrays(images, labels)"
        )
    items = [source] if isinstance(source, (str, os.PathLike)) else source
    try:
        names = [os.fspath(item) for item in items]
        if "" not in names:
            return names
        raise SourceError("the source is empty text: give a path; '.' is the current folder")
    except TypeError:
        raise SourceError(
            f"source={describe(source)} is no path: give a path, a pattern, a URL, or a list of them; a list of arrays "
            "is for readers.from_arrays, a Dataset of PyTorch for dali_pipes.integrations.torch_dataset.from_torch"
        ) from None


def find_files(names: Sequence[str], split: str | None, options: dict[str, object]) -> list[str]:
    """Return the files of paths, patterns and URLs; local folders stay.

    Args:
        names: The paths, patterns and URLs.
        split: The wanted split; None if there is only one.
        options: Those of the caller. If there is a URL, the options of remote storage are removed from them.

    Raises:
        SourceError: There is nothing, or it holds several splits.
    """
    storage = _storage_options(options) if any(map(is_url, names)) else None
    paths = [path for name in names for path in _paths_of(name, storage, split)]
    if not paths:
        raise SourceError("the list of sources is empty: give paths of shards or of images")
    return paths


def storage_names() -> list[str]:
    """Return the names of the options of remote storage."""
    from readers.storage.remote import StorageOptions

    return [found.name for found in fields(StorageOptions)]


def _storage_options(options: dict[str, object]) -> "StorageOptions":
    """Remove the options of remote storage from others, and return them."""
    from readers.storage.remote import configure

    known = storage_names()
    taken: dict[str, Any] = {name: options.pop(name) for name in list(options) if name in known}
    return replace(configure(), **taken)


def _paths_of(text: str, storage: "StorageOptions | None", split: str | None) -> list[str]:
    """Return the files of a path, a pattern or the URL of a folder; local folders stay."""
    if storage and is_url(text) and has_wildcards(text) and text.endswith(".parquet"):
        _refuse_remote_tables(text, storage)
    found = find_paths(text, storage)
    if storage and len(found) == 1 and is_url(text) and _is_folder(found[0], storage):
        return _inside(f"{found[0].removesuffix('/')}/", storage, split)
    if split is None and has_wildcards(text):
        return choose_split(found, None, text)  # a star must not mix training and test data
    return found


def _is_folder(url: str, storage: "StorageOptions") -> bool:
    """Return whether a URL ends in a slash, or in a name without a suffix below which a store has objects."""
    from readers.storage.remote.listing import states_below
    from readers.storage.remote.options import BUCKETS

    name = url.rpartition("/")[2]
    if not name:
        return True
    if url.partition("://")[0].lower() not in BUCKETS or "." in name or NUMBERED.search(name):
        return False
    return next(states_below(f"{url}/", storage), None) is not None


def _refuse_remote_tables(pattern: str, storage: "StorageOptions") -> None:
    """Refuse a pattern of files of a table, which include removed ones."""
    from readers.storage.remote import list_around

    for url, names in list_around(expand_braces(pattern)[0], storage):
        refuse_remote_folder(url, names)


def _inside(url: str, storage: "StorageOptions", split: str | None) -> list[str]:
    """Return the files of a folder in a store."""
    from readers.storage.remote import Url, list_remote

    every = list_remote(url, storage, own=True)
    refuse_unfinished(url, [path.removeprefix(url) for path in every])
    there = [path for path in every if OWN not in path.removeprefix(url)]
    refuse_remote_folder(url, [path.removeprefix(url) for path in there])
    deeper = [path for path in there if "/" in path.removeprefix(url)]
    there = [path for path in there if "/" not in path.removeprefix(url)]
    folder_kinds = [kind for kind in FORMATS.values() if kind.remote and kind.takes == "folder"]
    names = [path.removeprefix(url) for path in there]
    if index := next(filter(None, (kind.index_file(names) for kind in folder_kinds)), None):
        return [Url(f"{url}{index}", storage)]
    found = [path for path in there if is_shard(path.rpartition("/")[2])]
    found = found or [path for path in there if NUMBERED.search(path)]
    folders = sorted({path.removeprefix(url).partition("/")[0] for path in deeper})
    if found and folders:
        raise SourceError(
            f"{url} holds shards and the folder {folders[0]}: give the shards as a pattern, or move them "
            "to a folder of their own"
        )
    if found:
        return [Url(path, storage) for path in choose_split(found, split, url)]
    if split is None and (splits := folder_splits(folders)):
        named = {f"{name}/": split for name, split in splits.items()}
        refuse_several(url, named, f"the folder {url}")
    chosen = [name for name in folders if split and split_of(name) == canonical(split)]
    if len(chosen) == 1:
        return _inside(f"{url}{chosen[0]}/", storage, None)
    if "data" in folders:
        return _inside(f"{url}data/", storage, split)
    inside = f", but folders ({few_of(folders)}): give one of them" if folders else ""
    raise SourceError(
        f"{url} holds no shards{inside or ': give the URL of files or of their folder'}"
    )
