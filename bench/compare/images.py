"""The images of a comparison: the same for all contestants, all undamaged."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.output.errors import BenchError
from dali_pipes.image_fields import ImageFields
from dali_pipes.preview.decodable_samples import ONE_RGB, sound_samples
from readers import BadSample, Dataset, Sample, read_header
from readers.label_vector import class_number
from readers.prepare.source import open_at_random

MAX_IMAGES = 2048
"""So many are looked at, spread evenly: enough to be typical, and small enough to stay in memory."""

_COMMON_FORMATS = ("bmp", "jpeg", "png", "tiff", "webp")
_NUM_SAMPLES_MIN = 200_000  # more than any comparison takes


@dataclass(frozen=True)
class Images:
    """Images in two forms.

    Attributes:
        dataset: For our loader: the images over and over.
        files: For the others: each image once, as a file.
        labels: A class number for each file, 0 where the data has none.
        left_out: Why images were left out for everybody, one sentence each.
    """

    dataset: Dataset
    files: list[Path]
    labels: list[int]
    left_out: list[str]


def collect(source: str, folder: Path, *, how: Mapping[str, Any] = MappingProxyType({})) -> Images:
    """Open a dataset, keep the images that decode, and give each of them a file.

    An image that does not decode, or whose format DALI does not read, stops a baseline, so it is left out
    for everybody.

    Args:
        source: A source as for `readers.open_dataset`.
        folder: Where images go that are not files already, such as those in tar shards.
        how: Keyword arguments of `readers.open_dataset`; none when left out.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: Not one image decodes.
    """
    dataset = open_at_random(source, **how)
    sound, left_out = sound_samples(dataset, most=MAX_IMAGES)
    left_out += [
        f"{sample.key}: not every pipeline reads its format"
        for sample in sound
        if not _is_common(sample)
    ]
    sound = [sample for sample in sound if _is_common(sample)]
    if not sound:
        raise BenchError(
            f"{source} has no image that decodes (the first of {len(left_out)} is {left_out[0]}): "
            "give a folder, a list or shards with sound images"
        )
    return Images(
        Repeated(dataset, np.array([sample.index for sample in sound], np.int64)),
        [_as_file(sample, source, folder) for sample in sound],
        [max(0, class_number(sample.label)) for sample in sound],
        left_out,
    )


def require_sound(
    source: str, dataset: Dataset, *, most: int, images: ImageFields = ONE_RGB
) -> tuple[list[Sample], list[str]]:
    """Samples that decode, and the errors of others; see `dali_pipes.preview.sound_samples`.

    Raises:
        BenchError: Not one decodes.
    """
    samples, left_out = sound_samples(dataset, most=most, images=images)
    if not samples:
        raise BenchError(f"{source} has no image that decodes, for example {left_out[0]}")
    return samples, left_out


class Repeated:
    """Some samples of a dataset, over and over, so that an epoch is long."""

    def __init__(
        self, dataset: Dataset, picks: NDArray[np.int64], *, length: int = _NUM_SAMPLES_MIN
    ) -> None:
        self._dataset = dataset
        self._picks = picks
        self._length = max(length, len(picks))

    def __len__(self) -> int:
        return self._length

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names of the dataset."""
        return self._dataset.class_names

    @property
    def fingerprint(self) -> str:
        """Over the dataset's own, and which samples are repeated how often."""
        parts = f"{self._dataset.fingerprint} {self._length}".encode() + self._picks.tobytes()
        return hashlib.sha256(parts).hexdigest()[:32]

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read the samples that these indices repeat."""
        wanted = np.asarray(indices, np.int64)
        found = self._dataset.fetch(self._picks[wanted % len(self._picks)])
        return [
            replace(sample, index=int(index)) for sample, index in zip(found, wanted, strict=True)
        ]


def _is_common(sample: Sample) -> bool:
    """Whether DALI reads the format, too: one GIF ends its pipeline."""
    return read_header(sample.image or b"").format in _COMMON_FORMATS


def _as_file(sample: Sample, source: str, folder: Path) -> Path:
    own = Path(source) / sample.key
    if own.is_file():
        return own.absolute()
    field = next(name for name in sample.fields if sample.fields[name] is sample.image)
    copy = folder / f"{sample.index:08d}.{field.rpartition('.')[2]}"
    copy.write_bytes(sample.image or b"")
    return copy
