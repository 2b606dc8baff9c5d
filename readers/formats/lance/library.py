"""Access to the package lance: opening a version, one-line errors, and refusal in forked processes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from readers.detect.registry import require
from readers.sample import SourceError

_BLOB_MARK, _BLOB_TYPE = b"lance-encoding:blob", "lance.blob.v2"
_MAX_REASON = 160  # characters of a reason, which has to fit one line
_is_inherited = False


class LanceError(OSError):
    """Raised in place of an error of lance; the text is its reason in one line."""


def lance() -> ModuleType:
    """Return the module lance.

    Raises:
        SourceError: lance is not installed, or this process was forked from one that had imported it, so that its
            threads are missing.
    """
    if _is_inherited:
        raise SourceError(
            "Lance data cannot be read in a process that was forked from one that has opened some: start "
            "processes with spawn or forkserver, such as DataLoader(multiprocessing_context='spawn')"
        )
    return require("lance", extra="lance")


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn exceptions and panics of lance in the with block into a LanceError.

    Raises:
        LanceError: lance raised an exception.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, SourceError):
        raise
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"
        if not is_panic and not isinstance(error, Exception):
            raise
        # lance appends the position in its own source code to the reason.
        text = str(error).partition("\n")[0].partition(", /")[0].partition(", rust/")[0]
        raise LanceError(text[:_MAX_REASON].strip(" :,") or type(error).__name__) from None


def open_version(path: str, version: int | str | None) -> Any:
    """Open a Lance dataset at a version.

    Args:
        path: Path of the folder.
        version: Version number or tag; None for the newest version.

    Returns:
        A lance.LanceDataset that is fixed at this version.

    Raises:
        SourceError: There is no such dataset or version.
    """
    library = lance()
    if not (Path(path) / "_versions").is_dir():
        raise SourceError(
            f"{path} is no Lance dataset: give the folder that holds _versions/ and data/"
        )
    try:
        with one_line_errors():
            newest = library.dataset(path)
    except LanceError as error:
        raise SourceError(f"{path} cannot be opened: {error}") from None
    if version is None:
        return newest
    try:
        with one_line_errors():
            return library.dataset(path, version=version)
    except LanceError:
        raise SourceError(f"{path} has no version {version!r}: {_versions_of(newest)}") from None


def blob_columns(schema: Any) -> frozenset[str]:
    """Return the names of the columns that are stored as blobs, marked by a field's metadata or by its type.

    Args:
        schema: The pyarrow.Schema of a Lance dataset.
    """
    return frozenset(
        field.name
        for field in schema
        if (field.metadata or {}).get(_BLOB_MARK) == b"true"
        or getattr(field.type, "extension_name", "") == _BLOB_TYPE
    )


def fragments_of(dataset: Any) -> list[dict[str, Any]]:
    """Return for each fragment of a version a JSON-compatible dict of its files, row count, deletion file and overlays."""
    found = []
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata.to_json()
        files = [
            {name: file[name] for name in ("path", "fields", "file_size_bytes")}
            for file in metadata["files"]
        ]
        deletions = metadata["deletion_file"]
        found.append(
            {
                "files": files,
                "rows": metadata["physical_rows"],
                "deleted": deletions
                and [deletions["read_version"], deletions["id"], deletions["num_deleted_rows"]],
                "overlays": metadata.get("overlays") or [],
            }
        )
    return found


def _versions_of(dataset: Any) -> str:
    numbers = [one["version"] for one in dataset.versions()]
    tags = sorted(dataset.tags.list())
    versions = f"it has version {numbers[0]}" + (f" to {numbers[-1]}" if numbers[1:] else "")
    return f"{versions}, and the tags {', '.join(tags[:10])}" if tags else versions


def _after_fork() -> None:
    global _is_inherited
    _is_inherited = "lance" in sys.modules


os.register_at_fork(after_in_child=_after_fork)
