"""Runs fused programs by Triton's interpreter, in a process of its own: it must be asked for before the first import.

    python -m tests.support.triton_worker CASES RESULTS

Both are files of ``torch.save``: CASES a list of (Program, images, others, outs), with True at the end where tiles have the
size they have on a GPU, RESULTS a list of the outs.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from gpu_aug.engines.fused.triton.run import Tiling, run_program


def main(cases: str, results: str) -> None:
    """Run the cases."""
    tiling = Tiling(height=32, width=32, tiles_per_sum=2)
    written = []
    for program, images, others, outs, *is_usual in torch.load(cases, weights_only=False):
        run_program(program, images, others, outs, tiling=None if is_usual else tiling)
        written.append(outs)
    torch.save(written, results)


if __name__ == "__main__":
    main(*sys.argv[1:])
