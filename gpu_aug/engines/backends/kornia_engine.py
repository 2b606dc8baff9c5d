"""The engine "kornia": modules of Kornia, run on any device with parameters that gpu_aug drew."""

from functools import partial

import kornia.augmentation  # noqa: F401 - a missing package is reported when an engine is made
import torch
from torch import Tensor

from gpu_aug.draws import Draws
from gpu_aug.engines.backends.color import normalize_torch
from gpu_aug.engines.backends.step import on_rows, prepare_torch
from gpu_aug.engines.engine import Images, prepare_steps, takes_batches
from gpu_aug.engines.layout import to_planar, to_unit_, write
from gpu_aug.recipe import Recipe

_CPU_CHUNK = 4
"""Images at a time on a CPU: they stay in the cache, and their memory is reused, not mapped
anew; measured in DECISIONS.md, "Images in a chunk of the Kornia engine"."""


class KorniaEngine:
    """An engine that carries out the batch stage of a recipe with Kornia and torch; see Engine for the contract."""

    name = "kornia"

    def __init__(self, recipe: Recipe, *, device: torch.device) -> None:
        self._steps, self._num_uint8, self._divide = prepare_steps(
            recipe,
            lambda leaf: prepare_torch(leaf, device),
            partial(normalize_torch, device=device),
        )
        self._mixes = [leaf.group > 1 for leaf in recipe.batch_leaves]
        self._num_single = recipe.num_single_leaves
        self._device_type = device.type
        small = device.type == "cpu" and recipe.group == 1 and not takes_batches(recipe)
        self._at_once = _CPU_CHUNK if small else 0

    def run(self, images: Images, draws: Draws, out: Tensor) -> None:
        """Carry out the batch stage; see Engine.run."""
        num = len(images)
        at_once = self._at_once or max(num, 1)
        # The caller's autocast would blur and warp in half precision.
        with torch.no_grad(), torch.autocast(self._device_type, enabled=False):
            for start in range(0, num, at_once):
                stop = min(start + at_once, num)
                x = self._run(images[start:stop], draws.rows(start, stop))
                write(x, out[start:stop])

    def _run(self, images: Images, draws: Draws) -> Tensor:
        if not self._num_single and isinstance(images, Tensor):
            return self._carry_out(to_planar(images), draws, 0, len(self._steps))
        singles = []
        for row, image in enumerate(images):
            x = to_planar(image[None])
            singles.append(self._carry_out(x, draws.rows(row, row + 1), 0, self._num_single))
        return self._carry_out(torch.cat(singles), draws, self._num_single, len(self._steps))

    def _carry_out(self, x: Tensor, draws: Draws, first: int, last: int) -> Tensor:
        """Return images after the operations of the batch stage at indices ``first`` to ``last`` (exclusive)."""
        for number in range(first, last):
            step, drawn = self._steps[number], draws.params[number]
            if number >= self._num_uint8 and x.dtype == torch.uint8:
                x = to_unit_(x.float()) if self._divide else x.float()
            elif number == self._num_uint8 and not self._divide:
                x = x.mul_(255)  # float32 came in
            if self._mixes[number]:
                x = step(x, drawn | {"partners": draws.partners})
            else:
                x = on_rows(step, x, drawn)
        return x
