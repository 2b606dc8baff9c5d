"""The folder .nv-meta that ``energon prepare`` writes: shards, splits, and which field of a sample is what.

Format: https://nvidia.github.io/Megatron-Energon/
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from readers.detect.splits import canonical, in_order, no_such_split, several_splits
from readers.formats.columns import to_label, to_payload
from readers.sample import BadSample, Payload, Sample, SourceError
from readers.storage.paths import expand_braces
from readers.storage.whole_files import read_text
from readers.storage.yaml_text import parse_yaml

IMAGE_NAMES = ("image", "images", "video", "videos")
LABEL_NAMES = ("label", "labels", "cls", "class_label")
_PATH = re.compile(r"([^\[\]]+)((?:\[[^\[\]]+\])+)")
FOLDER = ".nv-meta"
_ENTRY = re.compile(r"(.+?\.tar)(?:/(.+))?")


def fits(folder: Path) -> bool:
    """Return whether a folder was prepared by Energon."""
    inside = folder / FOLDER
    return any((inside / name).is_file() for name in (".info.json", ".info.yaml"))


class FieldMap:
    """Names for parts of samples.

    Args:
        told: Name -> parts: ``jpg``, the first that is there of ``jpg,png``, or a value in JSON, ``json[key][0]``.

    Attributes:
        label: The part that holds the label, "" where none is named.
    """

    def __init__(self, told: Mapping[str, str]) -> None:
        self._told = dict(told)
        self._image = next((told[name] for name in IMAGE_NAMES if name in told), "")
        self.label = next((told[name] for name in LABEL_NAMES if name in told), "")

    @property
    def identity(self) -> str:
        """Text that no other map has."""
        return json.dumps(self._told)

    @property
    def adds_fields(self) -> bool:
        """Whether samples get fields besides those that are stored."""
        return any(name not in (*IMAGE_NAMES, *LABEL_NAMES) for name in self._told)

    def apply(self, sample: Sample | BadSample) -> Sample | BadSample:
        """Return the sample with its label, its image, and what has a name of its own as further fields."""
        if isinstance(sample, BadSample):
            return sample
        fields, label = dict(sample.fields), sample.label
        image = next((part for part in self._image.split(",") if part in fields), None)
        try:
            for name, part in self._told.items():
                if name in (*IMAGE_NAMES, *LABEL_NAMES) or name in fields:
                    continue
                value = _value(sample.fields, part)
                if value is not None:
                    fields[name] = to_payload(value)
            if self.label:
                found = _value(sample.fields, self.label)
                label = to_label(found)
        except (ValueError, TypeError) as error:
            return BadSample(sample.index, sample.key, "read", str(error))
        return replace(sample, fields=fields, label=label, image_field=image or sample.image_field)


def _value(fields: Mapping[str, Payload], parts: str) -> Any:
    """The first of the parts that is there; None where none is.

    Raises:
        ValueError: What should be JSON is none.
    """
    for part in (one.strip() for one in parts.split(",")):
        if part in fields:
            return fields[part]
        found = _PATH.fullmatch(part)
        if found and found[1] in fields:
            return _inside(fields[found[1]], found[1], found[2])
    return None


def _inside(data: Payload, field: str, path: str) -> Any:
    try:
        value = json.loads(bytes(data))
    except (ValueError, RecursionError):
        raise ValueError(
            f"the field {field!r} holds no JSON, in which {path} is looked for"
        ) from None
    for key in re.findall(r"\[([^\[\]]+)\]", path):
        name = key.strip("'\"")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


@dataclass(frozen=True)
class Prepared:
    """What .nv-meta tells of one split.

    Attributes:
        shards: Names of its tars below the folder, in order.
        counts: Samples of each shard when it was prepared.
        excluded: Keys of samples that are left out, by shard. (Its documentation says numbers; Energon compares keys.)
        fields: What the samples' parts are called: ``{"image": "jpg", "caption": "json[text]"}``.
        loader: The Python file that makes samples instead, "" where there is none. It is never run.
    """

    shards: tuple[str, ...]
    counts: Mapping[str, int]
    excluded: Mapping[str, frozenset[str]]
    fields: Mapping[str, str]
    loader: str


def read_metadata(root: Path, split: str | None) -> Prepared:
    """Read it.

    Args:
        root: Folder of the dataset.
        split: Which split; None where there is but one.

    Raises:
        SourceError: It is damaged, holds several splits or not this one, or names files outside of its folder.
    """
    info = _read(root, ".info")
    counts = info and info.get("shard_counts")
    if not isinstance(counts, dict) or not counts:
        raise SourceError(
            f"{root / FOLDER} tells of no shards: run energon prepare again, or give the tars as a pattern"
        )
    for name in counts:
        _require_inside(root, name)
    told = _read(root, "split") or {}
    shards = _shards(root, told, list(counts), split)
    excluded, whole = _excluded(root, told.get("exclude") or [])
    data = _read(root, "dataset") or {}
    fields = data.get("field_map") or {}
    if not isinstance(fields, dict) or not all(isinstance(one, str) for one in fields.values()):
        raise SourceError(
            f"the field_map in {root / FOLDER}/dataset.yaml is no mapping of names: correct it"
        )
    kept = tuple(name for name in shards if name not in whole)
    if not kept:
        raise SourceError(f"all shards of {root} are excluded by {FOLDER}/split.yaml: correct it")
    loader = str(data.get("sample_loader") or "")
    return Prepared(kept, {name: int(counts[name]) for name in kept}, excluded, fields, loader)


def _read(root: Path, name: str) -> dict[str, Any] | None:
    """Return what NAME.yaml or NAME.json holds, None where neither is there."""
    found = [
        path for end in ("yaml", "json") if (path := root / FOLDER / f"{name}.{end}").is_file()
    ]
    if not found:
        return None
    if len(found) > 1 and name != ".info":
        raise SourceError(f"{root / FOLDER} holds {found[0].name} and {found[1].name}: delete one")
    path = found[-1]
    try:
        text = read_text(path, "a description")
        value = json.loads(text) if path.suffix == ".json" else parse_yaml(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise SourceError(f"{path} holds no mapping: run energon prepare again")
    return value


def _shards(root: Path, told: dict[str, Any], every: list[str], split: str | None) -> list[str]:
    parts = told.get("split_parts")
    if not parts:
        if split is not None:
            raise no_such_split(str(root), split, [])
        return every
    if not isinstance(parts, dict):
        raise SourceError(f"split_parts in {root / FOLDER}/split.yaml is no mapping: correct it")
    named = {str(name): patterns for name, patterns in parts.items() if patterns}
    if split is None:
        if len(named) > 1:
            raise SourceError(several_splits(str(root), in_order(named), ""))
        split = next(iter(named), "train")
    by_word = {canonical(name): name for name in named}
    wanted = split if split in named else by_word.get(canonical(split), "")
    if not wanted:
        raise no_such_split(str(root), split, in_order(named))
    shards = [str(name) for pattern in named[wanted] for name in expand_braces(str(pattern))]
    unknown = [name for name in shards if name not in every]
    if unknown:
        raise SourceError(
            f"the split {wanted} of {root} names {unknown[0]}, which {FOLDER}/.info.json does not know: run energon prepare "
            "again"
        )
    return list(dict.fromkeys(shards))


def _excluded(root: Path, entries: list[Any]) -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    """Return the samples that are left out by shard, and the shards that are left out whole."""
    samples: dict[str, set[str]] = {}
    shards = set()
    for text in (name for entry in entries for name in expand_braces(str(entry))):
        found = _ENTRY.fullmatch(text)
        if not found:
            raise SourceError(
                f"{root / FOLDER}/split.yaml excludes {text!r}: write SHARD.tar, or SHARD.tar/KEY for a sample"
            )
        if found[2] is None:
            shards.add(found[1])
        else:
            samples.setdefault(found[1], set()).add(found[2])
    return {name: frozenset(keys) for name, keys in samples.items()}, frozenset(shards)


def _require_inside(root: Path, name: str) -> None:
    parts = PurePosixPath(name).parts
    if "://" in name or name.startswith("/") or ".." in parts:
        raise SourceError(
            f"{root / FOLDER} names {name!r}, which does not lie in its folder: prepare the folder again"
        )
