"""The fused engine: chains of operations carried out in one pass over each image, by kernels of gpu_aug."""

import torch

from gpu_aug.draws import Draws
from gpu_aug.engines.engine import Engine, Images
from gpu_aug.engines.fused.compile.pending import Pending, RunProgram
from gpu_aug.engines.fused.compile.plan import add_parts, make_plan
from gpu_aug.recipe import Recipe

_STORED = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
"""What the kernels write."""


class FusedEngine:
    """An engine that carries out the batch stage of a recipe in fused passes; see Engine for the contract.

    Args:
        recipe: The recipe.
        device: The CPU or a GPU.
        exact: Whether each warp interpolates by itself. If False, two consecutive warps become one interpolation.

    Attributes:
        plan: How each operation is carried out. If Albumentations does it all, its engine does it: it keeps each image in the cache.
    """

    name = "fused"

    def __init__(self, recipe: Recipe, *, device: torch.device, exact: bool = False) -> None:
        self.plan = make_plan(recipe, device=device, exact=exact)
        self._run_program = _kernels(device)
        self._device_type = device.type
        self._steps: Engine | None = None
        if self.plan.is_step_by_step:
            from gpu_aug.engines.backends.albumentations_engine import AlbumentationsEngine

            self._steps = AlbumentationsEngine(recipe, device=device)

    def run(self, images: Images, draws: Draws, out: torch.Tensor) -> None:
        """Carry out the batch stage; see Engine.run."""
        if not len(images):
            return
        if self.plan.reads_images:
            with torch.no_grad(), torch.autocast(self._device_type, enabled=False):
                run = self._run if self._steps is None else self._steps.run
                run(images, draws, out)
        else:  # gradients and autocast do not concern our kernels
            self._run(images, draws, out)

    def _run(self, images: Images, draws: Draws, out: torch.Tensor) -> None:
        pending = Pending(images, self.plan.num_stages, self._run_program)
        first = images if isinstance(images, torch.Tensor) else images[0]
        add_parts(self.plan, pending, draws, is_uint8=first.dtype == torch.uint8)
        if out.dtype in _STORED:
            pending.store(out)
        else:
            values = torch.empty_like(out, dtype=torch.float32)
            pending.store(values)
            out.detach().copy_(values)


def _kernels(device: torch.device) -> RunProgram:
    if device.type == "cpu":
        from gpu_aug.engines.fused.cpu.run import run_program
    else:
        from gpu_aug.engines.fused.triton.run import run_program
    return run_program
