"""What the comparisons of engines found, and the table of it for the documentation."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import torch

HEAD = """# Do the engines agree?

Every operation, carried out by the engines on the same images with the same draws: 12 images of noise and 12 small
photographs, 61 x 84 pixels; those that warp on a photograph of 512 x 512 pixels as well. Differences are in units of 1/255.
Written by the tests: `pytest tests/gpu_aug/engines/test_engines_agree.py --write-agreement docs/agreement.md`.

**Of warps the differences grow with the side of the image**, since libraries compute the places of pixels in float32, each in
its own order. Tolerances are kept up to 1280 pixels a side; beyond that two engines differ by more, though far less than by a
step of 8 bits:

{sides}

- **float32**: largest and mean difference between `kornia` and `albumentations` in float32, on noise and on photographs.
- **fused**: largest difference between `fused` and `albumentations` in float32, on three images of each kind.
- **large**: largest difference of `kornia` and of `fused` from `albumentations` in float32 on the photograph of 512 x 512 pixels.
- **uint8**: largest difference where both write uint8, in whole steps; "-" for values outside [0, 1].
- **tolerance**: what the test allows, written beside the operation.
- **control**: the smallest difference that a slightly changed parameter makes (the test demands that it exceeds the tolerance).
- **outside**: largest difference between `kornia` and code from outside the project (torchvision, Pillow, OpenCV, or the
  Albumentations class with the drawn parameters injected), where there is one; "s %" beside it: so many values differ by more
  (ties of nearest resampling).

In a chain, an operation with thresholds (Posterize, Solarize, Equalize, the policies) can turn a tiny difference before it into a
step of its own: after RandomPerspective, RandAugment differs in about 3 values of 100,000, by up to 101/255.

| row | operation | noise max | noise mean | photographs max | photographs mean | fused | large | uint8 | tolerance | control | outside |
| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |
"""


@dataclass
class Agreement:
    """Collects the numbers of a test run, by row, and for some rows by the side of the image."""

    cells: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    by_side: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def note(self, label: str, **numbers: float | str) -> None:
        """Keep the numbers of a row."""
        for name, value in numbers.items():
            self.cells[label][name] = value if isinstance(value, str) else f"{value:.2g}"

    def write(self, path: Path) -> None:
        """Write the table."""
        columns = (
            "operation", "noise_max", "noise_mean", "photo_max", "photo_mean", "fused", "large", "uint8", "tolerance", "control", "outside",
        )  # fmt: skip
        lines = [
            f"| {label} | " + " | ".join(cells.get(column, "") for column in columns) + " |"
            for label, cells in sorted(self.cells.items())
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        head = HEAD.replace("{sides}", self._sides())
        path.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")

    def _sides(self) -> str:
        """The table of rows by side."""
        sides = sorted({side for found in self.by_side.values() for side in found})
        lines = [
            "| row | " + " | ".join(f"{side} x {side}" for side in sides) + " |",
            "| --- |" + " --: |" * len(sides),
        ]
        for label, found in self.by_side.items():
            lines.append(
                f"| {label} | " + " | ".join(f"{found[side]:.2g}" for side in sides) + " |"
            )
        return "\n".join(lines)


def gaps(a: Iterable[torch.Tensor], b: Iterable[torch.Tensor]) -> torch.Tensor:
    """Return all differences of two series of images of the same sizes, in units of 1/255, as one flat tensor."""
    found = []
    for one, other in zip(a, b, strict=True):
        assert one.shape == other.shape
        found.append((one.double() - other.double()).abs().flatten() * 255)
    return torch.cat(found)
