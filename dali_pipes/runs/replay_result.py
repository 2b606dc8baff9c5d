"""Replay, which holds one row of a batch with the draw and picture of each operation, and shows or saves them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from dali_pipes.batch import Batch
from dali_pipes.monitoring.stage_stats import align_columns
from gpu_aug import Recipe
from gpu_aug.ops.operation import Operation

Stage = Literal["time", "decode", "augment"]

_HEAD = ["operation", "done", "size", "min", "max", "mean", "NaN", "inf", "what was drawn"]
_LEFT_ALIGNED = (0, 1, len(_HEAD) - 1)  # the columns with text


@dataclass(frozen=True, eq=False)
class ReplayedOperation:
    """One operation of a recipe, as it was applied to one sample.

    Attributes:
        name: Class of the operation, such as "ColorJitter".
        stage: "time" if it chooses the frames of a clip, "decode" if it runs while decoding, else "augment".
        operation: The operation.
        applied: Whether the operation changed the image: its probability applied, and its mixing partner exists.
        params: The draw by name: numbers and arrays as returned by the operation's `draw`; for an operation made of
            others, a dictionary for each chosen part.
        words: The draw as text with units, such as "top 6, left 4, 45 x 59 px, to 64 x 64", with angles in degrees.
        image: The picture after the operation, on the CPU: float32 [C, height, width]; for clips and samples with
            several images [T, C, height, width]. None before and during decoding, whose result is `Replay.canvas`.
    """

    name: str
    stage: Stage
    operation: Operation
    applied: bool
    params: Mapping[str, Any]
    words: str
    image: Tensor | None

    def cells(self) -> list[str]:
        """Return the cells of the operation's row in the printed table."""
        done = {"time": "frames", "decode": "decoding"}.get(self.stage, "yes")
        facts = [""] * 6 if self.image is None else _facts(self.image)
        return [self.name, done if self.applied else "no", *facts, self.words]


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """One row of a batch, made again; see `Loader.replay`. Printing it shows a table.

    Attributes:
        key: Key of the sample.
        index: Index of the sample in the dataset.
        epoch: The epoch.
        repeat: Index of the occurrence of the sample within the epoch, from 0.
        position: Position in the epoch's order, over all ranks.
        header: Properties of the file: "format", "height" and "width" (upright), "orientation" (EXIF), "bits",
            "has_alpha", "bytes"; for clips and samples with several images "height", "width" and "bytes".
        partners: Keys of the samples that may be mixed with this one, ordered by position.
        canvas: Result of the decode stage, on the CPU: uint8 [C, height, width], or with the stored type; for clips and
            samples with several images [T, C, height, width].
        steps: The operations in order.
        batch: The row as the loader hands it over: a batch of one sample.
        view: Index of the view.
        recipe: The recipe of the view.
        way: Decoder, engine and device, such as "cpu+fused on cpu".
    """

    key: str
    index: int
    epoch: int
    repeat: int
    position: int
    header: Mapping[str, Any]
    partners: Sequence[str]
    canvas: Tensor
    steps: Sequence[ReplayedOperation]
    batch: Batch
    view: int
    recipe: Recipe
    way: str

    @property
    def row(self) -> Tensor:
        """The finished image [C, H, W], or clip [T, C, H, W], of the view; equal to that in the loader's batch."""
        return self.batch.views[self.view][0]

    @property
    def images(self) -> list[tuple[str, Mapping[str, Any], Tensor]]:
        """Name, parameters and picture: after decoding, and after each operation that follows decoding."""
        first: list[tuple[str, Mapping[str, Any], Tensor]] = [("decoded", {}, self.canvas)]
        return first + [
            (step.name, step.params, step.image) for step in self.steps if step.image is not None
        ]

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the table and the picture after each operation, with Normalize undone for display.

        Args:
            folder: Folder for the files; it is created if it does not exist. It gets ``replay.txt`` and a PNG for each
                RGB or gray picture; the images of a clip are side by side.

        Returns:
            The folder.
        """
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / "replay.txt").write_text(f"{self!r}\n", encoding="utf-8")
        if self.canvas.shape[-3] in (1, 3):
            _save_picture(self.canvas, [], path / "00-decoded.png")
            done = [step.operation for step in self.steps if step.stage == "decode"]
            pictures = [step for step in self.steps if step.image is not None]
            for number, step in enumerate(pictures, 1):
                done.append(step.operation)
                assert step.image is not None
                _save_picture(step.image, done, path / f"{number:02d}-{step.name}.png")
        return path

    def __repr__(self) -> str:
        head = [
            f"{self.key}: sample {self.index} in epoch {self.epoch}, position {self.position} of its order"
            + (f", repeat {self.repeat}" if self.repeat else ""),
            f"file: {', '.join(f'{name} {value}' for name, value in self.header.items())}",
            f"made by {self.way}; values of images as they are, before Normalize from 0 to 1 (uint8: 0 to 255)",
        ]
        if self.partners:
            head.append(f"may be mixed with: {', '.join(self.partners)}")
        num_before = sum(step.stage != "augment" for step in self.steps)
        rows = [step.cells() for step in self.steps]
        rows.insert(num_before, ["= decoded", "", *_facts(self.canvas), ""])
        rows.append(["= the row", "", *_facts(self.row), ""])
        return "\n".join([*head, "", *align_columns([_HEAD, *rows], _LEFT_ALIGNED)])


def _facts(image: Tensor) -> list[str]:
    """Return as text: size; smallest, largest and mean finite value; number of NaN and of infinite values."""
    values = image.detach().to("cpu", torch.float64)
    finite = values[values.isfinite()]
    numbers = ["", "", ""]
    if finite.numel():
        numbers = [f"{one.item():.4g}" for one in (finite.min(), finite.max(), finite.mean())]
    size = "x".join(map(str, image.shape[-2:]))
    return [size, *numbers, *(str(int(one.sum())) for one in (values.isnan(), values.isinf()))]


def _save_picture(image: Tensor, done: Sequence[Operation], path: Path) -> None:
    """Write images [C, H, W] or [T, C, H, W] side by side; NaN becomes black."""
    # Imported here: a training run needs no Pillow, and the package of previews imports the loader.
    from torchvision.utils import save_image

    from dali_pipes.preview.pictures import viewable

    images = image if image.ndim == 4 else image[None]
    if not images.is_floating_point():
        images = images.float() / torch.iinfo(images.dtype).max
    images = images.expand(-1, 3, -1, -1)
    images = viewable(images, Recipe(done)) if done else images
    save_image(images.nan_to_num(0, 1, 0), path, nrow=len(images), padding=0)
