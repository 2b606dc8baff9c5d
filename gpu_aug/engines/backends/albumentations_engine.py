"""The engine "albumentations": transforms of Albumentations, run on the CPU with parameters that gpu_aug drew."""

from typing import Any

import albumentations  # noqa: F401 - a missing package is reported when an engine is made
import numpy as np
import torch

from gpu_aug.draws import Draws
from gpu_aug.engines.backends.color import normalize_numpy
from gpu_aug.engines.backends.step import Image, as_float, prepare_numpy
from gpu_aug.engines.engine import Images, prepare_steps
from gpu_aug.engines.layout import write
from gpu_aug.errors import EngineError
from gpu_aug.ops import Filter
from gpu_aug.ops.foreign.function import BatchFunction
from gpu_aug.recipe import Recipe


class AlbumentationsEngine:
    """An engine that carries out the batch stage of a recipe with Albumentations; see Engine for the contract.

    uint8 images stay uint8 until the first operation that would have to round; from there on they are float32 in [0, 1]. A filter
    takes both, and as the last operation it writes uint8 or float32 results itself.
    """

    name = "albumentations"

    def __init__(self, recipe: Recipe, *, device: torch.device) -> None:
        if device.type != "cpu":
            raise EngineError(
                f"engine 'albumentations' runs on the CPU only, got device {str(device)!r}: "
                "use engine 'kornia' or device 'cpu'"
            )
        leaves = recipe.batch_leaves
        self._is_filter = [isinstance(leaf, Filter) for leaf in leaves]
        self._steps, self._num_uint8, self._divide = prepare_steps(
            recipe, prepare_numpy, normalize_numpy
        )
        together = [
            number
            for number, leaf in enumerate(leaves)
            if leaf.group > 1 or isinstance(leaf, BatchFunction)
        ]
        self._segments = list(
            zip([0, *(number + 1 for number in together)], [*together, len(leaves)], strict=True)
        )

    def run(self, images: Images, draws: Draws, out: torch.Tensor) -> None:
        """Carry out the batch stage; see Engine.run."""
        arrays = [image.numpy() for image in images]
        # Memory of the results that a filter can write: packed pixels of these types.
        fits = out.dtype in (torch.uint8, torch.float32) and out.stride()[1::2] == (1, 3)
        rooms: Any = out.permute(0, 2, 3, 1).numpy() if fits else [None] * len(out)
        for first, last in self._segments:
            if first:
                arrays = self._run_together(arrays, draws, first - 1)
            for row, image in enumerate(arrays):
                room = rooms[row]
                changed = self._run(image, draws, row, first, last, room)
                if last < len(self._steps):
                    arrays[row] = changed
                elif changed is not room:
                    write(torch.from_numpy(changed).permute(2, 0, 1)[None], out[row : row + 1])

    def _run_together(self, arrays: list[Image], draws: Draws, number: int) -> list[Image]:
        arrays = [self._as_float(image, number) for image in arrays]
        changed: list[Image] = self._steps[number](
            arrays, draws.params[number] | {"partners": draws.partners}
        )
        return changed

    def _run(
        self, image: Image, draws: Draws, row: int, first: int, last: int, room: Image | None
    ) -> Image:
        for number in range(first, last):
            image = self._as_float(image, number)
            drawn = draws.params[number]
            if drawn["apply"][row]:
                # A filter that is the last operation writes the result itself.
                memory = (room,) if self._is_filter[number:] == [True] else ()
                image = self._steps[number](image, drawn, row, *memory)
        return image

    def _as_float(self, image: Image, number: int) -> Image:
        """Return the image in the type and range that the operation at index ``number`` of the batch stage takes."""
        if image.dtype != np.uint8 and number == self._num_uint8 and not self._divide:
            return image * np.float32(255)  # float32 came in
        stays_uint8 = number < self._num_uint8 or (number == self._num_uint8 and not self._divide)
        if stays_uint8 or self._is_filter[number] or image.dtype != np.uint8:
            return image
        return as_float(image)
