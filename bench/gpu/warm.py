"""Step: compiling everything once, so that no later step does; how long it takes is what a user waits at first."""

import time
from pathlib import Path

import torch

from bench.gpu.engines import carried_out, cases, drawn
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, finish
from bench.micro.pictures import load_pictures
from dali_pipes.warm import warm as warm_up
from readers.cores import usable_cores


def warm(scale: Scale, data: Path, rows: Rows) -> None:
    """The engines' kernels for the device, recipe by recipe, then our functions for the processor."""
    pictures = torch.from_numpy(load_pictures(str(data), min(scale.batch_size, 32), scale.side))
    for engine in ("fused", "kornia"):
        with rows.measure(f"{engine} on the device", "s") as row:
            began = time.perf_counter()
            for name, case in cases(scale.side).items():
                before = time.perf_counter()
                carried_out(engine, case, pictures, drawn(case.recipe, pictures), scale.device)
                finish(scale.device)
                row.facts[name] = round(time.perf_counter() - before, 3)
            row.put_runs([time.perf_counter() - began])
    with rows.measure("functions for the CPU", "s") as row:
        if scale.on_gpu:  # a rehearsal has no use for all of them
            warmed = warm_up(usable_cores())
            row.facts["compiled"] = warmed.num_compiled
            row.put_runs([warmed.seconds])
        else:
            row.put_runs([0.0])
