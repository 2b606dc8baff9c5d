"""The engines of all views, and the memory of what they make."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dali_pipes.batch import Timings
from dali_pipes.pipeline.canvases import Canvases, ViewCanvases, make_canvases
from dali_pipes.pipeline.stages import Finished, Images
from dali_pipes.pipeline.views import View
from gpu_aug import BatchFunction, Draws, Recipe
from gpu_aug.engines.engine import takes_batches


class Engines:
    """The engines of all views.

    Args:
        views: What is made of every sample.
        timings: Gets the seconds spent augmenting and copying.

    Attributes:
        views: As given.
        timings: As given.
        device: Where the engines run.
        one_by_one: Whether a step may be augmented in parts: no function of the user takes it together.
    """

    def __init__(self, views: Sequence[View], timings: Timings) -> None:
        self.views, self.timings = views, timings
        self.device = views[0].device
        self.one_by_one = not any(takes_batches(view.recipe) for view in views)

    def empty(self, count: int) -> Images:
        """Memory for the images of `count` samples."""
        return tuple(view.empty(count) for view in self.views)

    def canvases(self, count: int) -> Canvases:
        """Memory for the canvases of `count` samples, from where they go to the engines' device."""
        return make_canvases(self.views, count, pinned=self.device.type == "cuda")

    def upload(self, canvases: Canvases) -> list[ViewCanvases]:
        """Copy rendered canvases to the engines' device."""
        # Pinned memory: torch's allocator gives it out again only after this copy is done.
        with self.timings.measure("copy"):
            return [
                [canvas.to(self.device, non_blocking=True) for canvas in view]
                if isinstance(view, list)
                else view.to(self.device, non_blocking=True)
                for view in canvases.views
            ]

    def augment(self, finished: Finished, canvases: Sequence[ViewCanvases]) -> Images:
        """Run the batch stage of every view on canvases of all rows, on the engines' device."""
        images = self.empty(len(finished))
        with self.timings.measure("augment"):
            self.run(finished.draws, finished.kept, canvases, images)
        return images

    def run(
        self,
        draws: Sequence[Draws],
        kept: NDArray[np.bool_],
        canvases: Sequence[ViewCanvases],
        images: Images,
    ) -> None:
        """Run the batch stage of every view on canvases of some rows.

        Args:
            draws: One entry per view.
            kept: bool [n], False for lost rows.
            canvases: One entry per view, of all these rows.
            images: Is written.
        """
        for view, drawn, rendered, out in zip(self.views, draws, canvases, images, strict=True):
            if takes_batches(view.recipe):
                drawn = _without_lost(view.recipe, drawn, kept)
            if view.images_per_row > 1:
                drawn = drawn.repeat(view.images_per_row)
            view.engine.run(rendered, drawn, out)


def _without_lost(recipe: Recipe, draws: Draws, kept: NDArray[np.bool_]) -> Draws:
    """Keep what is in the place of lost samples from functions that take a batch together."""
    if kept.all():
        return draws
    params = tuple(
        drawn | {"apply": drawn["apply"] & kept} if isinstance(leaf, BatchFunction) else drawn
        for leaf, drawn in zip(recipe.batch_leaves, draws.params, strict=True)
    )
    return replace(draws, params=params)
