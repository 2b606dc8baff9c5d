"""Opening a dataset, with its format detected."""

import inspect
import os
import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from readers.dataset import IndexedDataset
from readers.describe import describe, few_of
from readers.formats.detect import detect, detect_named
from readers.formats.detect_files import MDS_INDEX, is_list, is_shard, is_video
from readers.formats.detect_stores import refuse_remote_table
from readers.formats.folder_warnings import doubts
from readers.formats.hub.repository import find_repository
from readers.formats.path_table.detect import is_path_table
from readers.formats.registry import FORMATS, NUMBERED, Format, FormatName
from readers.formats.split_classes import told_of_other_classes
from readers.formats.splits import (
    canonical,
    choose_split,
    folder_splits,
    in_order,
    several_splits,
    split_of,
)
from readers.formats.unused_annotations import unread
from readers.given_labels import GivenLabels
from readers.sample import PathLike, SourceError
from readers.storage.paths import expand_braces, find_paths, has_wildcards, is_url
from readers.storage.unreadable import unreadable

if TYPE_CHECKING:
    from readers.formats.stream import TarStream
    from readers.storage.remote import StorageOptions

Source = PathLike | Sequence[PathLike] | Sequence[tuple[PathLike, Any]]


@overload
def open_dataset(
    source: Source,
    *,
    format: FormatName | None = None,
    split: str | None = None,
    labels: GivenLabels | None = None,
    **options: object,
) -> IndexedDataset: ...
@overload
def open_dataset(
    source: PathLike | Sequence[PathLike],
    *,
    format: Literal["stream"],
    split: str | None = None,
    labels: None = None,
    **options: object,
) -> "TarStream": ...
def open_dataset(
    source: Source,
    *,
    format: str | None = None,
    split: str | None = None,
    labels: GivenLabels | None = None,
    **options: object,
) -> "IndexedDataset | TarStream":
    """Open a dataset and detect its format.

    Args:
        source: One of
            a folder: of images or class folders, of videos, of files of one format (.tar, .parquet,
            .tfrecord, ...; sorted by name), or one that a library wrote (LMDB, MDS, Hugging Face, LeRobot) or that a tool for
            annotations did (Pascal VOC, YOLO, LabelMe); also
            ``<class>/<video>/`` with frames called ``img_00001.jpg`` or ``frame_00001.jpg``, while other
            frames look like images of a class: say ``format="frame-folder"``,
            a file of any format in `readers.formats.registry.FORMATS`, among them tables and lists of images, lists of videos and
            their clips, and of folders of frames,
            a pattern with braces or wildcards, such as ``train-{000000..000099}.tar`` or ``*.parquet``, also
            in object stores (HTTP servers cannot be listed: braces alone),
            a video,
            a URL of such files or of a folder with them: ``s3://``, ``gs://``, ``az://``, ``abfss://``, ``http://``,
            ``https://``,
            a dataset of the Hugging Face Hub, ``hf://datasets/NAMESPACE/NAME@REVISION/PATH``, or a clone of one (with
            ``config=`` where its README has several),
            a sequence of files or patterns of one format, of image files, or of videos,
            a sequence of pairs of an image or a video and its label, as for `labels`: ``[("a.jpg", "cat"), ...]``.
        format: Name of the format, if name and content of the source do not tell it. "stream" reads tars
            forward only, which is all that compressed ones, pipes and some servers allow.
        split: Which split to take where names of files or folders tell several (``train-00000-of-00002.parquet``,
            ``val/``), by Hugging Face's rules (see `readers.formats.splits`). Several splits are never opened as one
            without a word: a list of patterns does so, and ``format="folder"`` where they are classes.
        labels: Labels in the place of those that the data has, as for `IndexedDataset.with_labels`: one for each sample in
            the order of the dataset, an array, or a dictionary by key; ``classes=`` names their classes.
        options: Options of the format's class, such as ``image="photo"`` to name a column; for URLs also those
            of `readers.storage.remote.StorageOptions`, such as ``cache_bytes=0``.

    Warns:
        UserWarning: Something lies there that is not read, such as boxes in files of a kind that no reader knows,
            or another column might have been meant.

    Raises:
        SourceError: It is missing, empty, of no known kind, holds several splits, or has no such option.

    Example:
        >>> photos = open_dataset("photos/")
        >>> photos.class_names
        ('cat', 'dog')
        >>> len(open_dataset("train-{000000..000003}.tar"))
        40
        >>> table = open_dataset("data.parquet", image="photo", label="class")
    """
    if format is not None and format not in FORMATS:
        raise SourceError(f"format={format!r} is not known: give one of {', '.join(FORMATS)}")
    pairs = _pairs_of(source)
    if pairs is not None:
        source, labels = _from_pairs(pairs, labels)
    classes = options.pop("classes", None) if labels is not None else None
    format = format or next((k.name for k in FORMATS.values() if options.keys() & k.told_by), None)
    many, names = not isinstance(source, (str, os.PathLike)), _texts_of(source)
    repository = _of_repository(names, format, split, options)
    if repository is not None:
        return repository if labels is None else repository.with_labels(labels, classes=classes)  # type: ignore[arg-type]
    storage = _storage_options(options) if any(map(is_url, names)) else None
    paths = [path for name in names for path in _paths_of(name, storage, split)]
    if not paths:
        raise SourceError("the list of sources is empty: give paths of shards or of images")
    found = detect_named(format, paths, split) if format else detect(paths, split)
    kind, paths, options = found.format, found.paths, {**found.options, **options}
    if kind.name == "stream" and format is None:
        raise SourceError(
            f"{paths[0]} can only be read forward: say format='stream', which a Loader takes with "
            "shuffle='block', or decompress it or make shards of it (gpu-aug pack)"
        )
    if format is None and len(paths) == 1 and is_path_table(paths[0], options):
        kind = FORMATS["csv"]
    if kind.own_splits and split is not None:
        options = {**options, "split": split}
    with unreadable(paths[0]):
        made = _made(kind, paths, many or len(paths) > 1, options)
    beside = [*unread(kind, paths[0]), *(doubts(kind, paths[0]) if format is None else ())]
    beside += [] if "classes" in options else told_of_other_classes(kind, paths[0])
    for remark in [*getattr(made, "remarks", ()), *beside]:
        warnings.warn(remark, UserWarning, stacklevel=2)
    if labels is None:
        return made
    if not isinstance(made, IndexedDataset):
        raise SourceError(
            f"{kind.title} is read forward and takes no labels=: make shards of it (gpu-aug pack)"
        )
    return made.with_labels(labels, classes=classes)  # type: ignore[arg-type]


