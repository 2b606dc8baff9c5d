"""Tar shards listed by other files: the index of wids, and the statistics of img2dataset."""

import json
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from readers.detect.listed_folder import ListedFolder
from readers.detect.splits import choose_split
from readers.sample import SourceError
from readers.storage.limits import TooLargeError
from readers.storage.paths import is_url
from readers.storage.whole_files import read_head, read_whole

INDEX = "index.json"
_KIND = b"wids-shard-index-v1"
_LOOKED_AT = 4096  # first bytes of a file, among which an index of wids names its kind
_STATS = "_stats.json"


def shards_of_index(path: Path) -> list[str] | None:
    """Return the paths and URLs of the shards that an index of wids lists, None if the path is no such index.

    Args:
        path: Path of a local file, or of a folder with an index.json.

    Raises:
        SourceError: The index is damaged or names files outside of its folder; or a shard is missing or has another size than
            in the index.
    """
    file = path / INDEX if path.is_dir() else path
    if file.suffix != ".json" or not file.is_file() or _KIND not in read_head(file, _LOOKED_AT):
        return None
    try:
        shards = json.loads(read_whole(file))["shardlist"]
        files = [(str(shard["url"]), shard.get("filesize")) for shard in shards]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = error if isinstance(error, TooLargeError) else f"{type(error).__name__}: {error}"
        raise SourceError(f"{file} is a damaged index of wids ({reason}): write it again") from None
    if not files:
        raise SourceError(f"{file} lists no shards: write it again")
    return [_shard(file, url, size) for url, size in files]


def detect_finished(folder: ListedFolder, split: str | None) -> list[str] | None:
    """Return the paths of a split's tars in a folder of img2dataset, None for other folders; see `Format.detect`."""
    tars = finished_shards(folder.path, folder.files)
    return choose_split(tars, split, str(folder.path)) if tars else None


def finished_shards(folder: Path, files: Sequence[str]) -> list[str] | None:
    """Return the paths of the tars in a folder of img2dataset, None for other folders.

    The Parquet files next to the tars are left out: they have a row for each requested image, in another order.

    Args:
        folder: The folder.
        files: Names of the files in it.

    Raises:
        SourceError: A tar is unfinished, since its statistics, which are written last, are missing.
    """
    there = set(files)
    tars = sorted(name for name in files if name.endswith(".tar"))
    done = [name for name in tars if name.removesuffix(".tar") + _STATS in there]
    if not done or not _is_statistics(folder / (done[0].removesuffix(".tar") + _STATS)):
        return None
    begun = [name for name in tars if name not in done]
    if begun:
        raise SourceError(
            f"{folder} holds {len(begun)} of {len(tars)} shards that img2dataset has not finished ({begun[0]} has no "
            f"{begun[0].removesuffix('.tar')}{_STATS}): run it again, or give the finished ones as a list"
        )
    return [str(folder / name) for name in done]


def _shard(file: Path, url: str, size: Any) -> str:
    if is_url(url):
        return url
    if url.startswith(("/", "pipe:")) or ".." in PurePosixPath(url).parts:
        raise SourceError(
            f"{file} lists {url!r}, which does not lie in its folder: give the shards as a list"
        )
    path = file.parent / url
    if not path.is_file():
        raise SourceError(
            f"{file} lists {url}, which is not there: copy it, or write the index again"
        )
    if isinstance(size, int) and path.stat().st_size != size:
        raise SourceError(
            f"{path} holds {path.stat().st_size} bytes, and {file.name} tells of {size}: copy it, or write the index again"
        )
    return str(path)


def _is_statistics(file: Path) -> bool:
    try:
        content = json.loads(read_whole(file))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and {"count", "successes"} <= content.keys()
