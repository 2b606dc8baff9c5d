"""The folder .nv-meta that ``energon prepare`` writes: shards, splits, and the names of the fields of samples.

Format: https://nvidia.github.io/Megatron-Energon/
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec

from readers.detect.splits import no_such_split
from readers.formats.columns import to_label, to_payload
from readers.formats.named_splits import choose_name
from readers.formats.text import Content, to_struct
from readers.sample import BadSample, Payload, Sample, SourceError
from readers.storage.paths import expand_braces
from readers.storage.whole_files import read_text
from readers.storage.yaml_text import parse_yaml

FOLDER = ".nv-meta"
# Names in a field_map that Energon's sample types have for the image and the label.
IMAGE_NAMES = ("image", "images", "video", "videos")
LABEL_NAMES = ("label", "labels", "cls", "class_label")
_ROLES = (*IMAGE_NAMES, *LABEL_NAMES)
_PATH = re.compile(r"([^\[\]]+)((?:\[[^\[\]]+\])+)")  # json[key][0]
_ENTRY = re.compile(r"(.+?\.tar)(?:/(.+))?")  # a shard, or a sample of it


def fits(folder: Path) -> bool:
    """Return whether a folder was prepared by Energon."""
    inside = folder / FOLDER
    return any((inside / name).is_file() for name in (".info.json", ".info.yaml"))


class FieldMap:
    """Names for parts of samples.

    Args:
        parts: For each name the part of a sample: ``jpg``, ``jpg,png`` for the first of both that is present, or a value in
            JSON, ``json[key][0]``.

    Attributes:
        label: The part that holds the label, "" if none is named.
    """

    def __init__(self, parts: Mapping[str, str]) -> None:
        self._parts = dict(parts)
        self._image = next((parts[name] for name in IMAGE_NAMES if name in parts), "")
        self.label = next((parts[name] for name in LABEL_NAMES if name in parts), "")

    @property
    def identity(self) -> str:
        """Text that no other map has."""
        return json.dumps(self._parts)

    @property
    def adds_fields(self) -> bool:
        """Whether samples get fields besides the stored ones."""
        return any(name not in _ROLES for name in self._parts)

    def apply(self, sample: Sample | BadSample) -> Sample | BadSample:
        """Return the sample with its image and label, and with the other named parts as further fields."""
        if isinstance(sample, BadSample):
            return sample
        fields, label = dict(sample.fields), sample.label
        image = next((part for part in self._image.split(",") if part in fields), None)
        try:
            for name, part in self._parts.items():
                if name in _ROLES or name in fields:
                    continue
                value = _value(sample.fields, part)
                if value is not None:
                    fields[name] = to_payload(value)
            if self.label:
                label = to_label(_value(sample.fields, self.label))
        except (ValueError, TypeError) as error:
            return BadSample(sample.index, sample.key, "read", str(error))
        return replace(sample, fields=fields, label=label, image_field=image or sample.image_field)


def _value(fields: Mapping[str, Payload], parts: str) -> Any:
    """Return the first part that is present; None without one.

    Raises:
        ValueError: A field that must hold JSON does not.
    """
    for part in map(str.strip, parts.split(",")):
        if part in fields:
            return fields[part]
        match = _PATH.fullmatch(part)
        if match and match[1] in fields:
            return _json_value(fields[match[1]], match[1], match[2])
    return None


def _json_value(data: Payload, field: str, path: str) -> Any:
    """Return a value within the JSON of a field; None where the path leads nowhere."""
    try:
        value = json.loads(bytes(data))
    except (ValueError, RecursionError):
        raise ValueError(
            f"the field {field!r} holds no JSON, and its value {path} is asked for"
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
    """The content of .nv-meta for one split.

    Attributes:
        shards: Names of its tars below the folder, in order.
        counts: Samples of each shard when it was prepared.
        excluded: Keys of samples that are left out, by shard. (Energon's documentation says numbers; its code compares keys.)
        fields: Names of the samples' parts: ``{"image": "jpg", "caption": "json[text]"}``.
        loader: The Python file that makes samples, "" without one. It is never run.
    """

    shards: tuple[str, ...]
    counts: Mapping[str, int]
    excluded: Mapping[str, frozenset[str]]
    fields: Mapping[str, str]
    loader: str


def read_metadata(root: Path, split: str | None) -> Prepared:
    """Read the folder .nv-meta of a dataset.

    Args:
        root: Folder of the dataset.
        split: Name of the split; None for the only one.

    Raises:
        SourceError: The metadata is damaged, holds several splits or not this one, or names files outside the dataset's folder.
    """
    counts = _read(root, ".info", _Info).shard_counts
    if not counts:
        raise SourceError(
            f"{root / FOLDER} lists no shards: run energon prepare again, or give the tars as a pattern"
        )
    for name in counts:
        _require_inside(root, name)
    splits = _read(root, "split", _Splits)
    shards = _shards(root, splits.split_parts or {}, list(counts), split)
    excluded, excluded_shards = _excluded(root, splits.exclude or [])
    data = _read(root, "dataset", _Dataset)
    remaining = tuple(name for name in shards if name not in excluded_shards)
    if not remaining:
        raise SourceError(f"all shards of {root} are excluded by {FOLDER}/split.yaml: correct it")
    loader = str(data.sample_loader or "")
    whole_counts = {name: int(counts[name]) for name in remaining}
    return Prepared(remaining, whole_counts, excluded, data.field_map or {}, loader)


class _Info(msgspec.Struct):
    """The content of .info.yaml or .info.json."""

    shard_counts: dict[str, Annotated[float, msgspec.Meta(ge=0, lt=1 << 53)]] = {}


class _Splits(msgspec.Struct):
    """The content of split.yaml. Names may be numbers, which YAML does not tell from text."""

    split_parts: dict[Any, list[Any] | None] | None = None
    exclude: list[Any] | None = None


class _Dataset(msgspec.Struct):
    """The content of dataset.yaml."""

    field_map: dict[str, str] | None = None
    sample_loader: Any = None


def _read(root: Path, name: str, kind: type[Content]) -> Content:
    """Return the content of NAME.yaml or NAME.json; an empty one if there is neither."""
    paths = [
        path for end in ("yaml", "json") if (path := root / FOLDER / f"{name}.{end}").is_file()
    ]
    if not paths:
        return kind()
    if len(paths) > 1 and name != ".info":
        raise SourceError(f"{root / FOLDER} holds {paths[0].name} and {paths[1].name}: delete one")
    path = paths[-1]
    try:
        text = read_text(path, "a description")
        value = json.loads(text) if path.suffix == ".json" else parse_yaml(text)
        return to_struct(value, kind)
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{path} cannot be read ({error}): correct it, or run energon prepare again"
        ) from None


def _shards(
    root: Path, parts: Mapping[Any, list[Any] | None], names: list[str], split: str | None
) -> list[str]:
    """Return the shards of a split, in the order of split.yaml; all shards where it names none."""
    if not parts:
        if split is not None:
            raise no_such_split(str(root), split, [])
        return names
    named = {str(name): patterns for name, patterns in parts.items() if patterns}
    wanted = choose_name({name: name for name in named}, split, root)
    shards = [str(name) for pattern in named[wanted] for name in expand_braces(str(pattern))]
    unknown = [name for name in shards if name not in names]
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
        match = _ENTRY.fullmatch(text)
        if not match:
            raise SourceError(
                f"{root / FOLDER}/split.yaml excludes {text!r}: write SHARD.tar, or SHARD.tar/KEY for a sample"
            )
        if match[2] is None:
            shards.add(match[1])
        else:
            samples.setdefault(match[1], set()).add(match[2])
    return {name: frozenset(keys) for name, keys in samples.items()}, frozenset(shards)


def _require_inside(root: Path, name: str) -> None:
    parts = PurePosixPath(name).parts
    if "://" in name or name.startswith("/") or ".." in parts:
        raise SourceError(
            f"{root / FOLDER} names {name!r}, which does not lie in its folder: prepare the folder again"
        )
