"""Names of the classes of shards that `gpu-aug pack` wrote: a tar holds numbers, the manifest beside it the names."""

import json
from collections.abc import Sequence
from typing import Any

from readers.sample import ReadersError
from readers.storage.blob import Blob, open_blob

_MANIFEST = "manifest.json"


def packed_classes(shards: Sequence[Blob]) -> tuple[str, ...]:
    """The names in the manifest beside some shards; empty unless it lists all of them, by name and size."""
    folders = {shard.location.rpartition("/")[0] for shard in shards}
    if len(folders) != 1:
        return ()
    manifest = _read(f"{folders.pop()}/{_MANIFEST}")
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
