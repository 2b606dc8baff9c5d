"""The operations still pending for each image of a batch, collected until the image must be written.

Each image has its own program. Operations whose gate is open add to it; where one cannot be added, the images that it
changes, and only those, are written in between (``Pending.split``) and begin with an empty program::

    images --+--> map --> mix --> stages --> stored
             |  (moved)        (staged, fixed)  |
             +---------- split: write ----------+

A program is carried out from left to right, so an operation can join only if all parts on its right are empty or give the
same result after it: ``maps`` says when a move joins, ``mixing`` when a mix does; changes of values always join.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.engines.engine import Images
from gpu_aug.engines.fused.compile.program import NUM_VALUES, Program
from gpu_aug.ops import Operation

Rows = NDArray[np.bool_]
"""bool [B]."""

RunProgram = Callable[[Program, Any, Any, Any], None]

CLEAN, PADDED, WARPED = range(3)
"""States of a map: moves by whole pixels that show the view alone; the same with a border beside it; a warp, or two."""

_IDENTITY = np.eye(3)  # the map of an empty program


class Pending:
    """The programs of B images, to which operations are added until the images are written.

    Attributes:
        images: The images that the programs start from: [B, H, W, 3], or B tensors [H, W, 3].
        program: The programs, whose arrays operations write to; ``add_tables``, ``add_holes`` and ``add_keys`` collect
            the arrays with several entries per image.
        back: The matrices ``program.back`` as float64 [B, 3, 3], sharing memory.
        before: The matrices ``program.before`` as float64 [B, 3, 3], sharing memory.
        moved: State of each map, int8 [B]: CLEAN, PADDED or WARPED.
        staged: Which images have stages, bool [B].
        fixed: Which images have a stage that depends on the position of pixels, bool [B].
    """

    def __init__(self, images: Images, num_stages: int, run_program: RunProgram) -> None:
        self.images: Any = images if isinstance(images, Tensor) else list(images)
        self._run_program = run_program
        num = len(images)
        self._source_size, self._is_float = np.empty((num, 2), np.int32), np.empty(num, bool)
        self._source_size[:], self._is_float[:] = _describe(images)
        self.program = _empty_program(self._source_size, num_stages)
        self.back = self.program.back.reshape(-1, 3, 3)
        self.before = self.program.before.reshape(-1, 3, 3)
        self.moved = np.zeros(num, np.int8)
        self.staged = np.zeros(num, bool)
        self.fixed = np.zeros(num, bool)
        self._others: list[Tensor | None] | None = None
        self._tables = _Column(self.program.tables)
        self._holes = _Column(self.program.holes)
        self._colours = _Column(self.program.colours)
        self._keys = _Column(self.program.keys)

    def __len__(self) -> int:
        return len(self.moved)

    def add_tables(self, tables: NDArray[np.float32]) -> int:
        """Store one lookup table per image, [B, 3, 256], and return its index in the program."""
        return self._tables.add(tables[:, None])

    def add_holes(self, holes: NDArray[Any], colours: NDArray[Any]) -> int:
        """Store rectangles, [B, n, 4], and their colours, [B, n, 3]; return the index of the first one in the program."""
        self._colours.add(colours)
        return self._holes.add(holes)

    def add_keys(self, keys: NDArray[np.uint32]) -> int:
        """Store one noise key per image, [B, 2], and return its index in the program."""
        return self._keys.add(keys[:, None])

    def blend(self, rows: NDArray[np.int64], others: Sequence[Tensor], mix: int) -> None:
        """Mix one other image into each image of ``rows``, whose programs must be empty."""
        if self._others is None:
            self._others = [None] * len(self)
        for row, other in zip(rows.tolist(), others, strict=True):
            self._others[row] = other
        self.program.mix[rows] = mix

    @property
    def is_mixed(self) -> Rows:
        """Mask of the images that a second image is mixed into, bool [B]."""
        mixed: Rows = self.program.mix != 0
        return mixed

    def split(
        self,
        operation: Operation,
        rows: Rows,
        reasons: dict[str, Rows],
        dtype: torch.dtype | None = None,
    ) -> None:
        """Write those images whose program an operation cannot be added to; see ``write``.

        Args:
            operation: The operation; ``explain`` names it.
            rows: Mask of the images that the operation changes.
            reasons: Reasons why it cannot be added, each with a mask of the images that it applies to; ``explain`` prints the
                first. In a text "{name}" stands for the operation, and "{values}", "{warp}" and "{pad}" for the last one before
                that changed values, warped or padded.
            dtype: Dtype of the new images; see ``write``.
        """
        del operation
        apart = np.zeros(len(self), bool)
        for holds in reasons.values():
            apart |= holds
        self.write(rows & apart, dtype)

    def write(self, rows: Rows, dtype: torch.dtype | None = None) -> None:
        """Carry out the programs of some images and begin new ones from the results.

        Args:
            rows: Mask of the images to write.
            dtype: Dtype of the new images; images with an empty program are rewritten only if their dtype differs. None means
                float32, but leaves images with an empty program unchanged.
        """
        if not rows.any():
            return
        todo = rows & (self.staged | (self.moved != CLEAN) | self.is_mixed | ~self._is_whole)
        if dtype is not None:
            todo |= rows & (self._is_float != (dtype == torch.float32))
        row_numbers = np.flatnonzero(todo)
        if not len(row_numbers):
            return
        made = self._make_room(row_numbers, dtype or torch.float32)
        if isinstance(made, Tensor):
            self._carry_out(row_numbers, made.permute(0, 3, 1, 2))
        else:
            self._carry_out(row_numbers, [image.permute(2, 0, 1) for image in made])
        self.replace(row_numbers, made)

    def store(self, out: Tensor) -> None:
        """Carry out all programs and write the results to ``out``, [B, 3, H, W]."""
        self._carry_out(None, out)

    def replace(self, row_numbers: NDArray[np.int64], images: Images) -> None:
        """Replace the images at ``row_numbers`` by other images [H, W, 3], with empty programs."""
        self._source_size[row_numbers], self._is_float[row_numbers] = _describe(images)
        if isinstance(images, Tensor) and len(row_numbers) == len(self):
            self.images, self._others = images, None
        else:
            if isinstance(self.images, Tensor):
                self.images = list(self.images)
            for row, image in zip(row_numbers.tolist(), images, strict=True):
                self.images[row] = image
                if self._others is not None:
                    self._others[row] = None
        program, size = self.program, self._source_size[row_numbers]
        for array in (program.codes, program.kind, program.frame, program.border, program.mix):
            array[row_numbers] = 0
        self.moved[row_numbers] = CLEAN
        self.staged[row_numbers] = self.fixed[row_numbers] = False
        self.back[row_numbers] = _IDENTITY
        program.view[row_numbers, :2] = 0
        program.view[row_numbers, 2:] = program.size[row_numbers] = size

    @property
    def _is_whole(self) -> Rows:
        """Mask of the images that their map leaves unchanged, bool [B]; meaningful only for moves by whole pixels."""
        view = self.program.view
        same = (self.back == _IDENTITY).all(axis=(1, 2)) & (view[:, :2] == 0).all(axis=1)
        whole: Rows = same & (view[:, 2:] == self._source_size).all(axis=1)
        return whole

    def _make_room(self, row_numbers: NDArray[np.int64], dtype: torch.dtype) -> Images:
        """Return uninitialised images [H, W, 3] for the results of ``row_numbers``; one tensor if they have one size."""
        sizes = self.program.size[row_numbers]
        device = self.images[0].device
        if (sizes == sizes[0]).all():
            height, width = sizes[0].tolist()
            shape = (len(row_numbers), height, width, 3)
            return torch.empty(shape, dtype=dtype, device=device)
        return [torch.empty((*size, 3), dtype=dtype, device=device) for size in sizes.tolist()]

    def _carry_out(self, row_numbers: NDArray[np.int64] | None, outs: Any) -> None:
        program = self.program._replace(
            tables=self._tables.all,
            holes=self._holes.all,
            colours=self._colours.all,
            keys=self._keys.all,
        )
        images, others = self.images, self._others
        if row_numbers is not None and len(row_numbers) < len(self):
            chosen: list[Any] = [field[row_numbers] for field in program]
            program = Program(*chosen)
            images = [images[row] for row in row_numbers]
            others = None if others is None else [others[row] for row in row_numbers]
        self._run_program(program, images, others, outs)


def _describe(images: Images) -> tuple[Any, Any]:
    """Return height and width of each image, and whether it is float32; one value for all images of a tensor."""
    if isinstance(images, Tensor):
        return images.shape[1:3], images.dtype == torch.float32
    return (
        [image.shape[:2] for image in images],
        [image.dtype == torch.float32 for image in images],
    )


def _empty_program(size: NDArray[np.int32], num_stages: int) -> Program:
    """Return programs that leave images of these sizes, int32 [B, 2], unchanged."""
    num = len(size)
    identity = np.empty((num, 9))
    identity[:] = _IDENTITY.ravel()
    view = np.zeros((num, 4), np.int32)
    view[:, 2:] = size
    return Program(
        codes=np.zeros((num, num_stages), np.int32),
        values=np.zeros((num, num_stages, NUM_VALUES), np.float32),
        kind=np.zeros(num, np.int32),
        back=identity,
        frame=np.zeros((num, 2), np.int32),
        before=identity.copy(),
        view=view,
        border=np.zeros(num, np.int32),
        fill=np.zeros((num, 3), np.float32),
        size=size.copy(),
        mix=np.zeros(num, np.int32),
        share=np.zeros((num, 2), np.float32),
        window=np.zeros((num, 4), np.int32),
        tables=np.zeros((num, 0, 3, 256), np.float32),
        holes=np.zeros((num, 0, 4), np.int32),
        colours=np.zeros((num, 0, 3), np.float32),
        keys=np.zeros((num, 1, 2), np.uint32),
    )


class _Column:
    """An array [B, n, ...] that grows along its second axis."""

    def __init__(self, first: NDArray[Any]) -> None:
        self._parts = [first]
        self._num = int(first.shape[1])

    def add(self, more: NDArray[Any]) -> int:
        """Append entries [B, n, ...] and return the index of the first one."""
        self._parts.append(more.astype(self._parts[0].dtype))
        self._num += more.shape[1]
        return self._num - int(more.shape[1])

    @property
    def all(self) -> NDArray[Any]:
        """All entries, [B, n, ...]."""
        if len(self._parts) > 1:
            self._parts = [np.ascontiguousarray(np.concatenate(self._parts, axis=1))]
        return self._parts[0]
