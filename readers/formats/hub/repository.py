"""Hugging Face repositories and their files: a local folder, or a repository of the Hub at one commit."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from readers.describe import few_of
from readers.detect.registry import require
from readers.formats.hub.card import NAME, SCHEME, Config, HubAddress, read_card
from readers.plural import counted
from readers.sample import SourceError
from readers.storage.paths import UrlFolder, expand_braces
from readers.storage.unreadable import reason_of, refuse_folder_error
from readers.storage.whole_files import read_whole

_PART = re.compile(r"(.*)-([0-9]{5})-of-([0-9]{5})(.*)", re.DOTALL)
_THREADS = 8  # parallel downloads, the default of huggingface_hub
# Folders in the Hub's cache: datasets--NAMESPACE--NAME/snapshots/COMMIT.
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FOLDER = re.compile(r"datasets--(.+)")
_ACCESS = "log in (hf auth login) or set HF_TOKEN where it is private"
_NOT_THERE = f"there is no such dataset, or you may not see it: correct the name, or {_ACCESS}"
_HOW_TO_GET = "unset HF_HUB_OFFLINE to download, or get it with hf download --repo-type dataset"
_NOT_CACHED = f"it is not in the cache: {_HOW_TO_GET}"
# Keyed by the names of exception classes, so that the library need not be imported.
_REASONS = {
    "GatedRepoError": f"its owner must let you in: ask for access on its page, and {_ACCESS}",
    "RepositoryNotFoundError": _NOT_THERE,
    "LocalTokenNotFoundError": _NOT_THERE,
    "RevisionNotFoundError": "it has no such revision: give a branch, a tag or a commit behind @",
    "LocalEntryNotFoundError": _NOT_CACHED,
    "IncompleteSnapshotError": _NOT_CACHED,
    "OfflineModeIsEnabled": _NOT_CACHED,
    "HFValidationError": "this is no name of a dataset: write hf://datasets/NAMESPACE/NAME",
}
"""Reason and advice for the user, by the name of an exception class of huggingface_hub."""


def match_files(patterns: Iterable[str], names: Sequence[str], shown: str) -> list[str]:
    """Return the names of the files that match any pattern, in the order of the patterns, each name once.

    ``*`` and ``?`` match characters other than a slash, ``**`` matches any, and a folder matches all files below it.
    Names that begin with a dot, and folders whose names begin with two underscores, match only if they are
    written out.

    Args:
        patterns: Patterns of names relative to the repository.
        names: Names of all files in the repository, with slashes.
        shown: Name of the repository, for errors.

    Raises:
        SourceError: A pattern leads out of the repository, or matches no file.
    """
    matched: dict[str, None] = {}
    for pattern in patterns:
        if "://" in pattern or pattern.startswith("/") or ".." in pattern.split("/"):
            raise SourceError(
                f"{shown} names the files {pattern!r}, which lie elsewhere: download them, and open them there"
            )
        fitting = [name for each in expand_braces(pattern) for name in _fitting(each, names)]
        if not fitting:
            raise SourceError(f"{shown} has no files {pattern!r}: correct the pattern")
        matched |= dict.fromkeys(fitting)
    return list(matched)


def visible_names(names: Iterable[str]) -> list[str]:
    """Return all names that are not hidden, sorted.

    A name is hidden if the file or one of its folders begins with a dot, or a folder begins with two underscores.
    """
    return sorted(name for name in names if not _is_hidden(name))


def require_all_parts(names: Sequence[str], shown: str) -> None:
    """Check that no file of a numbered series (``train-00000-of-00002``) is missing.

    Raises:
        SourceError: A file is missing.
    """
    parts: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for name in names:
        if match := _PART.fullmatch(name):
            parts[match[1], match[3], match[4]].add(match[2])
    for (begin, total, end), present in parts.items():
        if len(present) < int(total):
            raise SourceError(
                f"{shown} holds {len(present)} of the {int(total)} files {begin}-*-of-{total}{end}: download the others"
            )


def _fitting(pattern: str, names: Sequence[str]) -> list[str]:
    pattern = pattern.removeprefix("./").rstrip("/")
    if pattern in names:
        return [pattern]
    fits = re.compile(_translated(pattern), re.DOTALL).fullmatch
    seen = names if _is_hidden(pattern) else visible_names(names)
    return sorted(name for name in seen if fits(name)) or sorted(
        name for name in seen if name.startswith(f"{pattern}/")
    )


def _translated(pattern: str) -> str:
    """Return the regular expression that matches the same names as a pattern."""
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^\]]+\])", pattern)
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        words.get(piece)
        or (re.sub(r"^\[!", "[^", piece) if piece[:1] == "[" and piece[1:] else re.escape(piece))
        for piece in pieces
    )


def _is_hidden(name: str) -> bool:
    *folders, last = name.split("/")
    return last.startswith(".") or any(folder.startswith((".", "__")) for folder in folders)


class Repository:
    """A Hugging Face repository and the names of its files.

    Attributes:
        shown: Name of the repository in messages.
        root: Local folder of the repository.
        name: Name on the Hub, ``NAMESPACE/NAME``; "" if unknown.
        commit: Commit on the Hub, 40 hex digits; "" if unknown.
        path: File, folder or pattern to open, relative to the repository; "" for all files.
        files: Names of the files in the repository, with slashes.
        is_local: Whether the caller gave a local folder.
        is_all: Whether `files` is the complete list from the Hub; if not, it may list only the files in the cache.
    """

    def __init__(
        self,
        shown: str,
        root: Path,
        name: str,
        commit: str,
        path: str,
        files: Sequence[str],
        *,
        is_local: bool = False,
        is_all: bool = False,
    ) -> None:
        self.shown, self.root, self.name, self.commit = shown, root, name, commit
        self.path, self.files, self.is_local, self.is_all = path, files, is_local, is_all

    def configs(self) -> dict[str, Config]:
        """Return the configurations in the repository's card by name; see `read_card`."""
        if NAME not in self.files:
            return {}
        [card] = self.fetch([NAME])
        return read_card(read_whole(card).decode("utf-8", "replace"), self.shown)

    def folder(self, names: Sequence[str]) -> Path | UrlFolder:
        """Return the folder of `path`, from which files are read in parts.

        It is a URL at the commit, unless all files are local or the Hub must not be asked (``HF_HUB_OFFLINE``).

        Args:
            names: Names of the files in the folder, relative to it.
        """
        here = self.root / self.path
        is_here = all((here / name).is_file() for name in names)
        if self.is_local or is_here or _hub().constants.HF_HUB_OFFLINE:
            return here
        return UrlFolder(f"{SCHEME}datasets/{self.name}@{self.commit}/{self.path}")

    def fetch(self, names: Sequence[str]) -> list[str]:
        """Return the local paths of files, after downloading missing ones into the Hub's cache.

        Raises:
            SourceError: A file cannot be downloaded.
        """
        if self.is_local:
            return [str(self.root / name) for name in names]
        hub = _hub()
        missing: list[str] = []

        def fetch(name: str) -> str:
            try:
                return str(
                    hub.hf_hub_download(self.name, name, repo_type="dataset", revision=self.commit)
                )
            except hub.errors.LocalEntryNotFoundError:
                missing.append(name)
                return ""
            except Exception as error:  # noqa: BLE001, errors of several libraries
                raise SourceError(
                    f"{self.shown}: {name} cannot be downloaded: {_describe_error(error)}"
                ) from None

        with ThreadPoolExecutor(_THREADS) as pool:
            paths = list(pool.map(fetch, names))
        if missing:
            raise SourceError(
                f"{self.shown} at commit {self.commit[:7]}: {len(missing)} of {counted(len(names), 'file')} ({few_of(sorted(missing))}) are not in the "
                f"cache {hub.constants.HF_HUB_CACHE}: {_HOW_TO_GET}"
            )
        return paths


