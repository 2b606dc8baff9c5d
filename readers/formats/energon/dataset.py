"""Datasets of WebDataset shards with Megatron-Energon's splits, exclusions and field names."""

import os
import struct
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import Subset
from readers.datasets.selection import Selection, pick_kept
from readers.fingerprint import fingerprint_of
from readers.formats.columns import UNREADABLE
from readers.formats.energon.metadata import FOLDER, FieldMap, Prepared, read_metadata
from readers.formats.tar.dataset import TarDataset
from readers.plural import counted
from readers.sample import BadSample, ColumnName, PathLike, Sample, SourceError
from readers.storage.whole_files import read_whole

_END = bytes(1024)  # a tar archive ends with two blocks of zeros
_AT_ONCE = 1024  # samples whose labels are read in one call


class EnergonDataset(Subset):
    """Samples of a folder with ``.nv-meta``, as Megatron-Energon yields them.

    The samples are those in the shards of the split, without the excluded ones. If ``dataset.yaml`` has a ``field_map``, the
    field mapped to image (or video) is the image, the one mapped to label is the label, and the others become further fields
    under their mapped names, such as ``caption``. All stored fields stay available. Code that ``dataset.yaml`` names is never run.
    This package indexes the shards itself, and warns if they differ from what ``energon prepare`` recorded.

    Args:
        source: Path of the folder.
        split: Name of the split; None if there is only one.

    Raises:
        SourceError: The metadata is damaged, lacks the split, has several splits but `split` is None, or excludes a sample that
            does not exist.
    """

    def __init__(self, source: PathLike, *, split: str | None = None) -> None:
        root = Path(os.fspath(source)).absolute()
        self._metadata = read_metadata(root, split)
        whole = TarDataset([str(root / name) for name in self._metadata.shards])
        self._index_remarks = whole.index_remarks
        self._fields = FieldMap(self._metadata.fields)
        self._replaced = [
            name
            for number, name in enumerate(self._metadata.shards)
            if not _is_as_prepared(
                root / name, whole.samples_of(number), self._metadata.counts[name]
            )
        ]
        super().__init__(whole, _pick(root, whole, self._metadata))
        self.unlabelled = self._of_whole() if self._fields.label in ("", "cls") else None

    def __repr__(self) -> str:
        """Show the counts of samples and shards."""
        shards = counted(len(self._metadata.shards), "shard")
        return f"EnergonDataset({counted(len(self), 'sample')} in {shards})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the shards' fingerprint, the samples that are not excluded, and the field map."""
        return fingerprint_of(
            f"energon 1 {self.whole.fingerprint} {self._picked.identity} {self._fields.identity}"
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        sentences = list(self._index_remarks)
        if self._metadata.loader:
            sentences.append(
                f"{FOLDER}/dataset.yaml makes samples by {self._metadata.loader}, which is never run: the fields are the "
                "stored ones"
            )
        if self._replaced:
            sentences.append(
                f"of {counted(len(self._metadata.shards), 'shard')} {len(self._replaced)} (first {self._replaced[0]}) was "
                "replaced after prepare, and is read as it is now: run energon prepare again"
            )
        return tuple(sentences)

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; labels that only the field_map defines are read from all samples on each call."""
        if name == "num_bytes" and self._fields.adds_fields:
            return np.full(len(self), -1, np.int64)
        if name != "label" or self._fields.label in ("", "cls"):
            return super().column(name)
        result = np.full(len(self), -1, np.int64)
        for start in range(0, len(self), _AT_ONCE):
            samples = self.fetch(range(start, min(start + _AT_ONCE, len(self))))
            result[start : start + len(samples)] = [
                UNREADABLE if isinstance(one, BadSample) else one.label for one in samples
            ]
        return self._readable(result)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples, with the fields that the field map names; see `Dataset.fetch`."""
        return [self._fields.apply(sample) for sample in super().fetch(indices)]


def _is_as_prepared(shard: Path, num_samples: int, count: int) -> bool:
    """Return whether a shard is unchanged since ``energon prepare``.

    Its sample count must be the recorded one, and its .idx file, if there is one, must end where the shard ends.
    """
    index = shard.with_name(f"{shard.name}.idx")
    if num_samples != count:
        return False
    try:
        data = read_whole(index)
    except OSError:
        return True
    if len(data) != 8 * (count + 1):
        return False
    (end,) = struct.unpack("<Q", data[-8:])
    with shard.open("rb") as file:
        file.seek(min(end, shard.stat().st_size))
        return file.read(len(_END)) == _END


def _pick(root: Path, tars: TarDataset, metadata: Prepared) -> Selection:
    keeps = np.ones(len(tars), bool)
    start = 0
    for number, name in enumerate(metadata.shards):
        stop = start + tars.samples_of(number)
        if left_out := metadata.excluded.get(name):
            keys = tars.keys_of(number)
            missing = sorted(left_out.difference(keys))
            if missing:
                raise SourceError(
                    f"{FOLDER}/split.yaml of {root} excludes {name}/{missing[0]}, and no sample there has this key: write keys, "
                    "numbers of samples are not compared"
                )
            keeps[start:stop] = [key not in left_out for key in keys]
        start = stop
    return pick_kept(
        keeps, f"all samples of {root} are excluded by {FOLDER}/split.yaml: correct it"
    )
