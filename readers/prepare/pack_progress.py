"""The progress of a pack, in a file beside its shards, so that it can be resumed after an interruption."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from readers.prepare.errors import PrepareError
from readers.prepare.packed import MANIFEST
from readers.sample import BadSample
from readers.storage.atomic_file import atomic_file

_VERSION = 1


class Manifest:
    """The finished shards of a folder, written anew whenever one is added.

    Args:
        folder: Where the shards lie; it exists.
        settings: What decides about their content: plain JSON, equal in every run that goes on.
        class_names: Name of each class number, which shards themselves do not keep.

    Raises:
        PrepareError: The folder holds shards of other settings, or something else.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, object], class_names: tuple[str, ...]
    ) -> None:
        self._path = folder / MANIFEST
        self._content: dict[str, Any] = {
            "version": _VERSION,
            "settings": dict(settings),
            "class_names": list(class_names),
            "complete": False,
            "shards": [],
            "bad_samples": [],
        }
        if self._path.exists():
            self._go_on()
        elif any(not path.name.startswith(".gpuaug-") for path in folder.iterdir()):
            raise PrepareError(
                f"{folder} holds files and no {MANIFEST} of an earlier run: give a new or empty folder"
            )

    def _go_on(self) -> None:
        try:
            found = json.loads(self._path.read_bytes())
            before, now = found["settings"], self._content["settings"]
        except (OSError, ValueError, KeyError, TypeError):
            raise PrepareError(f"{self._path} is no manifest: give a new or empty folder") from None
        if found.get("version") != _VERSION or before != now:
            names = [name for name in now if before.get(name) != now[name]] or ["version"]
            changes = ", ".join(
                f"{name} was {before.get(name)}, is {now.get(name)}" for name in names
            )
            raise PrepareError(
                f"{self._path.parent} was begun with other settings ({changes}): "
                "repeat them, or give a new folder"
            )
        self._content = found

    @property
    def shards(self) -> list[dict[str, Any]]:
        """name, begin and end (positions in the order), samples and bytes."""
        shards: list[dict[str, Any]] = self._content["shards"]
        return shards

    @property
    def bad_samples(self) -> list[dict[str, str]]:
        """key, stage and reason of each sample that was not packed."""
        bad_samples: list[dict[str, str]] = self._content["bad_samples"]
        return bad_samples

    @property
    def complete(self) -> bool:
        """Whether every sample of the source has been packed or found bad."""
        return bool(self._content["complete"])

    def check_shards(self) -> None:
        """See that the finished shards are there and as long as they were.

        Raises:
            PrepareError: One is not.
        """
        for shard in self.shards:
            path = self._path.with_name(shard["name"])
            size_bytes = path.stat().st_size if path.exists() else None
            if size_bytes != shard["bytes"]:
                found = "is missing" if size_bytes is None else f"has {size_bytes} bytes"
                raise PrepareError(
                    f"{path} {found}, and {MANIFEST} says {shard['bytes']} bytes: give a new folder, or put "
                    "it back"
                )

    @property
    def position(self) -> int:
        """Number of finished samples of the order."""
        return self.shards[-1]["end"] if self.shards else 0

    def next_path(self, extension: str) -> Path:
        """Path of the next shard."""
        return self._path.with_name(f"shard-{len(self.shards):06d}.{extension}")

    def begin(self) -> None:
        """Note what the folder is for, before anything else is written into it."""
        if not self._path.exists():
            self._write()

    def add(self, shard: Mapping[str, object], bad: Sequence[BadSample]) -> None:
        """Note a finished shard, and the bad samples met on the way."""
        self.shards.append(dict(shard))
        self._note_bad(bad)
        self._write()

    def finish(self, bad: Sequence[BadSample]) -> None:
        """Note the bad samples behind the last shard, and that nothing is left to do."""
        self._note_bad(bad)
        self._content["complete"] = True
        self._write()

    def _note_bad(self, bad: Sequence[BadSample]) -> None:
        self.bad_samples.extend(
            {"key": sample.key, "stage": sample.stage, "reason": sample.reason} for sample in bad
        )

    def _write(self) -> None:
        with atomic_file(self._path, to_disk=True) as file:
            file.write(json.dumps(self._content, indent=1).encode())
