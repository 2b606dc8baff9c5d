"""Opening the data to prepare: with random access where possible, else sequentially."""

import os
from typing import Any

from readers.datasets.dataset import IndexedDataset
from readers.detect.registry import FORMATS
from readers.formats.folder import FolderDataset
from readers.formats.stream import TarStream
from readers.open import open_dataset
from readers.sample import IMAGE_FIELDS, VIDEO_FIELDS, Dataset, SourceError
from readers.storage.unreadable import refuse_folder_error
from readers.video.files import VideoFolderDataset

_OTHERS: dict[type, tuple[str, ...]] = {
    FolderDataset: tuple(f".{name}" for name in VIDEO_FIELDS),
    VideoFolderDataset: (*(f".{name}" for name in IMAGE_FIELDS), ".ts"),
}


def open_at_random(source: str, format: str | None = None, **options: Any) -> IndexedDataset:
    """Open a source whose samples are taken in any order.

    Args:
        source: As for `readers.open_dataset`.
        format: A name in `readers.detect.registry.FORMATS`; None tells it from the source.
        options: ``split`` and options of the format, as for `readers.open_dataset`.

    Raises:
        SourceError: It cannot be opened, or the format can only be read from front to back.
    """
    if format == "stream":
        raise SourceError(
            "format='stream' is read from front to back, and samples are taken in any order here: make shards "
            "of it with gpu-aug pack SOURCE FOLDER --source-format stream"
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
    if format == "stream":
        return open_dataset(source, format="stream", **options)
    kind: Any = format  # which is judged there
    try:
        dataset: Dataset = open_dataset(source, format=kind, **options)
    except SourceError as error:
        if format or not source.lower().endswith(FORMATS["stream"].suffixes):
            raise
        try:
            return open_dataset(source, format="stream", **options)
        except SourceError:
            raise error from None
    return dataset


def title_of(dataset: Dataset | TarStream) -> str:
    """The display name of a dataset's format."""
    reader = f"{type(dataset).__module__}:{type(dataset).__name__}"
    return next((kind.title for kind in FORMATS.values() if kind.reader == reader), reader)


def files_left_out(source: str, dataset: Dataset | TarStream) -> list[str]:
    """Names of images that lie in a folder of videos, or of videos in one of images: they are no samples."""
    endings = _OTHERS.get(type(dataset))
    if endings is None:
        return []
    names = [
        name
        for _, _, files in os.walk(source, onerror=refuse_folder_error)
        for name in sorted(files)
    ]
    return [name for name in names if name.lower().endswith(endings) and name[0] != "."]
