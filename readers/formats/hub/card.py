"""Repositories of datasets: their URLs, hf://datasets/NAMESPACE/NAME@REVISION/PATH, and their card, README.md.

The card lists the files of each split, and the names of classes.

Format of the card: https://huggingface.co/docs/hub/datasets-manual-configuration
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from readers.formats.text import to_struct
from readers.sample import SourceError
from readers.storage.yaml_text import parse_yaml

SCHEME = "hf://"
_KIND = "datasets/"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Revisions with slashes that are not percent-encoded; the Hub has such names itself.
_LONG = re.compile(r"(refs/(?:convert/[^/]+|pr/[0-9]+))(?:/(.*))?")
NAME = "README.md"  # the card
# The YAML between two lines of dashes, and the keys in it that are read.
_HEAD = re.compile(r"\A\ufeff?---\r?\n(.*?)^---\s*$", re.DOTALL | re.MULTILINE)
_KEYS = re.compile(r"""^["']?(configs|dataset_info)["']?\s*:""", re.MULTILINE)


class HubAddress(NamedTuple):
    """A parsed URL.

    Attributes:
        repository: ``NAMESPACE/NAME``, or ``NAME`` alone.
        revision: Branch, tag or commit; None is the main branch.
        path: Path of a file or a folder in it, or a pattern; "" for all files.
    """

    repository: str
    revision: str | None
    path: str

    @classmethod
    def of(cls, url: str) -> "HubAddress":
        """Return the parts of a URL.

        Raises:
            SourceError: The URL names no dataset repository.
        """
        rest = url[len(SCHEME) :]
        if not rest.startswith(_KIND):
            raise SourceError(
                f"{url} names no dataset: write hf://datasets/NAMESPACE/NAME, with datasets/ before the name"
            )
        before, at, after = rest.removeprefix(_KIND).partition("@")
        if not at:
            parts = before.split("/", 2)
            name, revision, path = "/".join(parts[:2]), None, "/".join(parts[2:])
        else:
            name = before
            if match := _LONG.fullmatch(after):
                revision, path = match[1], match[2] or ""
            else:
                revision, _, path = after.partition("/")
                revision = unquote(revision)
        name = name.strip("/")
        words = name.split("/")
        if len(words) > 2 or not all(map(_NAME.fullmatch, words)) or (at and not revision):
            raise SourceError(
                f"{url} names no dataset: write hf://datasets/NAMESPACE/NAME, with @REVISION behind it where that is not "
                "the main branch"
            )
        return cls(name, revision, path.strip("/"))


@dataclass(frozen=True)
class Config:
    """One configuration of a dataset on the Hub.

    Attributes:
        name: Name of the configuration.
        files: Patterns of the files of each split; empty if the names of files tell the splits.
        folder: Folder of the files, "" for the whole repository.
        class_names: Names of the classes in each column of classes.
        is_default: Whether this configuration is opened if none is named.
    """

    name: str
    files: Mapping[str, list[str]] = field(default_factory=dict)
    folder: str = ""
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_default: bool = False


_Paths = str | list[str]


# Dataclasses instead of structs: `import readers` imports this module, and to import msgspec takes 10 ms.
@dataclass
class _Files:
    """The files of one split."""

    split: Any
    path: _Paths


@dataclass
class _Entry:
    """One element of ``configs``."""

    config_name: Any
    data_files: str | list[str | _Files] | dict[Any, _Paths] | None = None
    data_dir: Any = None
    default: Any = None


@dataclass
class _ClassLabel:
    """Names of classes, as a list or by number."""

    names: list[Any] | dict[str | int, Any] | None = None


@dataclass
class _Type:
    """The type of a column that needs more than a word."""

    class_label: _ClassLabel | None = None


@dataclass
class _Feature:
    """One column."""

    name: Any = None
    dtype: _Type | str | list[Any] | None = None


@dataclass
class _Info:
    """One element of ``dataset_info``."""

    config_name: Any = "default"
    features: list[_Feature] | None = None


@dataclass
class _Card:
    """The part of a card that is read."""

    configs: list[_Entry] | None = None
    dataset_info: _Info | list[_Info] | None = None


def read_card(text: str, shown: str) -> dict[str, Config]:
    """Return the configurations in a card, by name; {} without any.

    Args:
        text: The complete README.md.
        shown: The repository, for errors.

    Raises:
        SourceError: The configurations cannot be read.
    """
    head = _HEAD.match(text)
    if not head or not _KEYS.search(head[1]):
        return {}
    try:
        card = to_struct(parse_yaml(head[1]), _Card)
        infos = card.dataset_info or []
        names = _class_names_by_config(infos if isinstance(infos, list) else [infos])
        configs = {str(one.config_name): _config(one, names) for one in card.configs or ()}
    except ValueError as error:
        raise SourceError(
            f"the configs in the {NAME} of {shown} cannot be read ({str(error)[:150]}): give the files by their paths"
        ) from None
    for name, classes in names.items():
        configs.setdefault(name, Config(name, class_names=classes))
    return configs


def choose_config(configs: Mapping[str, Config], name: str | None, shown: str) -> Config:
    """Return the configuration with a name; without a name the default one, or the only one.

    Raises:
        SourceError: No configuration has this name, or there are several and none is the default.
    """
    if name is not None:
        if name not in configs:
            raise SourceError(
                f"{shown} has no config {name!r}: it has {', '.join(configs) or 'none'}"
            )
        return configs[name]
    if not configs:
        return Config("default")
    default = [one for one in configs.values() if one.is_default] or [
        one for one in configs.values() if one.name == "default" or len(configs) == 1
    ]
    if not default:
        raise SourceError(
            f"{shown} has the configs {', '.join(configs)}: open one of them, open_dataset(..., "
            f"config={next(iter(configs))!r})"
        )
    return default[0]


def _config(entry: _Entry, names: Mapping[str, Mapping[str, tuple[str, ...]]]) -> Config:
    name = str(entry.config_name)
    folder = str(entry.data_dir or "").strip("/")
    patterns = {} if entry.data_files is None else _by_split(entry.data_files)
    if folder:
        patterns = {split: [f"{folder}/{one}" for one in ones] for split, ones in patterns.items()}
    return Config(name, patterns, folder, names.get(name, {}), entry.default is True)


def _by_split(files: str | list[str | _Files] | dict[Any, _Paths]) -> dict[str, list[str]]:
    """Return patterns by split; patterns without a split belong to train."""
    if isinstance(files, dict):
        return {str(split): _listed(paths) for split, paths in files.items()}
    every = [files] if isinstance(files, str) else files
    named = {str(one.split): _listed(one.path) for one in every if isinstance(one, _Files)}
    paths = [one for one in every if isinstance(one, str)]
    if named and paths:
        raise ValueError("data_files holds paths with and without a split")
    return named or {"train": paths}


def _listed(paths: _Paths) -> list[str]:
    return [paths] if isinstance(paths, str) else paths


def _class_names_by_config(infos: list[_Info]) -> dict[str, dict[str, tuple[str, ...]]]:
    return {
        str(info.config_name): {
            str(one.name): names
            for one in info.features or ()
            if isinstance(one.dtype, _Type) and (names := _class_names(one.dtype.class_label))
        }
        for info in infos
    }


def _class_names(label: _ClassLabel | None) -> tuple[str, ...]:
    """Return the names of a ``class_label``, a list or a mapping from "0" on; () without any."""
    names = (label and label.names) or ()
    if isinstance(names, dict):
        numbered = {int(number): str(name) for number, name in names.items()}
        if sorted(numbered) != list(range(len(numbered))):
            raise ValueError("the numbers of classes have gaps")
        return tuple(numbered[number] for number in range(len(numbered)))
    return tuple(map(str, names))
