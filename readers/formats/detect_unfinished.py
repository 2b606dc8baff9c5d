"""What a pack or a tiling has left that was stopped: a part of the data, which is not opened as if it were all."""

import json
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from readers.sample import SourceError
from readers.storage.whole_files import read_whole

PACKED = "manifest.json"
"""The file in which gpu-aug pack says what it has made, when it has ended."""
_PLANNED = ".gpuaug-plan/plan.json"  # when it has begun
_TILING = ".gpuaug-plan/tiling.plan"  # of gpu-aug tile, as long as it has not ended


def require_finished(folder: Path) -> None:
    """Refuse such a folder.

    Raises:
        SourceError: It is one.
    """
    there = [name for name in (PACKED, _PLANNED, _TILING) if (folder / name).exists()]
    refuse_unfinished(str(folder), there)
    with suppress(FileNotFoundError, ValueError):  # there is none, or it is that of another program
        manifest = json.loads(read_whole(folder / PACKED))
        if isinstance(manifest, dict) and manifest.get("complete") is False:
            raise _not_packed(str(folder))


def refuse_unfinished(place: str, names: Collection[str]) -> None:
    """Refuse such a folder, here or in an object store, by what lies in it.

    Args:
        place: Its path or URL.
        names: Of the files in it and below it, relative to it.

    Raises:
        SourceError: It is one.
    """
    if _TILING in names:
        raise SourceError(
            f"{place} was not tiled to its end: run the same gpu-aug tile again (after an array job, with --merge), or "
            f"remove {place.rstrip('/')}/{_TILING} to take the files that are there"
        )
    if _PLANNED in names and PACKED not in names:
        raise _not_packed(place)


def _not_packed(place: str) -> SourceError:
    return SourceError(
        f"{place} was not packed to its end: run the same gpu-aug pack again (after an array job, with --merge), "
        "or give the shards that are there as a pattern"
    )
