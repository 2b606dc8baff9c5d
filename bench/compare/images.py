"""Collect the images of a comparison, which are undamaged and equal for all contestants."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from bench.output.errors import BenchError
from dali_pipes import ImageOptions
from dali_pipes.preview.decodable_samples import take_decodable_samples
from gpu_aug import BoxParams
from readers import BadSample, Dataset, Sample, read_header
from readers.cores import usable_cores
from readers.datasets.dataset import IndexedDataset
from readers.fingerprint import fingerprint_of
from readers.labels.label_vector import class_number
from readers.prepare.source import open_at_random
from readers.sample import Payload

MAX_IMAGES = 2048
"""Largest number of images, spread evenly over the data: enough to be typical, and small enough to stay in memory."""

_COMMON_FORMATS = ("bmp", "jpeg", "png", "tiff", "webp")
_NUM_SAMPLES_MIN = 200_000  # more than any comparison needs


@dataclass(frozen=True)
class Images:
    """The images of a comparison, in two forms: for our loader and for other libraries.

    Attributes:
        dataset: For our loader: the images, repeated.
        files: For other libraries: the path of each image, once.
        labels: A class number for each file; 0 without a label.
        left_out: One sentence for each reason why images were left out for all contestants.
    """

    dataset: Dataset
    files: list[Path]
    labels: list[int]
    left_out: list[str]


def collect(source: str, folder: Path, *, how: Mapping[str, Any] = MappingProxyType({})) -> Images:
    """Open a dataset, keep the images that decode, and provide each as a file.

    An image that does not decode, or that a library cannot read, would stop a baseline, so it is left out for all.

    Args:
        source: A source as for `readers.open_dataset`.
        folder: Folder for images that are not files yet, such as those in tar shards.
        how: Keyword arguments of `readers.open_dataset`; none when left out.

    Raises:
        readers.ReadersError: The source cannot be opened or has no samples.
        BenchError: No image decodes.
    """
    dataset = open_at_random(source, **how)
    sound, left_out = take_decodable_samples(dataset, most=MAX_IMAGES)
    for refusal in (_refusal, _refusal_of_torchvision):
        with ThreadPoolExecutor(usable_cores()) as pool:
            reasons = list(pool.map(refusal, sound))
        if all(reasons) and refusal is _refusal_of_torchvision:
            break  # for example a folder of BMP files; the row of that library states that it cannot read them
        pairs = list(zip(sound, reasons, strict=True))
        left_out += [f"{sample.key}: {reason}" for sample, reason in pairs if reason]
        sound = [sample for sample, reason in pairs if not reason]
    if not sound:
        raise BenchError(
            f"{source} has no image that decodes (the first of {len(left_out)} is {left_out[0]}): "
            "give a folder, a list or shards with sound images"
        )
    return Images(
        Repeated(dataset, np.array([sample.index for sample in sound], np.int64)),
        [as_file(sample, sample.image, source, folder) for sample in sound],
        [max(0, class_number(sample.label)) for sample in sound],
        left_out,
    )


def require_sound(
    source: str,
    dataset: IndexedDataset,
    *,
    most: int,
    images: ImageOptions = ImageOptions(),  # noqa: B008 - frozen
    boxes: BoxParams | None = None,
) -> tuple[list[Sample], list[str]]:
    """Return samples that decode, and the errors of others; see `dali_pipes.preview.take_decodable_samples`.

    Raises:
        BenchError: No sample decodes.
    """
    samples, left_out = take_decodable_samples(dataset, most=most, images=images, boxes=boxes)
    if not samples:
        raise BenchError(f"{source} has no image that decodes, for example {left_out[0]}")
    return samples, left_out


class Repeated:
    """A dataset of some samples of another dataset, repeated, so that an epoch is long."""

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
        """A digest of the dataset's fingerprint, the samples and the number of their repetitions."""
        return fingerprint_of(f"{self._dataset.fingerprint} {self._length}", self._picks.tobytes())

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return the samples with these indices, which are read from the underlying dataset."""
        wanted = np.asarray(indices, np.int64)
        found = self._dataset.fetch(self._picks[wanted % len(self._picks)])
        return [
            replace(sample, index=int(index)) for sample, index in zip(found, wanted, strict=True)
        ]


def _refusal(sample: Sample) -> str:
    """Return the reason why DALI, Pillow or OpenCV would stop at an image; "" if all can read it."""
    import cv2

    data = bytes(sample.image or b"")
    image_format = read_header(data).format
    if image_format not in _COMMON_FORMATS:  # a single GIF ends DALI's pipeline
        return "not every pipeline reads its format"
    if image_format == "jpeg":  # all libraries read sound JPEGs, and trying takes long
        return ""
    try:
        with Image.open(BytesIO(data)) as image:
            image.convert("RGB")
    except Exception as error:  # noqa: BLE001 - Pillow's plugins raise anything
        return f"Pillow does not read it ({error})"
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return "OpenCV does not read it" if pixels is None else ""


def _refusal_of_torchvision(sample: Sample) -> str:
    """Return the reason why torchvision.io cannot read an image, as a sentence; "" if it can."""
    from torchvision.io import ImageReadMode, decode_image

    data = bytes(sample.image or b"")
    if read_header(data).format == "jpeg":
        return ""
    try:
        decode_image(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)
    except RuntimeError:
        return "torchvision.io does not read it"
    return ""


def as_file(sample: Sample, data: Payload | None, source: str, folder: Path) -> Path:
    """Return the path of a sample's image or video; data in a shard or table is first written to a file in `folder`.

    Raises:
        BenchError: No field holds the data, for example if each frame is a separate file.
    """
    own = Path(source) / sample.key
    if own.is_file():
        return own.absolute()
    field = next((name for name in sample.fields if sample.fields[name] is data), "")
    if data is None or not field:
        raise BenchError(
            f"{sample.key} is no single file, which is what the other libraries read: give images or videos"
        )
    copy = folder / f"{sample.index:08d}.{field.rpartition('.')[2]}"
    copy.write_bytes(data)
    return copy
