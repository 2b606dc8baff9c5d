"""The task of a peer, as a file that its process reads."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpu_aug import Recipe


@dataclass(frozen=True)
class Spec:
    """A footing in plain values.

    Attributes:
        files: The images, each once; a pipeline goes over them again and again and never ends.
        labels: A class number for each file.
        recipe: What happens to each image.
        batch_size: Images in every batch.
        num_threads: Worker threads or worker processes.
        dtype: Data type of the batches that are returned.
        device: Where the batches have to arrive.
        seed: Seed of the shuffling.
        folder: An empty folder for data in the peer's own format.
    """

    files: list[str]
    labels: list[int]
    recipe: Recipe
    batch_size: int
    num_threads: int
    dtype: torch.dtype
    device: torch.device
    seed: int
    folder: Path

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        plain: dict[str, Any] = {
            **vars(self),
            "recipe": self.recipe.to_dict(),
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": str(self.device),
            "folder": str(self.folder),
        }
        path.write_text(json.dumps(plain), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Spec":
        """Read what `write` wrote."""
        plain = json.loads(path.read_text(encoding="utf-8"))
        plain["recipe"] = Recipe.from_dict(plain["recipe"])
        plain["dtype"] = getattr(torch, plain["dtype"])
        plain["device"] = torch.device(plain["device"])
        plain["folder"] = Path(plain["folder"])
        return cls(**plain)
