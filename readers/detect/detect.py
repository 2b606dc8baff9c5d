"""Detect the format of a source by names, by the contents of folders and, last, by first bytes."""

from pathlib import Path

from readers.detect.files import Detected, detect_files, is_tfrecord
from readers.detect.folder import detect_folder, folder_of_split
from readers.detect.registry import FORMATS, format_of
from readers.detect.splits import choose_split
from readers.formats.tar.listed import shards_of_index
from readers.sample import SourceError
from readers.storage.paths import is_url


def detect(paths: list[str], split: str | None) -> Detected:
    """Return the format of files, or of the contents of a folder.

    Args:
        paths: Paths and URLs, of files or of one local folder.
        split: The split to take; None if there is only one.

    Raises:
        SourceError: They are of no known format or of several, or hold several splits.
    """
    if len(paths) == 1 and not is_url(paths[0]) and (shards := shards_of_index(Path(paths[0]))):
        return detect_files(shards, split)
    if len(paths) == 1 and not is_url(paths[0]) and Path(paths[0]).is_dir():
        return detect_folder(Path(paths[0]), split)
    return detect_files(paths, split)


def detect_named(format: str, paths: list[str], split: str | None) -> Detected:
    """Return the format that the caller named, with the files of that format if the path is a folder."""
    kind = FORMATS[format]
    if kind.own_splits:
        return Detected(kind, paths)
    if len(paths) > 1 or is_url(paths[0]) or not Path(paths[0]).is_dir():
        return Detected(kind, paths if split is None else choose_split(paths, split, paths[0]))
    folder = Path(paths[0])
    if kind.name == "list":
        raise SourceError(
            f"{folder} is a folder, and format='list' reads the file of a list or single files: say format='folder', or "
            f"give a list file or a pattern such as {str(folder / '*.jpg')!r}"
        )
    inside = sorted(path for path in folder.iterdir() if path.name[0] != ".")
    if kind.takes == "files":
        of_kind = [str(path) for path in inside if format_of(path.name) is kind]
        if not of_kind and kind.name == "tfrecord":
            of_kind = [str(path) for path in inside if is_tfrecord(path)]
        if of_kind:
            return Detected(kind, choose_split(of_kind, split, str(folder)))
    if split is None:
        return Detected(kind, paths)
    return Detected(kind, [str(folder_of_split(folder, [path.name for path in inside], split))])
