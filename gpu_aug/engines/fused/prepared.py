"""Programs that are made ahead for many draws and then carried out on single images with little overhead."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draws import Draws
from gpu_aug.engines.fused.compile.pending import Pending
from gpu_aug.engines.fused.compile.plan import Plan, add_parts
from gpu_aug.engines.fused.compile.program import Kind, Program, Stage

# What a transform of single images returns, as torch names it.
_TORCH = {np.dtype(np.uint8): torch.uint8, np.dtype(np.float32): torch.float32}


class Move(NamedTuple):
    """A program that only crops, flips and transposes, in this order.

    Attributes:
        cut: Top, left, height and width of the crop.
        rows: Whether the order of rows is reversed.
        columns: Whether the order of columns is reversed.
        transposed: Whether rows and columns are swapped after that.
    """

    cut: Sequence[int]
    rows: bool
    columns: bool
    transposed: bool


class PreparedPrograms:
    """Programs of the batch stage on the CPU, one for each of some draws; `prepare` makes them.

    Attributes:
        sizes: Height and width of each result.
        moves: For each program, a Move if it only moves pixels, else None.
    """

    def __init__(self, program: Program) -> None:
        # Numba's kernels, which scripts that prepare nothing do without; here, as `run` is called for each image.
        from gpu_aug.engines.fused.cpu.run import DTYPES, run_single

        self._dtypes, self._run_single = DTYPES, run_single
        self.sizes: list[tuple[int, int]] = [tuple(size) for size in program.size.tolist()]
        self._program = program
        self.moves = _moves(program)

    def run(self, row: int, image: NDArray[np.uint8], out: NDArray[Any]) -> None:
        """Carry out one program on an image.

        Args:
            row: Index of the program.
            image: The image, uint8 [h, w, 3] of the row's decode size, contiguous within each row.
            out: The result [h', w', 3] with the size in `sizes`, uint8 or float32, with any strides; all of it is written.
        """
        one: list[Any] = [field[row : row + 1] for field in self._program]
        self._run_single(Program(*one), image, out, self._dtypes[_TORCH[out.dtype]])


def prepare(plan: Plan, draws: Draws) -> PreparedPrograms | None:
    """Return the programs of some draws for uint8 images, or None if an image takes more than one pass."""
    found: list[Program] = []

    def note(program: Program, images: Any, others: Any, outs: Any) -> None:
        del images, outs
        found.append(program)
        if others is not None:
            found.append(program)

    if plan.asks_others:
        return None
    pending = Pending(_images_of(draws.crops.canvas), plan.num_stages, note)
    add_parts(plan, pending, draws, is_uint8=True)
    pending.store(torch.empty(0))
    return PreparedPrograms(found[0]) if len(found) == 1 else None


def _images_of(sizes: NDArray[np.int32]) -> torch.Tensor | list[torch.Tensor]:
    """Return images of these sizes, which share the memory of a single pixel, for code that reads only their sizes."""
    pixel = torch.empty(1, 1, 3, dtype=torch.uint8)
    if (sizes == sizes[0]).all():
        return pixel.expand(len(sizes), *sizes[0].tolist(), 3)
    return [pixel.expand(height, width, 3) for height, width in sizes.tolist()]


def _moves(program: Program) -> list[Move | None]:
    back, size, view = program.back.reshape(-1, 3, 3), program.size, program.view
    only = (program.kind == Kind.WHOLE) & (program.codes == Stage.NOTHING).all(axis=1)
    transposed = back[:, 0, 0] == 0
    inside = (np.where(transposed[:, None], size[:, ::-1], size) == view[:, 2:]).all(axis=1)
    columns = np.where(transposed, back[:, 0, 1], back[:, 0, 0]) < 0
    rows = np.where(transposed, back[:, 1, 0], back[:, 1, 1]) < 0
    moves = map(Move, view.tolist(), rows.tolist(), columns.tolist(), transposed.tolist())
    plain = (only & inside).tolist()
    return [move if is_plain else None for move, is_plain in zip(moves, plain, strict=True)]
