"""An engine that keeps what it gets, and the pictures after each operation of its recipe."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from dali_pipes.arguments.setup import Setup
from dali_pipes.stages.canvases import View
from gpu_aug import Draws, Engine, Recipe, compile_engine
from gpu_aug.engines.engine import Images
from gpu_aug.ops.operation import Operation


@dataclass
class Watched:
    """An engine that keeps the canvases and draws of the step that it carries out; see Engine."""

    engine: Engine
    name: str
    images: Images = ()
    draws: Draws | None = None

    def run(self, images: Images, draws: Draws, out: torch.Tensor) -> None:
        """Carry out the batch stage."""
        if isinstance(images, torch.Tensor):
            self.images = images.clone()
        else:
            self.images = [one.clone() for one in images]
        self.draws = draws
        self.engine.run(images, draws, out)


def watched(view: View) -> tuple[View, Watched]:
    """Return a view whose engine is watched, and that engine."""
    engine = Watched(view.engine, view.engine.name)
    return replace(view, engine=engine), engine


def pictures(
    setup: Setup, view: View, seen: Watched, row: int
) -> Iterator[tuple[Operation, torch.Tensor]]:
    """Give each operation of the batch stage with the images of a row after it.

    The recipe is carried out up to that operation, by the loader's engine: so the images are what the loader would hand
    over if the recipe ended there.

    Yields:
        The operation; float32 [images of a sample, C, height, width] on the CPU.
    """
    recipe, draws = view.recipe, seen.draws
    assert draws is not None
    num_decode = len(recipe.decode_operations)
    operations, num_leaves = recipe.image_operations, 0
    for stop in range(num_decode + 1, len(operations) + 1):
        operation = operations[stop - 1]
        num_leaves += len(operation.leaves)
        begin = Recipe(operations[:stop], boxes=recipe.boxes, keypoints=recipe.keypoints)
        engine = compile_engine(
            setup.choice.engine,
            begin,
            device=view.device,
            exact=setup.options.execution.exact,
            kind=view.kind,
        )
        part = replace(draws, params=draws.params[:num_leaves])
        yield operation, _run(begin, engine, view, replace(seen, draws=part), row)


def canvases(seen: Watched, view: View, row: int) -> torch.Tensor:
    """The canvases of a row as they were decoded: [images of a sample, C, height, width] on the CPU."""
    times = view.images_per_row
    return (
        torch.stack([seen.images[row * times + frame] for frame in range(times)])
        .cpu()
        .permute(0, 3, 1, 2)
    )


def _run(recipe: Recipe, engine: Engine, view: View, seen: Watched, row: int) -> torch.Tensor:
    """The images of a row: of all rows together where they have one size and may be mixed, else one by one."""
    draws, times, channels = seen.draws, view.images_per_row, view.kind.channels
    assert draws is not None
    if recipe.size is not None:
        out = torch.empty(len(draws), channels, *recipe.size, device=view.device)
        engine.run(seen.images, draws, out)
        return out[row * times : (row + 1) * times].cpu()
    found = []
    for frame in range(row * times, (row + 1) * times):
        own = draws.rows(frame, frame + 1)
        size = recipe.result_sizes(own)[0].tolist()
        out = torch.empty(1, channels, *size, device=view.device)
        image = seen.images[frame]
        engine.run(image[None] if recipe.decode_size is not None else [image], own, out)
        found.append(out[0])
    return torch.stack(found).cpu()