def find_repository(sources: Sequence[str], format: str | None) -> Repository | None:
    """Return the repository that the sources name, None if they name none.

    Args:
        sources: Paths and URLs that the caller gave.
        format: Format that the caller gave; a folder of a given format is no repository.

    Raises:
        SourceError: The repository is neither on the Hub nor in its cache, or sources has more entries than the repository.
    """
    if any(one.startswith(SCHEME) for one in sources):
        if len(sources) > 1:
            raise SourceError(
                f"a list must not hold {sources[0]}: open each repository of the Hub by itself and join them with "
                "readers.mix"
            )
        return _on_hub(sources[0])
    if len(sources) != 1 or format is not None or "://" in sources[0]:
        return None
    root = Path(sources[0])
    return _in_folder(root) if root.is_dir() else None


def _in_folder(root: Path) -> Repository | None:
    """Return the repository in a local folder, None if the folder is no repository.

    A repository is a snapshot in the Hub's cache, or a folder with a card that lists configurations or class names.
    """
    root = root.absolute()
    name = commit = ""
    owner = _FOLDER.fullmatch(root.parent.parent.name)
    if owner and root.parent.name == "snapshots" and _COMMIT.fullmatch(root.name):
        name, commit = owner[1].replace("--", "/"), root.name
    try:
        file = root / NAME
        card = read_whole(file).decode("utf-8", "replace") if file.is_file() else ""
    except OSError as error:
        raise SourceError(f"{root / NAME} cannot be read: {reason_of(error)}") from None
    if not commit and not read_card(card, str(root)):
        return None
    return Repository(str(root), root, name, commit, "", _walk(root), is_local=True)


