"""Open a dataset after detecting its format."""

import inspect
import logging
import os
import time
import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from readers.datasets.dataset import IndexedDataset
from readers.datasets.first_samples import probed_samples
from readers.detect.detect import detect, detect_named
from readers.detect.files import Detected
from readers.detect.registry import FORMATS, Format, FormatName, Opened
from readers.detect.source_paths import find_files, storage_names, texts_of
from readers.detect.split_column import rows_of_split
from readers.detect.splits import UnnamedSplitsError
from readers.formats.declared import declared_counts, differing_counts, missing_shards
from readers.formats.hub.repository import find_repository
from readers.labels.given_labels import GivenLabels, split_pairs
from readers.labels.unlabelled import unlabelled_warnings
from readers.sample import PathLike, SourceError
from readers.storage.paths import has_wildcards, is_url, shown_path
from readers.storage.unreadable import oserror_as_source_error

if TYPE_CHECKING:
    from readers.formats.stream import TarStream

_log = logging.getLogger(f"gpu_aug.{__name__}")

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
            .tfrecord, ...; sorted by name), or one that a library wrote (LMDB, MDS, Hugging Face, LeRobot) or an
            annotation tool (Pascal VOC, YOLO, LabelMe, DOTA); also
            ``<class>/<video>/`` with frames called ``img_00001.jpg`` or ``frame_00001.jpg`` (frames with other names
            look like the images of a class: pass ``format="frame-folder"``),
            a file of any format in `readers.detect.registry.FORMATS`, such as a table or list of images, of videos and their
            clips, or of folders of frames,
            a pattern with braces or wildcards, such as ``train-{000000..000099}.tar`` or ``*.parquet``, also
            in object stores (on HTTP servers, which cannot be listed, only braces),
            a video,
            a URL of such files or of a folder with them: ``s3://``, ``gs://``, ``az://``, ``abfss://``, ``http://``,
            ``https://``,
            a dataset of the Hugging Face Hub, ``hf://datasets/NAMESPACE/NAME@REVISION/PATH``, or a clone of one (with
            ``config=`` if its README lists several configs),
            a sequence of files or patterns of one format, of image files, or of videos,
            a sequence of pairs of an image or a video and its label, as for `labels`: ``[("a.jpg", "cat"), ...]``.
        format: Name of the format, if it cannot be detected. "stream" reads tars forward only, as compressed tars, pipes
            and some servers require.
        split: The split to take if files or folders are named after several splits (``train-00000-of-00002.parquet``,
            ``val/``; see `readers.detect.splits`), or if a column ``split`` of tables or JSON lines has several values.
            Several splits are never mixed silently: to mix them, give a list of patterns; if the folders are classes
            rather than splits, pass ``format="folder"``.
        labels: Labels that replace those of the data, as for `IndexedDataset.with_labels`: one for each sample in
            the order of the dataset, an array, or a dictionary by key; ``classes=`` names their classes.
        options: Options of the format's class, such as ``image="photo"`` to name a column; for URLs also the options
            of `readers.storage.remote.StorageOptions`, such as ``cache_bytes=0``.

    Returns:
        A dataset with random access; a `TarStream` if the format is "stream".

    Warns:
        UserWarning: Files in the source are not read, such as boxes in an unknown format; another column might have been
            meant; or samples have no label (label -1).

    Raises:
        SourceError: The source is missing, empty, of an unknown format or holds several splits, or an option is unknown.

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
    if split is not None and not isinstance(split, str):
        raise SourceError(f"split={split!r} is no name: give that of one split, such as 'train'")
    source, labels = split_pairs(source, labels)
    names, many = texts_of(source), not isinstance(source, (str, os.PathLike))
    classes = options.pop("classes", None) if labels is not None else None
    format = format or next(
        (k.name for k in FORMATS.values() if options.keys() & k.unique_options), None
    )
    repository = _of_repository(names, format, split, options)
    made, remarks = (
        _of_files(names, many, format, split, options) if repository is None else (repository, [])
    )
    if labels is None and isinstance(made, IndexedDataset):
        name = names[0] + f" and {len(names) - 1:,} more" * (len(names) > 1)
        remarks = [
            *remarks,
            *unlabelled_warnings(
                made.unlabelled, len(made), shown_path(name), probed_samples(made)
            ),
        ]
    for remark in remarks:
        warnings.warn(remark, UserWarning, stacklevel=2)
    if labels is None:
        return made
    if not isinstance(made, IndexedDataset):
        raise SourceError(
            f"{names[0]} is read forward and takes no labels=: make shards of it (gpu-aug pack)"
        )
    return made.with_labels(labels, classes=classes)  # type: ignore[arg-type]


