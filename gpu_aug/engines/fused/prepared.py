"""Programs that are made ahead for many draws and then carried out on single images with little overhead."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draws import Draws
from gpu_aug.engines.fused.compile.pending import Pending
from gpu_aug.engines.fused.compile.plan import Fused, Plan, add_parts
from gpu_aug.engines.fused.compile.program import Kind, Program, Stage
from gpu_aug.ops.geometric.spatial import Reorient
from gpu_aug.ops.operation import Operation

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

    Args:
        program: The programs.
        fit_all: Whether they were made for images of 1x1 pixel and are carried out on images of any size; see `fits_all_sizes`.
    """

    def __init__(self, program: Program, *, fit_all: bool) -> None:
        # Numba's kernels, which scripts that prepare nothing do without; here, as `run` is called for each image.
        from gpu_aug.engines.fused.cpu.run import DTYPES, needs_of, run_single

        self._dtypes, self._run_single = DTYPES, run_single
        self._fit_all = fit_all
        # Slicing all fields would take longer than the pass over a small image; most are equal for all rows.
        fields = program._asdict()
        self._first = {name: field[:1] for name, field in fields.items()}
        self._varying = {
            name: field for name, field in fields.items() if (field != field[:1]).any()
        }
        self._sizes: list[tuple[int, int]] = [tuple(size) for size in program.size.tolist()]
        self._turned: list[bool] = (program.back[:, 0] == 0).tolist()
        self._moves = _moves(program)
        self._needs = needs_of(program)

    def size(self, row: int, canvas: tuple[int, int]) -> tuple[int, int]:
        """Return height and width of the result of one program for an image of the size ``canvas``."""
        if not self._fit_all:
            return self._sizes[row]
        return canvas[::-1] if self._turned[row] else canvas

    def move(self, row: int, canvas: tuple[int, int]) -> Move | None:
        """Return what one program does to an image of the size ``canvas`` if it only moves pixels, else None."""
        move = self._moves[row]
        if move is None or not self._fit_all:
            return move
        return Move((0, 0, *canvas), move.rows, move.columns, move.transposed)

    def run(self, row: int, image: NDArray[np.uint8], out: NDArray[Any]) -> None:
        """Carry out one program on an image.

        Args:
            row: Index of the program.
            image: The image, uint8 [h, w, 3] of the row's decode size, contiguous within each row.
            out: The result [h', w', 3] with the size that `size` returns, uint8 or float32, with any strides; all of it is written.
        """
        fields: dict[str, Any] = self._first.copy()
        for name, field in self._varying.items():
            fields[name] = field[row : row + 1]
        if self._fit_all:
            height, width = image.shape[:2]
            # Mirrored axes of an image of 1x1 begin at 1, in the matrices' elements 2 and 5.
            fields["back"] = back = fields["back"].copy()
            back[0, 2] *= width
            back[0, 5] *= height
            fields["view"] = np.array([[0, 0, height, width]], np.int32)
            fields["size"] = np.array([out.shape[:2]], np.int32)
        dtype = self._dtypes[_TORCH[out.dtype]]
        self._run_single(Program(**fields), image, out, dtype, self._needs[row])


def prepare(plan: Plan, draws: Draws, *, fit_all: bool = False) -> PreparedPrograms | None:
    """Return the programs of some draws for uint8 images, or None if an image takes more than one pass.

    Args:
        plan: The plan.
        draws: The draws, whose canvases are as large as the images; 1x1 with ``fit_all``.
        fit_all: See PreparedPrograms.
    """
    found: list[Program] = []

    def note(program: Program, images: Any, others: Any, outs: Any) -> None:
        del images, outs
        found.append(program)
        if others is not None:
            found.append(program)

    if plan.reads_images:
        return None
    pending = Pending(_images_of(draws.crops.canvas), plan.num_stages, note)
    add_parts(plan, pending, draws, is_uint8=True)
    pending.store(torch.empty(0))
    return PreparedPrograms(found[0], fit_all=fit_all) if len(found) == 1 else None


def fits_all_sizes(plan: Plan) -> bool:
    """Return whether the programs of a plan differ for images of other sizes only by these sizes.

    This is so if all moves are flips and quarter turns, and if drawn parameters do not depend on the size.
    """
    return all(
        isinstance(part, Fused)
        and (not part.moves or isinstance(part.operation, Reorient))
        and _ignores_sizes(part.operation)
        for part in plan.parts
    )


def _ignores_sizes(operation: Operation) -> bool:
    """Return whether the parameters of an operation do not depend on the sizes of images, but only on their number."""
    sizes: Any = {0, 1}  # has a length; an operation that reads its rows or computes with it fails
    numbers = np.array(
        [[0.0], [1 - 2.0**-32]]
    )  # gates are open for the first and, unless p is 1, closed for the other
    try:
        operation.draw(np.repeat(numbers, operation.num_uniforms, axis=1), sizes)
    except (TypeError, AttributeError):
        return False
    return True


def _images_of(sizes: NDArray[np.int32]) -> torch.Tensor | list[torch.Tensor]:
    """Return images of these sizes, which share the memory of a single pixel, for code that reads only their sizes."""
    pixel = torch.empty(1, 1, 3, dtype=torch.uint8)
    if (sizes == sizes[0]).all():
        return pixel.expand(len(sizes), *sizes[0].tolist(), 3)
    return [pixel.expand(height, width, 3) for height, width in sizes.tolist()]


def _moves(program: Program) -> list[Move | None]:
    only = (program.kind == Kind.WHOLE) & (program.codes == Stage.NOTHING).all(axis=1)
    if not only.any():
        return [None] * len(only)
    back, size, view = program.back.reshape(-1, 3, 3), program.size, program.view
    transposed = back[:, 0, 0] == 0
    inside = (np.where(transposed[:, None], size[:, ::-1], size) == view[:, 2:]).all(axis=1)
    columns = np.where(transposed, back[:, 0, 1], back[:, 0, 0]) < 0
    rows = np.where(transposed, back[:, 1, 0], back[:, 1, 1]) < 0
    # A crop that reaches over the border has the size of the view, but does not begin at its corner.
    mirrored = np.stack([columns, rows], axis=1)
    starts = np.where(mirrored, view[:, [3, 2]], 0)
    inside &= (back[:, :2, 2] == starts).all(axis=1)
    moves = map(Move, view.tolist(), rows.tolist(), columns.tolist(), transposed.tolist())
    plain = (only & inside).tolist()
    return [move if is_plain else None for move, is_plain in zip(moves, plain, strict=True)]
