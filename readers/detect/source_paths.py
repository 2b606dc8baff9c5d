"""Find the files of a source that is given by paths, patterns or URLs, or by folders in object stores."""

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from readers.describe import describe, few_of
from readers.detect.files import format_at, is_shard, refuse_remote_folder
from readers.detect.registry import NUMBERED, index_file_of
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
from readers.storage.paths import (
    UrlFolder,
    expand_braces,
    find_paths,
    has_wildcards,
    is_url,
)

if TYPE_CHECKING:
    from readers.storage.remote import StorageOptions


def texts_of(source: Any) -> list[str]:
    """Return the paths, patterns and URLs of a source as a list of texts.

    Raises:
        SourceError: `source` is something else, such as an array.
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
    """Return the files that paths, patterns and URLs stand for; local folders are returned unchanged.

    Args:
        names: The paths, patterns and URLs.
        split: The requested split; None if the source has only one.
        options: The options that the caller passed. If there is a URL, the options of remote storage are removed from
            this dict.

    Raises:
        SourceError: No file was found, or the files belong to several splits.
    """
    storage = _storage_options(options) if any(map(is_url, names)) else None
    paths = [path for name in names for path in _paths_of(name, storage, split)]
    if not paths:
        raise SourceError("the list of sources is empty: give paths of shards or of images")
    return paths


def storage_names() -> list[str]:
    """Return the names of the options of remote storage, the fields of `readers.storage.remote.StorageOptions`."""
    from readers.storage.remote import StorageOptions

    return [found.name for found in fields(StorageOptions)]


def _storage_options(options: dict[str, object]) -> "StorageOptions":
    """Remove the options of remote storage from `options`, and return them on top of the configured defaults."""
    from readers.storage.remote import configure

    known = storage_names()
    taken: dict[str, Any] = {name: options.pop(name) for name in list(options) if name in known}
    return replace(configure(), **taken)


def _paths_of(text: str, storage: "StorageOptions | None", split: str | None) -> list[str]:
    """Return the files of a path, a pattern or the URL of a folder; a local folder is returned unchanged."""
    if storage and is_url(text) and has_wildcards(text) and text.endswith(".parquet"):
        _refuse_remote_tables(text, storage)
    found = find_paths(text, storage)
    if storage and len(found) == 1 and is_url(text) and _is_folder(found[0], storage):
        return _inside(f"{found[0].removesuffix('/')}/", storage, split)
    if split is None and has_wildcards(text):
        return choose_split(found, None, text)  # a star must not mix training and test data
    return found


def _is_folder(url: str, storage: "StorageOptions") -> bool:
    """Return whether a URL is a folder to be listed: it ends in a slash, or in a name without a suffix below which are objects.

    A folder on an HTTP server is none if it has a format that is read without a list.
    """
    from readers.storage.remote.listing import states_below
    from readers.storage.remote.options import BUCKETS

    name = url.rpartition("/")[2]
    is_listed = url.partition("://")[0].lower() in BUCKETS
    if not name:
        return is_listed or format_at(url) is None
    if not is_listed or "." in name or NUMBERED.search(name):
        return False
    return next(states_below(f"{url}/", storage), None) is not None


def _refuse_remote_tables(pattern: str, storage: "StorageOptions") -> None:
    """Refuse a pattern that matches files of a Delta, Iceberg or similar table, because it would match removed files, too.

    Raises:
        SourceError: The folder of the pattern holds such a table.
    """
    from readers.storage.remote import list_around

    for url, names in list_around(expand_braces(pattern)[0], storage):
        refuse_remote_folder(url, names)


def _inside(url: str, storage: "StorageOptions", split: str | None) -> list[str]:
    """Return the URLs of the shards, or of the index file, in a folder of a store.

    Args:
        url: URL of the folder, with a slash at its end.
        storage: Options of remote storage.
        split: The requested split; None if the folder has only one.

    Raises:
        SourceError: The folder holds no shards, several splits, or shards beside folders.
    """
    from readers.storage.remote import Url, list_remote

    every = list_remote(url, storage, own=True)
    refuse_unfinished(url, [path.removeprefix(url) for path in every])
    there = [path for path in every if OWN not in path.removeprefix(url)]
    refuse_remote_folder(url, [path.removeprefix(url) for path in there])
    names = [path.removeprefix(url) for path in there]
    deeper = [path for path in there if "/" in path.removeprefix(url)]
    there = [path for path in there if "/" not in path.removeprefix(url)]
    if index := index_file_of(names, UrlFolder(Url(url, storage))):
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
