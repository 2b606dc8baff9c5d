"""FFCV: a .beton file, decoded, cut and transformed by compiled threads."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder
from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import (
    NormalizeImage,
    RandomBrightness,
    RandomContrast,
    RandomHorizontalFlip,
    RandomSaturation,
    ToTensor,
    ToTorchImage,
)
from ffcv.writer import DatasetWriter
from PIL import Image

from bench.baselines.peers.spec import Spec
from bench.compare.contestant import Unable
from gpu_aug import ColorJitter, HorizontalFlip, Normalize, RandomResizedCrop

NOTE = (
    "a .beton of JPEGs, encoded anew by FFCV at quality 90; INTER_AREA resizing; jitter, if any, without "
    "hue; float32, .to(dtype) in the trainer"
)

_NUM_AHEAD = 3
_NUM_REPEATS = 2000  # so that no epoch ends while the clock runs


def num_ahead(spec: Spec) -> int:  # noqa: ARG001 - others need it
    """Its loader's default."""
    return _NUM_AHEAD


class _Photos:
    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def __len__(self) -> int:
        return len(self._spec.files)

    def __getitem__(self, index: int) -> tuple[object, int]:
        with Image.open(Path(self._spec.files[index])) as image:
            return image.convert("RGB"), self._spec.labels[index]


def batches(spec: Spec) -> Iterator[torch.Tensor]:
    """Write the file, then load it over and over."""
    beton = str(spec.folder / "photos.beton")
    fields = {"image": RGBImageField(write_mode="jpg"), "label": IntField()}
    DatasetWriter(beton, fields, num_workers=spec.num_threads).from_indexed_dataset(_Photos(spec))
    loader = Loader(
        beton,
        batch_size=spec.batch_size,
        num_workers=spec.num_threads,
        order=OrderOption.RANDOM,
        indices=np.tile(np.arange(len(spec.files)), _NUM_REPEATS),
        seed=spec.seed,
        drop_last=True,
        os_cache=True,
        pipelines={"image": _steps(spec), "label": [IntDecoder(), ToTensor()]},
    )
    for images, _ in loader:
        yield images.to(spec.device, spec.dtype, non_blocking=True)


def _steps(spec: Spec) -> list[object]:
    steps: list[object] = []
    for step in spec.recipe.operations:
        match step:
            case RandomResizedCrop():
                steps.append(RandomResizedCropRGBImageDecoder(step.size, step.scale, step.ratio))
            case HorizontalFlip():
                steps.append(RandomHorizontalFlip(step.p))
            case ColorJitter():
                steps += [
                    RandomBrightness(_reach(step.brightness), step.p),
                    RandomContrast(_reach(step.contrast), step.p),
                    RandomSaturation(_reach(step.saturation), step.p),
                ]
            case Normalize():
                mean, std = (255 * np.array(values) for values in (step.mean, step.std))
                # FFCV normalises on the CPU before it makes a tensor.
                steps += [NormalizeImage(mean, std, np.float32)]
            case _:
                raise Unable(f"this peer is not written for {type(step).__name__}")
    return [*steps, ToTensor(), ToTorchImage(convert_back_int16=False)]


def _reach(factors: object) -> float:
    """FFCV takes how far a factor may be from 1."""
    return float(factors[1]) - 1 if isinstance(factors, tuple) else float(str(factors))
