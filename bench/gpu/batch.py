"""Steps: the batch stage beside other libraries, on images that lie on the device; the same beside a compiled Kornia, which needs its own process."""

from collections.abc import Mapping
from pathlib import Path

import torch

from bench.gpu.rows import Rows
from bench.gpu.scale import Scale
from bench.micro.batch import RECIPE, BatchSettings, measure_batch
from bench.micro.batch_peers import kornia_module
from bench.micro.cases import Case, compiled, on_tensor, ours
from bench.micro.pictures import load_pictures
from bench.micro.turns import Turns, take_turns

OURS = "gpu-aug/fused"
_COMPILE_SECONDS_MAX = 45.0


def batch(scale: Scale, data: Path, rows: Rows) -> None:
    """Affine, jitter, erasing and normalising: ours, Kornia's and torchvision's v2, in turns."""
    settings = BatchSettings(
        scale.batch_size, scale.side, turns=3, seconds=scale.seconds / 2, with_compiled=False
    )
    result = measure_batch(_case(scale, data), settings)
    _put(result.turns, scale, rows)
    for name, reason in result.absent.items():
        rows.leave_out(name, reason)


def compiled_kornia(scale: Scale, data: Path, rows: Rows) -> None:
    """Ours and Kornia behind torch.compile, in turns; in a rehearsal nothing is compiled."""
    case = _case(scale, data)
    module = kornia_module(case.device)
    with rows.measure("kornia compiled") as row:
        if scale.on_gpu:
            theirs = compiled(module, case.floats, seconds_max=_COMPILE_SECONDS_MAX)
        else:  # a compiler for the CPU may be missing, and takes half a minute
            theirs = on_tensor(module, case.floats)
        works = {OURS: ours(RECIPE, case, "fused", dtype=torch.float32), row.name: theirs}
        works[OURS]()
        seconds = scale.seconds / 2
        turns = take_turns(works, turns=3, seconds=seconds, finish=case.finish)
        row.put_runs([scale.batch_size / run for run in turns[row.name].runs])
        _put({OURS: turns[OURS]}, scale, rows)


def _case(scale: Scale, data: Path) -> Case:
    return Case(load_pictures(str(data), scale.batch_size, scale.side), scale.device)


def _put(turns: Mapping[str, Turns], scale: Scale, rows: Rows) -> None:
    for name, own in turns.items():
        with rows.measure(name) as row:
            row.put_runs([scale.batch_size / run for run in own.runs])
