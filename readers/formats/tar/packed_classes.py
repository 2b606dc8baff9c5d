"""Names of the classes of shards that `gpu-aug pack` wrote: a tar holds numbers, the manifest beside it the names."""

import json
from collections.abc import Sequence
from typing import Any

from readers.describe import few_of
from readers.formats.detect_unfinished import PACKED
from readers.sample import ReadersError
from readers.storage.blob import Blob, open_blob


def packed_classes(shards: Sequence[Blob]) -> tuple[str, ...]:
    """The names in the manifests beside some shards; empty unless these list all of them, and agree."""
    found = {_names(folder, some) for folder, some in _by_folder(shards).items()}
    return found.pop() if len(found) == 1 else ()


def about_classes(shards: Sequence[Blob]) -> list[str]:
    """A sentence if the shards of several folders have class numbers that mean different things."""
    folders = _by_folder(shards)
    if len(folders) == 1:
        return []
    named = {_names(folder, there): folder for folder, there in folders.items()}
    named.pop((), None)
    if len(named) < 2:
        return []
    (some, one), (others, other), *_ = named.items()
    return [
        f"the shards in {one} and {other} number their classes differently ({few_of(some, 3)}; {few_of(others, 3)}), so a "
        "label means several things: open them one by one and join them with mix(), or pack their sources together"
    ]


def _by_folder(shards: Sequence[Blob]) -> dict[str, list[Blob]]:
    folders: dict[str, list[Blob]] = {}
    for shard in shards:
        folders.setdefault(shard.location.rpartition("/")[0], []).append(shard)
    return folders


def _names(folder: str, shards: Sequence[Blob]) -> tuple[str, ...]:
    """Those in a folder's manifest; empty unless it lists the shards, by name and size."""
    manifest = _read(f"{folder}/{PACKED}")
    try:
        listed = {(one["name"], one["bytes"]) for one in manifest["shards"]}
        is_theirs = listed.issuperset((shard.name, shard.size_bytes) for shard in shards)
        return tuple(map(str, manifest["class_names"])) if is_theirs else ()
    except (KeyError, TypeError):  # there is none, or it is that of another program
        return ()


def _read(location: str) -> Any:
    try:
        blob = open_blob(location)
        [content] = blob.read([(0, blob.size_bytes)])
        return json.loads(bytes(content))
    except (ReadersError, OSError, ValueError):
        return None
