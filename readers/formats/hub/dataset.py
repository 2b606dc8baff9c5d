"""Opening the files of a split in a Hugging Face repository, with the class names in its card (README.md)."""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from readers.datasets.dataset import IndexedDataset, Subset
from readers.datasets.selection import RangeSelection
from readers.detect.files import is_shard
from readers.detect.registry import FORMATS, NUMBERED, index_file_of
from readers.detect.splits import choose_split
from readers.fingerprint import fingerprint_of
from readers.formats.hub.card import NAME, Config, choose_config
from readers.formats.hub.repository import Repository, match_files, require_all_parts, visible_names
from readers.formats.named_splits import choose_name
from readers.formats.parquet.dataset import ParquetDataset
from readers.sample import SourceError

Open = Callable[..., IndexedDataset]


class HubDataset(Subset):
    """The samples in files of a Hugging Face repository, with class names from its card.

    Attributes:
        whole: The dataset of the files, opened in their own format.
        repository: Name of the repository, ``NAMESPACE/NAME``; "" if unknown.
        commit: Commit of the files, 40 hex digits; "" if unknown.
    """

    def __init__(
        self, whole: IndexedDataset, repository: str, commit: str, class_names: tuple[str, ...]
    ) -> None:
        super().__init__(whole, RangeSelection(range(len(whole))))
        self.unlabelled = whole.unlabelled
        self.repository, self.commit, self._class_names = repository, commit, class_names

    def __repr__(self) -> str:
        """Show the repository, its commit and the dataset of the files."""
        name = self.repository or "a repository"
        return f"HubDataset({name}{f'@{self.commit[:7]}' if self.commit else ''}: {self.whole!r})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the files' fingerprint, the class names, the repository and its commit."""
        return fingerprint_of(
            f"hub 1 {self.repository} {self.commit} {self._class_names!r} {self.whole.fingerprint}"
        )

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names, by class number: those in the files, or those in the card if the files have none."""
        return self._class_names


def open_repository(
    repository: Repository,
    split: str | None,
    config: str | None,
    options: dict[str, Any],
    opened: Open,
    format: str | None = None,
) -> IndexedDataset | None:
    """Open the files of one split of a repository as a dataset.

    Args:
        repository: The repository.
        split: Name of the split; None if there is only one.
        config: Name of a configuration in the card; None for the default configuration.
        options: Options of the files' format.
        opened: Opens paths and URLs, as `readers.open_dataset` does.
        format: Format that the caller gave, which `opened` uses; None to detect it.

    Returns:
        The dataset; None for a local folder without shards, which the caller opens like any other folder.

    Raises:
        SourceError: The split or configuration does not exist, there are several splits but `split` is None, or files are
            missing.
    """
    if config is None and (source := _source_in_parts(repository, format)):
        return opened(source, split=split, **options)
    settings = choose_config(repository.configs(), config, repository.shown)
    names = _choose(repository, settings, split)
    if all(map(_holds_many, names)) and names:
        if names != [repository.path] and not (repository.path and repository.is_all):
            require_all_parts(names, repository.shown)
        whole = _open_table(repository.fetch(names), settings, options, opened)
    else:
        folder = _common_folder(repository, names)
        if repository.is_local and not folder:
            return None
        repository.fetch(names or visible_names(repository.files))
        inner = None if names else split
        whole = opened(str(repository.root / folder), split=inner, **options)
    class_names = _names_of(whole, settings)
    if not repository.commit and class_names == whole.class_names:
        return whole
    return HubDataset(whole, repository.name, repository.commit, class_names)


def _source_in_parts(repository: Repository, format: str | None) -> str | None:
    """Return the path or URL of an index file whose format reads parts of the other files, as LeRobot; None without any."""
    below = f"{repository.path}/" if repository.path else ""
    names = [name.removeprefix(below) for name in repository.files if name.startswith(below)]
    kinds = [kind for kind in FORMATS.values() if kind.remote and kind.fits]
    if not any(kind.index_file(names) and format in (None, kind.name) for kind in kinds):
        return None
    folder = repository.folder(names)
    index = index_file_of(names, folder)
    return index and os.fspath(folder / index)


def _choose(repository: Repository, settings: Config, split: str | None) -> list[str]:
    shown, files = repository.shown, repository.files
    if repository.path:
        matched = match_files([repository.path], files, shown)
        return choose_split(matched, split, shown)
    if settings.files:
        wanted = choose_name({name: name for name in settings.files}, split, shown)
        return match_files(settings.files[wanted], files, shown)
    below = f"{settings.folder}/" if settings.folder else ""
    shards = [name for name in visible_names(files) if name.startswith(below) and _holds_many(name)]
    return choose_split(shards, split, shown) if shards else []


def _holds_many(name: str) -> bool:
    base = name.rpartition("/")[2]
    return is_shard(base) or NUMBERED.search(base) is not None


def _open_table(
    paths: Sequence[str], settings: Config, options: dict[str, Any], opened: Open
) -> IndexedDataset:
    """Open shards as a dataset.

    If no column has a usual name of labels, the only column for which the card lists class names becomes the label.
    """
    whole = opened(list(paths), **options)
    classes = list(settings.class_names)
    if not isinstance(whole, ParquetDataset) or whole.label_column or len(classes) != 1:
        return whole
    if "label" in options or not whole.has_column(classes[0]):
        return whole
    return opened(list(paths), **options, label=classes[0])


def _common_folder(repository: Repository, names: Sequence[str]) -> str:
    """Return the deepest folder that holds the given files, which are not shards; "" for the repository itself.

    Raises:
        SourceError: The folder holds other files as well.
    """
    if not names:
        return ""
    folder = os.path.commonpath([f"/{name}" for name in names])
    folder = folder.rpartition("/")[0] if folder[1:] in names else folder
    below = [one for one in visible_names(repository.files) if f"/{one}".startswith(f"{folder}/")]
    others = sorted({*below} - {*names, NAME})
    if others:
        raise SourceError(
            f"{repository.shown} lists {len(names)} files of this split, which are no shards, and {others[0]} lies "
            "beside them: give a folder that holds the split alone"
        )
    return folder[1:]


def _names_of(whole: IndexedDataset, settings: Config) -> tuple[str, ...]:
    """Return the class names in the files, or those in the card if the files have none; warn if both exist and differ."""
    column = whole.label_column if isinstance(whole, ParquetDataset) else None
    of_card = settings.class_names.get(column or "", ())
    if whole.class_names and of_card and whole.class_names != of_card:
        warnings.warn(
            f"the classes of column {column!r} are called {', '.join(whole.class_names[:3])}, ... in the files and "
            f"{', '.join(of_card[:3])}, ... in the README.md: the files' names are taken",
            UserWarning,
            stacklevel=4,
        )
    return whole.class_names or of_card
