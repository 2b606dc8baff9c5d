"""Detect the format of a source by names, by the contents of folders, or by the first bytes of files."""

from pathlib import Path

from readers.detect.files import HEAD_BYTES, NO_OPTIONS, Detected, Options, detect_files
from readers.detect.folder import detect_folder, folder_of_split
from readers.detect.registry import FORMATS, format_by_head, format_of, shards_of_index
from readers.detect.splits import choose_split
from readers.storage.paths import is_url
from readers.storage.whole_files import read_head


def detect(paths: list[str], split: str | None, options: Options = NO_OPTIONS) -> Detected:
    """Return the format of files, or of the contents of a folder.

    Args:
        paths: Paths and URLs of files; or the path of one local folder.
        split: The requested split; None if the source has only one.
        options: The options that the caller passed; some of them determine the format.

    Raises:
        SourceError: The files are of an unknown format or of several formats, or belong to several splits.
    """
    if len(paths) > 1 or is_url(paths[0]):
        return detect_files(paths, split, options)
    if shards := shards_of_index(Path(paths[0])):
        return detect_files(shards, split, options)._replace(is_indexed=True)
    if Path(paths[0]).is_dir():
        return detect_folder(Path(paths[0]), split, options)
    return detect_files(paths, split, options)


def detect_named(format: str, paths: list[str], split: str | None) -> Detected:
    """Return the format that the caller named, and the paths to open.

    Args:
        format: A name in `readers.detect.registry.FORMATS`.
        paths: Paths and URLs of files; or the path of one local folder, whose files of this format are opened.
        split: The requested split; None if the source has only one.

    Raises:
        SourceError: The files belong to several splits, or there is no such split.
    """
    kind = FORMATS[format]
    if kind.own_splits:
        return Detected(kind, paths)
    if len(paths) > 1 or is_url(paths[0]) or not Path(paths[0]).is_dir():
        return Detected(kind, paths if split is None else choose_split(paths, split, paths[0]))
    folder = Path(paths[0])
    inside = sorted(path for path in folder.iterdir() if path.name[0] != ".")
    if kind.takes == "files":
        of_kind = [path for path in inside if format_of(path.name) is kind]
        if not of_kind and kind.begins:
            files = [path for path in inside if path.is_file()]
            of_kind = [
                path for path in files if format_by_head(read_head(path, HEAD_BYTES)) is kind
            ]
        if of_kind:
            return Detected(kind, choose_split(list(map(str, of_kind)), split, str(folder)))
    if split is None:
        return Detected(kind, paths)
    return Detected(kind, [str(folder_of_split(folder, [path.name for path in inside], split))])
