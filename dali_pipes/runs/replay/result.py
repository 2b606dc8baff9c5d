"""What a replay found: a row of a batch, and how it came about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from dali_pipes.batch import Batch
from gpu_aug import Recipe
from gpu_aug.ops.operation import Operation

Stage = Literal["time", "decode", "augment"]


@dataclass(frozen=True, eq=False)
class Step:
    """One operation of a recipe, as it was carried out on one sample.

    Attributes:
        name: The operation's, such as "ColorJitter".
        stage: "decode" where it is done while decoding, "time" where it chooses the frames of a clip, else "augment".
        operation: The operation itself.
        applied: Whether it changed the image: its gate was open, and what it mixes with is there.
        params: What was drawn, by name, numbers and arrays as the operation's `draw` tells; of an operation made of others a
            dictionary for each of these that was chosen.
        words: The same in words and units, such as "45 x 59 px at top 6, left 4, to 64 x 64" and angles in degrees.
        image: The picture after it, on the CPU: float32 [C, height, width], of clips and of samples with several images
            [T, C, height, width]. None before and while decoding; `Replay.canvas` is what all of that made.
    """

    name: str
    stage: Stage
    operation: Operation
    applied: bool
    params: Mapping[str, Any]
    words: str
    image: Tensor | None


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """One row of a batch, made once more; see `Loader.replay`. Printing it shows a table.

    Attributes:
        key: The sample's name.
        index: Its place in the dataset.
        epoch: As asked.
        repeat: As asked.
        position: Its place in the epoch's order, over all ranks.
        header: What its file says: "format", "height" and "width" (upright), "orientation" (EXIF), "bits", "has_alpha",
            "bytes"; of clips and of samples with several images "height", "width" and "bytes".
        partners: The keys of the samples that it may be mixed with, in the order of their positions.
        canvas: What the decode stage made, on the CPU: uint8 [C, height, width], or of the type that the file holds; of
            clips and of samples with several images [T, C, height, width].
        steps: Every operation in turn.
        batch: The row as the loader hands it over: a batch of one.
        view: As asked.
        recipe: The recipe of the view.
        way: What decoded and augmented it, such as "cpu+fused on cpu".
    """

    key: str
    index: int
    epoch: int
    repeat: int
    position: int
    header: Mapping[str, Any]
    partners: Sequence[str]
    canvas: Tensor
    steps: Sequence[Step]
    batch: Batch
    view: int
    recipe: Recipe
    way: str

    @property
    def row(self) -> Tensor:
        """The finished image [C, H, W], or clip [T, C, H, W], of the view: equal to that in the loader's batch."""
        return self.batch.views[self.view][0]

    @property
    def images(self) -> list[tuple[str, Mapping[str, Any], Tensor]]:
        """Name, parameters and picture after decoding, and after each operation that follows."""
        first: list[tuple[str, Mapping[str, Any], Tensor]] = [("decoded", {}, self.canvas)]
        return first + [
            (step.name, step.params, step.image) for step in self.steps if step.image is not None
        ]

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the table and the picture after each operation; what Normalize did is undone for people's eyes.

        Args:
            folder: Is made where it is not there. It gets ``replay.txt`` and a PNG for each picture of RGB or gray.

        Returns:
            The folder.
        """
        from dali_pipes.runs.replay.pictures import write_pictures

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / "replay.txt").write_text(f"{self!r}\n", encoding="utf-8")
        cuts = [step.operation for step in self.steps if step.stage == "decode"]
        made = [(step.operation, step.image) for step in self.steps if step.image is not None]
        write_pictures(self.canvas, cuts, made, path)
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
        before = sum(step.stage != "augment" for step in self.steps)
        rows = [_line(step) for step in self.steps]
        rows.insert(before, ["= decoded", "", *_facts(self.canvas), ""])
        rows.append(["= the row", "", *_facts(self.row), ""])
        return "\n".join([*head, "", *_table([_TITLES, *rows])])


_TITLES = ["operation", "done", "size", "min", "max", "mean", "NaN", "inf", "what was drawn"]


def _line(step: Step) -> list[str]:
    done = {"time": "frames", "decode": "decoding"}.get(step.stage, "yes") if step.applied else "no"
    facts = [""] * 6 if step.image is None else _facts(step.image)
    return [step.name, done, *facts, step.words]


def _facts(image: Tensor) -> list[str]:
    """Size, smallest, largest and mean value of those that are numbers, and how many are NaN and infinite."""
    values = image.detach().to("cpu", torch.float64)
    finite = values[values.isfinite()]
    numbers = ["", "", ""]
    if finite.numel():
        numbers = [f"{one.item():.4g}" for one in (finite.min(), finite.max(), finite.mean())]
    size = "x".join(map(str, image.shape[-2:]))
    return [size, *numbers, *(str(int(one.sum())) for one in (values.isnan(), values.isinf()))]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = (0, 1, len(widths) - 1)
    return [
        "  ".join(
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
