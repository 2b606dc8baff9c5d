"""Class names of shards that `gpu-aug pack` wrote: tars hold only class numbers, and their manifest holds the names."""

import errno
import json
import warnings
from collections.abc import Sequence
from typing import Any

from readers.describe import few_of
from readers.formats.declared import PACKED
from readers.sample import SourceError
from readers.storage.blob import Blob, is_url, open_blob
from readers.storage.paths import beside
from readers.storage.unreadable import has_errno, is_missing, oserror_as_source_error


def packed_classes(shards: Sequence[Blob]) -> tuple[str, ...]:
    """Return the class names in the manifests next to shards; empty unless the manifests list all shards and agree."""
    names = {_names(manifest, some) for manifest, some in _by_manifest(shards).items()}
    return names.pop() if len(names) == 1 else ()


def about_classes(shards: Sequence[Blob]) -> list[str]:
    """Return a warning if shards in several folders use class numbers for different classes; an empty list otherwise."""
    manifests = _by_manifest(shards)
    if len(manifests) == 1:
        return []
    named = {
        _names(manifest, there): f"{manifest}".removesuffix(f"/{PACKED}")
        for manifest, there in manifests.items()
    }
    named.pop((), None)
    if len(named) < 2:
        return []
    (some, one), (others, other), *_ = named.items()
    return [
        f"the shards in {one} and {other} number their classes differently ({few_of(some, 3)}; {few_of(others, 3)}), so a "
        "label means several things: open them one by one and join them with mix(), or pack their sources together"
    ]


def _by_manifest(shards: Sequence[Blob]) -> dict[str, list[Blob]]:
    manifests: dict[str, list[Blob]] = {}
    for shard in shards:
        manifests.setdefault(beside(shard.location, PACKED), []).append(shard)
    return manifests


def _names(location: str, shards: Sequence[Blob]) -> tuple[str, ...]:
    """Return the class names in a manifest; empty unless it lists all given shards with their names and sizes."""
    manifest = _read(location)
    try:
        listed = {(one["name"], one["bytes"]) for one in manifest["shards"]}
        is_theirs = listed.issuperset((shard.name, shard.size_bytes) for shard in shards)
        return tuple(map(str, manifest["class_names"])) if is_theirs else ()
    except (KeyError, TypeError):  # no manifest, or one of another program
        return ()


def _read(location: str) -> Any:
    """Return the parsed JSON of a manifest, None if it is missing or no JSON.

    Raises:
        SourceError: The manifest exists, or may exist, but cannot be read.
    """
    try:
        with oserror_as_source_error(location):
            blob = open_blob(location)
            [content] = blob.read([(0, blob.size_bytes)])
        return json.loads(bytes(content))
    except ValueError:  # a file of another program
        return None
    except SourceError as error:
        if is_missing(error):
            return None
        # Without list permission, a store answers 403 for a missing object; and a signed URL may be valid for one object only.
        if not (is_url(location) and has_errno(error, errno.EACCES)):
            raise
        if "?" not in location:
            warnings.warn(
                f"{error}: if it is there, the names of the classes are lost; give leave to read it",
                stacklevel=3,
            )
        return None
