"""Opening the data to prepare: with random access where possible, else sequentially."""

import os
from typing import Any

from readers.datasets.dataset import IndexedDataset
from readers.detect.registry import FORMATS, format_of
from readers.formats.stream import TarStream
from readers.open import open_dataset
from readers.sample import Dataset, SourceError
from readers.storage.unreadable import refuse_folder_error


def open_at_random(source: str, format: str | None = None, **options: Any) -> IndexedDataset:
    """Open a source whose samples are taken in any order.

    Args:
        source: As for `readers.open_dataset`.
        format: A name in `readers.detect.registry.FORMATS`; None tells it from the source.
        options: ``split`` and options of the format, as for `readers.open_dataset`.

    Raises:
        SourceError: It cannot be opened, or the format can only be read from front to back.
    """
    if _is_sequential(format):
        raise SourceError(
            f"{format=} is read from front to back, and samples are taken in any order here: make shards "
            f"of it with gpu-aug pack SOURCE FOLDER --source-format {format}"
        )
    kind: Any = format  # which is judged there
    dataset: IndexedDataset = open_dataset(source, format=kind, **options)
    return dataset


def open_source(
    source: str, *, format: str | None = None, allow_pipe: bool = False, **options: Any
) -> Dataset | TarStream:
    """Open a source, or a stream where it can only be read forward.

    Args:
        source: As for `readers.open_dataset`, or ``pipe:COMMAND``.
        format: A name in `readers.detect.registry.FORMATS`; None tells it from the source.
        allow_pipe: Whether the source may be a command that is run.
        options: ``split`` and options of the format, as for `readers.open_dataset`.

    Raises:
        SourceError: It cannot be opened, or is a command and that was not allowed.
    """
    if source.startswith("pipe:"):
        if not allow_pipe:
            raise SourceError(f"{source!r} runs a command: add --allow-pipe if you trust it")
        return TarStream(source, allow_pipe=True, **options)
    kind: Any = format  # which is judged there
    try:
        dataset: Dataset | TarStream = open_dataset(source, format=kind, **options)
    except SourceError as error:
        found: Any = format_of(source)
        if format or found is None or found.random_access:
            raise
        try:
            dataset = open_dataset(source, format=found.name, **options)
        except SourceError:
            raise error from None
    return dataset


def _is_sequential(format: str | None) -> bool:
    return format in FORMATS and not FORMATS[format].random_access


def title_of(dataset: Dataset | TarStream) -> str:
    """The display name of a dataset's format."""
    reader = f"{type(dataset).__module__}:{type(dataset).__name__}"
    return next((kind.title for kind in FORMATS.values() if kind.reader == reader), reader)


def files_left_out(source: str, dataset: Dataset | TarStream) -> list[str]:
    """Return the names of images in a folder of videos, or of videos in one of images, which are no samples."""
    endings = getattr(dataset, "unread_suffixes", ())
    if not endings:
        return []
    names = [
        name
        for _, _, files in os.walk(source, onerror=refuse_folder_error)
        for name in sorted(files)
    ]
    return [name for name in names if name.lower().endswith(endings) and name[0] != "."]