def _of_repository(
    names: list[str], format: str | None, split: str | None, options: dict[str, object]
) -> IndexedDataset | None:
    """Open a repository of the Hugging Face Hub, None where these names are of none."""
    config = options.pop("config", None)
    if config is not None and not isinstance(config, str):
        raise SourceError(f"config={config!r} is no name: give that of a config of the repository")
    repository = find_repository(names, format)
    if repository is not None:
        from readers.formats.hub.dataset import open_repository

        opened = partial(open_dataset, format=format)
        return open_repository(repository, split, config, options, opened)
    if config is not None:
        raise SourceError(
            f"config={config!r} is for repositories of the Hugging Face Hub, which {names[0]} is not: leave it out"
        )
    return None


def _pairs_of(source: Any) -> list[tuple[PathLike, Any]] | None:
    """Return pairs of a path and a label; None where the source is something else."""
    if isinstance(source, (str, os.PathLike)) or not isinstance(source, Sequence):
        return None
    are_pairs = [isinstance(one, tuple | list) for one in source]
    if not any(are_pairs):
        return None
    for number, one in enumerate(source):
        is_path = are_pairs[number] and len(one) == 2 and isinstance(one[0], (str, os.PathLike))
        if not is_path:
            raise SourceError(
                f"source[{number}] is no pair of a path and a label, as others in the list are: give (path, label) for each"
            )
    return [(one[0], one[1]) for one in source]


def _from_pairs(
    pairs: list[tuple[PathLike, Any]], labels: object
) -> tuple[list[PathLike], list[Any]]:
    if labels is not None:
        raise SourceError(
            "labels= and pairs of a path and a label are given: leave one of them out"
        )
    wild = next((path for path, _ in pairs if has_wildcards(os.fspath(path))), None)
    if wild is not None:
        raise SourceError(f"{wild} is a pattern, and a pair names one file: give a pair for each")
    return [path for path, _ in pairs], [label for _, label in pairs]