def _of_repository(
    names: list[str], format: str | None, split: str | None, options: dict[str, object]
) -> IndexedDataset | None:
    """Open a repository of the Hugging Face Hub; return None if `names` are something else."""
    config = options.pop("config", None)
    if config is not None and not isinstance(config, str):
        raise SourceError(f"config={config!r} is no name: give that of a config of the repository")
    repository = find_repository(names, format)
    if repository is not None:
        from readers.formats.hub.dataset import open_repository

        return open_repository(
            repository, split, config, options, partial(_open_files, format=format), format
        )
    if config is not None:
        raise SourceError(
            f"config={config!r} is for repositories of the Hugging Face Hub, which {names[0]} is not: leave it out"
        )
    return None


def _open_files(
    source: Source, *, format: str | None, split: str | None = None, **options: object
) -> Any:
    """Open files of a repository; return a dataset. The caller warns about missing labels, for the whole repository."""
    many = not isinstance(source, (str, os.PathLike))
    # The dataset card defines which files make a split; a column of the rows may divide them differently.
    made, remarks = _of_files(texts_of(source), many, format, split, options, by_column=False)
    for remark in remarks:
        warnings.warn(remark, UserWarning, stacklevel=4)
    return made


def _of_files(
    names: list[str],
    many: bool,
    format: str | None,
    split: str | None,
    options: dict[str, object],
    *,
    by_column: bool = True,
) -> "tuple[IndexedDataset | TarStream, list[str]]":
    """Open files or folders; return the dataset and the warnings about it."""
    began = time.perf_counter()
    paths, found, is_named = _find_and_detect(names, format, split, options)
    kind, paths, options = found.format, found.paths, {**found.options, **options}
    if kind.own_splits and split is not None:
        options = {**options, "split": split}
    with oserror_as_source_error(paths[0]):
        made = _open_format(kind, paths, many or len(paths) > 1, options)
    _log_opened(made, kind, paths, time.perf_counter() - began)
    opened = Opened(made, paths[0], options, is_detected=format is None)
    remarks = [*getattr(made, "remarks", ()), *(kind.ask("warn", opened) or ())]
    if kind.takes == "files":
        declared = declared_counts(paths)
        are_listed = not found.is_indexed and _are_listed(names, paths)
        remarks += missing_shards(paths, declared) if are_listed else ()
        remarks += (
            differing_counts(made, paths, declared) if isinstance(made, IndexedDataset) else ()
        )
    if kind.split_column and by_column and isinstance(made, IndexedDataset):
        again = partial(_open_format, kind, paths, many or len(paths) > 1)
        made, more = rows_of_split(made, again, options, split, shown_path(paths[0]), is_named)
        remarks += more
    return made, remarks


def _find_and_detect(
    names: list[str], format: str | None, split: str | None, options: dict[str, object]
) -> tuple[list[str], Detected, bool]:
    """Return the files of a split, their format, and True if the split was found by the names of files or folders.

    If no name has a split, but rows of the format may have a column ``split``, return all files, their format and False.
    """
    try:
        paths = find_files(names, split, options)
        return paths, _detect_format(paths, format, split, options), True
    except UnnamedSplitsError:
        paths = find_files(names, None, options)
        found = _detect_format(paths, format, None, options)
        if not found.format.split_column:
            raise
        return paths, found, False


def _are_listed(names: list[str], paths: list[str]) -> bool:
    """Return whether some files were found by a wildcard or by listing a folder, and not named by the user one by one."""
    return any(
        has_wildcards(name)
        or (is_url(name) and "{" not in name and name not in paths)
        or os.path.isdir(name)  # noqa: PTH112 - commands are long
        for name in names
    )


def _detect_format(
    paths: list[str], format: str | None, split: str | None, options: dict[str, object]
) -> Detected:
    if format is not None:
        return detect_named(format, paths, split)
    found = detect(paths, split, options)
    if not found.format.random_access:
        raise SourceError(
            f"{found.paths[0]} can only be read forward: say format={found.format.name!r}, which a Loader takes with "
            "shuffle='block', or decompress it or make shards of it (gpu-aug pack)"
        )
    return found


def _open_format(
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
        allowed += storage_names()
    if unknown:
        raise SourceError(
            f"{kind.title} has no option {unknown[0]!r}: it has {', '.join(allowed) or 'none'}"
        )
    if kind.takes == "files" or kind.ask("reads_single", paths, many):
        return reader(paths, **options)  # type: ignore[no-any-return]
    if len(paths) > 1:
        raise SourceError(f"{kind.title} is one {kind.takes}, got {len(paths)}: give one of them")
    return reader(paths[0], **options)  # type: ignore[no-any-return]


def _log_opened(
    made: "IndexedDataset | TarStream", kind: Format, paths: list[str], seconds: float
) -> None:
    if not _log.isEnabledFor(logging.INFO):
        return
    others = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
    holds = f"{len(made):,} samples" if isinstance(made, IndexedDataset) else "a stream"
    first = shown_path(paths[0])
    _log.info("opened %s%s as %s: %s, in %.2f s", first, others, kind.name, holds, seconds)
