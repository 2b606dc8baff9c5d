"""Fused programs for tests, and what the kernels of the CPU make of them."""

from typing import Any

import numpy as np
import torch

from gpu_aug.engines.fused.compile.program import NUM_VALUES, Kind, Program
from gpu_aug.engines.fused.cpu.run import run_program


def make_program(
    num: int, size: tuple[int, int], source: tuple[int, int], /, **fields: Any
) -> Program:
    """A program of ``num`` images that copies the top left of the source, but for what is given.

    Stages are given as ``stages``, a list of (code, values).
    """
    stages = fields.pop("stages", [])
    program: dict[str, Any] = {
        "codes": np.zeros((num, len(stages)), np.int32),
        "values": np.zeros((num, len(stages), NUM_VALUES), np.float32),
        "kind": np.full(num, Kind.WHOLE, np.int32),
        "back": np.eye(3).reshape(1, 9).repeat(num, axis=0),
        "frame": np.zeros((num, 2), np.int32),
        "before": np.eye(3).reshape(1, 9).repeat(num, axis=0),
        "view": np.array([[0, 0, *source]] * num, np.int32),
        "border": np.zeros(num, np.int32),
        "fill": np.zeros((num, 3), np.float32),
        "size": np.array([size] * num, np.int32),
        "mix": np.zeros(num, np.int32),
        "share": np.zeros((num, 2), np.float32),
        "window": np.zeros((num, 4), np.int32),
        "tables": np.zeros((num, 0, 3, 256), np.float32),
        "holes": np.zeros((num, 0, 4), np.int32),
        "colours": np.zeros((num, 0, 3), np.float32),
        "keys": np.zeros((num, 0, 2), np.uint32),
    }
    for place, (code, values) in enumerate(stages):
        program["codes"][:, place] = code
        program["values"][:, place, : len(values)] = values
    for name, values in fields.items():
        default = program[name]
        given = np.asarray(values, default.dtype)
        whole = given if given.ndim == default.ndim else np.broadcast_to(given, (num, *given.shape))
        program[name] = np.ascontiguousarray(whole)
    return Program(**program)


def by_cpu(program: Program, images: Any, others: Any, outs: Any) -> list[torch.Tensor]:
    """Return what the kernels of the CPU make of a program, float32 [3, H, W] for each of `outs`."""
    made = [torch.full_like(out, torch.nan, dtype=torch.float32) for out in outs]
    run_program(program, images, others, made)
    return made