def _texts_of(source: Any) -> list[str]:
    if hasattr(source, "dtype"):
        raise SourceError(
            f"source={describe(source)} is no path: of images in memory make a dataset with "
            "readers.from_arrays(images, labels)"
        )
    items = [source] if isinstance(source, (str, os.PathLike)) else source
    try:
        return [os.fspath(item) for item in items]
    except TypeError:
        raise SourceError(
            f"source={describe(source)} is no path: give a path, a pattern, a URL, or a list of them; a list of arrays "
            "is for readers.from_arrays, a Dataset of PyTorch for dali_pipes.integrations.torch_dataset.from_torch"
        ) from None


def _made(
    kind: Format, paths: list[str], many: bool, options: dict[str, object]
) -> "IndexedDataset | TarStream":
    away = next((path for path in paths if is_url(path)), None)
    if away and not kind.remote:
        raise SourceError(
            f"{away} lies elsewhere, and {kind.title} is read from this machine's files: copy it here, "
            "or make .tar or .parquet shards of it (gpu-aug pack)"
        )
    reader = kind.load()
    allowed = list(inspect.signature(reader).parameters)[1:]
    unknown = [name for name in options if name not in allowed]
    if away:
        allowed += _storage_names()
    if unknown:
        raise SourceError(
            f"{kind.title} has no option {unknown[0]!r}: it has {', '.join(allowed) or 'none'}"
        )
    if kind.name == "list" and (many or not is_list(paths[0])):
        return reader(paths, **options)  # type: ignore[no-any-return]
    if kind.name == "clip-list" and all(map(is_video, paths)):
        return reader(paths, **options)  # type: ignore[no-any-return]
    if kind.takes == "files":
        return reader(paths, **options)  # type: ignore[no-any-return]
    if len(paths) > 1:
        raise SourceError(f"{kind.title} is one {kind.takes}, got {len(paths)}: give one of them")
    return reader(paths[0], **options)  # type: ignore[no-any-return]


def _storage_options(options: dict[str, object]) -> "StorageOptions":
    """Take the options that say how URLs are reached out of the others."""
    from readers.storage.remote import configure

    known = _storage_names()
    taken: dict[str, Any] = {name: options.pop(name) for name in list(options) if name in known}
    return replace(configure(), **taken)


def _storage_names() -> list[str]:
    from readers.storage.remote import StorageOptions

    return [found.name for found in fields(StorageOptions)]


def _paths_of(text: str, storage: "StorageOptions | None", split: str | None) -> list[str]:
    """Return the files that a path, a pattern or the URL of a folder stands for; local folders stay."""
    if storage and is_url(text) and has_wildcards(text) and text.endswith(".parquet"):
        _refuse_remote_tables(text, storage)
    found = find_paths(text, storage)
    if storage and len(found) == 1 and is_url(text) and text.endswith("/"):
        return _inside(found[0], storage, split)
    if split is None and has_wildcards(text):
        return choose_split(found, None, text)  # else a star would train on the test data
    return found


def _refuse_remote_tables(pattern: str, storage: "StorageOptions") -> None:
    """Refuse a pattern of files of a table, among which are removed ones."""
    from readers.storage.remote import list_around

    for url, names in list_around(expand_braces(pattern)[0], storage):
        refuse_remote_table(url, names)


def _inside(url: str, storage: "StorageOptions", split: str | None) -> list[str]:
    """Return the files of a folder in a store."""
    from readers.storage.remote import Url, list_remote

    there = list_remote(url, storage)
    refuse_remote_table(url, [path.removeprefix(url) for path in there])
    deeper = [path for path in there if "/" in path.removeprefix(url)]
    there = [path for path in there if "/" not in path.removeprefix(url)]
    if f"{url}{MDS_INDEX}" in there:
        return [Url(f"{url}{MDS_INDEX}", storage)]
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
    splits = folder_splits(folders) if split is None else {}
    if splits:
        names = in_order(splits.values())
        first = next(name for name in folders if splits.get(name) == names[0])
        raise SourceError(several_splits(url, names, f"the folder {url}{first}/"))
    chosen = [name for name in folders if split and split_of(name) == canonical(split)]
    if len(chosen) == 1:
        return _inside(f"{url}{chosen[0]}/", storage, None)
    if "data" in folders:
        return _inside(f"{url}data/", storage, split)
    inside = f", but folders ({few_of(folders)}): give one of them" if folders else ""
    raise SourceError(
        f"{url} holds no shards{inside or ': give the URL of files or of their folder'}"
    )
