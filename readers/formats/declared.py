"""Checks for unfinished, missing and truncated shards, by their names and by files that declare sample counts."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from readers.datasets.dataset import IndexedDataset
from readers.describe import few_of
from readers.plural import counted
from readers.sample import SourceError
from readers.storage.paths import is_url
from readers.storage.shards import ShardDataset
from readers.storage.whole_files import read_whole

PACKED = "manifest.json"
"""Name of the manifest that gpu-aug pack writes when it has finished."""
_PLANNED = ".gpuaug-plan/plan.json"  # gpu-aug pack writes it when it begins
_TILING = ".gpuaug-plan/tiling.plan"  # the removed command gpu-aug tile kept it until it finished
# At most six digits, so that a date or time is not taken for a shard number.
_NUMBER_OF = re.compile(r"(.*?)([0-9]{1,6})-of-([0-9]{1,6})(.*)", re.DOTALL)
_NUMBER = re.compile(r"(.*?)([0-9]+)(\D*)", re.DOTALL)
_TFDS = re.compile(r".*-([^-.]+)\.[^-]+-([0-9]+)-of-([0-9]+)", re.DOTALL)

Declared = dict[str, tuple[int, Path]]
"""Dict from the path of a shard to its declared sample count and the file that declares it."""


def require_finished(folder: Path) -> None:
    """Check that a local folder of shards was written to its end.

    Raises:
        SourceError: The folder is unfinished.
    """
    there = [name for name in (PACKED, _PLANNED, _TILING) if (folder / name).exists()]
    refuse_unfinished(str(folder), there)
    with suppress(FileNotFoundError, ValueError):  # no manifest, or one of another program
        manifest = json.loads(read_whole(folder / PACKED))
        if isinstance(manifest, dict) and manifest.get("complete") is False:
            raise _not_packed(str(folder))


def refuse_unfinished(place: str, names: Collection[str]) -> None:
    """Check by the file names in a folder, local or in an object store, that its shards were written to their end.

    Args:
        place: Path or URL of the folder, for the error.
        names: Names of the files below the folder, relative to it.

    Raises:
        SourceError: The folder is unfinished.
    """
    if _TILING in names:
        raise SourceError(
            f"{place} was not tiled to its end, and gpu-aug tile was removed: open the original data, or "
            f"remove {place.rstrip('/')}/{_TILING} to take the files that are there"
        )
    if _PLANNED in names and PACKED not in names:
        raise _not_packed(place)


def _not_packed(place: str) -> SourceError:
    return SourceError(
        f"{place} was not packed to its end: run the same gpu-aug pack again (after an array job, with --merge), "
        "or give the shards that are there as a pattern"
    )


def missing_shards(paths: Sequence[str], declared: Declared) -> list[str]:
    """Return a warning about missing shards, according to their manifest or to the numbers in their names.

    Args:
        paths: Paths of the shards that were opened.
        declared: Result of `declared_counts`; the numbers in the names are used if it holds no manifest.

    Returns:
        One warning; empty if no shard is missing.
    """
    missing = _by_number(paths)
    if any(source.name == PACKED for _, source in declared.values()):
        missing = sorted(Path(path).name for path in declared.keys() - set(paths))
    if not missing:
        return []
    return [
        f"{counted(len(missing), 'shard')} of those beside the {len(paths):,} that were opened cannot be found, by the numbers in "
        f"their names or their manifest ({few_of(missing)}), so the samples there are not read: copy them, or give the shards as a "
        "list if they are all"
    ]


def _by_number(paths: Sequence[str]) -> list[str]:
    """Return the names of shards that are missing in a numbered sequence, or of the total that names state."""
    runs: dict[tuple[str, int, str, str], set[int]] = {}
    for path in paths:
        name = path.rpartition("/")[2]
        if found := _NUMBER_OF.fullmatch(name) or _NUMBER.fullmatch(name):
            prefix, number, *of, suffix = found.groups()
            run = prefix, len(number), "".join(of), suffix
            runs.setdefault(run, set()).add(int(number))
    missing: list[str] = []
    for (prefix, width, total, suffix), numbers in runs.items():
        first, last = min(numbers), max(numbers)
        if total:  # some programs count from 1
            first = int(0 not in numbers and int(total) in numbers)
            last = first + int(total) - 1
        # If at least half of the numbers are missing, they are no sequence but names, such as n01440764.tar.
        elif last - first + 1 >= 2 * len(numbers):
            continue
        end = f"-of-{total}{suffix}" if total else suffix
        for number in sorted({*range(first, last + 1)} - numbers):
            missing.append(f"{prefix}{number:0{width}}{end}")
    return missing


def refuse_cut_list(path: Path, text: str, labels: Sequence[int]) -> None:
    """Check that a list file is not truncated within its last line.

    A list counts as truncated if its last line has neither a line feed nor a label, and all lines before it have labels.

    Args:
        path: Path of the list, for the error.
        text: Content of the list.
        labels: Class number of each line, -1 for none.

    Raises:
        SourceError: The list is truncated.
    """
    *before, last = labels or [0]
    # With fewer than three lines before it, a line without a label may be intended.
    if not text.endswith("\n") and last < 0 and len(before) >= 3 and min(before) >= 0:
        raise SourceError(
            f"{path} seems to be cut off: its last line has neither a line feed nor a label, as all before it have; write it "
            "again, or add the line feed"
        )


def declared_counts(paths: Sequence[str]) -> Declared:
    """Return the declared sample count of each local shard, and the file that declares it, by path of the shard.

    Counts are read from files next to the shards: the manifest of gpu-aug pack, the index.json of wids, and the
    dataset_info.json of TensorFlow Datasets. Shards without a declared count are left out.
    """
    declared: Declared = {}
    for folder in {Path(path).parent for path in paths if not is_url(path)}:
        names = [Path(path).name for path in paths]
        for file, read in ((folder / name, read) for name, read in _DECLARING.items()):
            with suppress(OSError, *_OF_OTHERS):
                found = read(json.loads(read_whole(file)), names)
                declared |= {str(folder / name): (int(found[name]), file) for name in found}
    return declared


def differing_counts(
    dataset: IndexedDataset, paths: Sequence[str], declared: Declared
) -> list[str]:
    """Return a warning if shards hold other sample counts than declared.

    Args:
        dataset: The opened dataset.
        paths: Paths of its shards.
        declared: Result of `declared_counts`.

    Returns:
        One warning; empty if all counts agree, or if a shard has no declared count.
    """
    if not paths or not declared.keys() >= set(paths):
        return []
    counts = [(Path(path).name, *declared[path]) for path in paths]
    there = [len(dataset)]
    if isinstance(dataset, ShardDataset):
        there = [dataset.samples_of(number) for number in range(len(paths))]
    elif paths[1:]:  # of other formats only the total count is known
        counts = [("all shards", sum(count for _, count, _ in counts), counts[0][2])]
    wrong = [(*one, found) for one, found in zip(counts, there, strict=True) if one[1] != found]
    return [
        f"{source} declares {counted(count, 'sample')} in {name}, and {found:,} are there"
        f"{f' ({len(wrong) - 1:,} more differ)' if wrong[1:] else ''}: samples are lost, or it is that of other shards, so copy "
        "or write them again"
        for name, count, source, found in wrong[:1]
    ]


def _counts_of_tfds(info: Any, names: Sequence[str]) -> dict[str, Any]:
    lengths = {split["name"]: split["shardLengths"] for split in info["splits"]}
    parts = [found for name in names if (found := _TFDS.fullmatch(name))]
    return {
        found[0]: lengths[found[1]][int(found[2])]
        for found in parts
        if len(lengths.get(found[1], ())) == int(found[3]) > int(found[2])
    }


# Errors at reading a file of the same name that another program wrote.
_OF_OTHERS = (ValueError, KeyError, TypeError, AttributeError, RecursionError)

_DECLARING: dict[str, Callable[[Any, Sequence[str]], dict[str, Any]]] = {
    PACKED: lambda found, _: {one["name"]: one["samples"] for one in found["shards"]},
    "index.json": lambda found, _: {one["url"]: one["nsamples"] for one in found["shardlist"]},
    "dataset_info.json": _counts_of_tfds,
}
"""Parsers of the files that declare counts, by file name.

A parser gets the file's JSON and the names of the shards in its folder; it returns the sample count by name of the shard."""
