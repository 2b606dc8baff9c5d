"""Rebuild the image example in the guide of Grain's DataLoader, and run our Loader on the same files."""

from collections.abc import Iterator

from bench.compare.contract import Contestant
from bench.micro.rows import Row, Task
from bench.published.spdl import OURS, rows_of_loaders
from gpu_aug import FixedCrop, Recipe, Resize

MEANING = (
    "Time per image of batches of 32 x 3 x 224 x 224 in uint8, from files in the page cache; a thread or worker per core; speed relative to "
    "Grain. Each resizes the full image to 256 x 256 and takes its top left corner of "
    "224 x 224, without antialiasing."
)

_GRAIN = Contestant("Grain", "baseline", "bench.baselines.peers.grain.example:start", peer="grain")


def rows(task: Task) -> Iterator[Row]:
    """Yield one row."""
    recipe = Recipe([Resize((256, 256), antialias=False), FixedCrop(224, position="top_left")])
    return rows_of_loaders(task, recipe, (_GRAIN, OURS))