def _on_hub(url: str) -> Repository:
    hub, address = _hub(), HubAddress.of(url)
    offline, is_all = bool(hub.constants.HF_HUB_OFFLINE), True
    options: dict[str, Any] = {"repo_type": "dataset", "revision": address.revision}
    try:
        commit = (
            ""
            if offline
            else hub.HfApi().dataset_info(address.repository, revision=address.revision).sha
        )
        root = Path(
            hub.snapshot_download(
                address.repository, **options, allow_patterns=[NAME], local_files_only=offline
            )
        )
        if commit and root.name != commit:
            raise SourceError(f"{url} has changed just now: open it again")
        options["revision"] = root.name
        files = _cached_files(hub, address.repository, options)
        if files is None:
            is_all = not offline
            files = (
                hub.HfApi().list_repo_files(address.repository, **options)
                if is_all
                else _walk(root)
            )
    except SourceError:
        raise
    except Exception as error:  # noqa: BLE001, errors of several libraries
        raise SourceError(f"{url} cannot be opened: {_describe_error(error)}") from None
    return Repository(url, root, address.repository, root.name, address.path, files, is_all=is_all)


def _cached_files(hub: Any, name: str, options: dict[str, Any]) -> list[str] | None:
    """Return the names of a repository's files as the cache lists them, or None without a list.

    huggingface_hub stores such lists since version 2.
    """
    if not hasattr(hub, "get_cached_repo_tree"):
        return None
    try:
        return [one.path for one in hub.get_cached_repo_tree(name, **options)]
    except hub.errors.CachedRepoTreeNotFoundError:
        return None


def _hub() -> ModuleType:
    hub = require("huggingface_hub", extra="hf")
    for part in ("errors", "constants"):
        require(f"huggingface_hub.{part}", extra="hf")
    return hub


def _describe_error(error: Exception) -> str:
    """Return reason and advice for an exception of huggingface_hub."""
    kind = type(error).__name__
    if kind in _REASONS:
        return _REASONS[kind]
    reason = str(error).partition("\n")[0].strip()[:200] or kind
    return f"{reason}; HF_HUB_OFFLINE=1 reads the files in the cache only"


def _walk(root: Path) -> list[str]:
    paths = []
    for folder, folders, files in os.walk(root, onerror=refuse_folder_error):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        paths += [Path(folder, name).relative_to(root).as_posix() for name in sorted(files)]
    return paths
