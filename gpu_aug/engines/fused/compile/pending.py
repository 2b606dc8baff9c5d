"""What is still to be done to each image of a batch: operations gather here until an image must be written.

Each image has its own program. Operations whose gate is open add to it; where one cannot be added, the images that it
changes, and only those, are written in between (``Pending.write``) and begin with an empty program.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.engines.engine import Images
from gpu_aug.engines.fused.compile.program import NUM_VALUES, Program

Rows = NDArray[np.bool_]
"""bool [B]."""

RunProgram = Callable[[Program, Any, Any, Any], None]

CLEAN, PADDED, WARPED = range(3)
"""What was done to pixels' places: whole-pixel moves of which nothing lies beside the view; such with a padding;
a warp."""

_IDENTITY = np.eye(3)


class Pending:
    """The programs of B images.

    Attributes:
        images: Where the programs start from: [B, H, W, 3], or B tensors [H, W, 3].
        size: int64 [B, 2], height and width after the program.
        codes: int32 [B, S]; this and what follows are the fields of Program.
        values: ...
        kind: ...
        back: float64 [B, 3, 3].
        frame: ...
        before: float64 [B, 3, 3].
        view: ...
        border: ...
        fill: ...
        mix: ...
        share: ...
        window: ...
        moved: int8 [B], CLEAN and so on.
        staged: bool [B], whether there are stages.
        fixed: bool [B], whether one of them depends on where pixels are.
    """

    def __init__(self, images: Images, num_stages: int, run_program: RunProgram) -> None:
        self.images: Any = images if isinstance(images, Tensor) else list(images)
        self._run_program = run_program
        num = len(images)
        self.size = np.empty((num, 2), np.int64)
        self._is_float = np.empty(num, bool)
        if isinstance(images, Tensor):
            self.size[:] = images.shape[1:3]
            self._is_float[:] = images.dtype == torch.float32
        else:
            self.size[:] = [image.shape[:2] for image in images]
            self._is_float[:] = [image.dtype == torch.float32 for image in images]
        self._source_size = self.size.copy()
        self.codes = np.zeros((num, num_stages), np.int32)
        self.values = np.zeros((num, num_stages, NUM_VALUES), np.float32)
        self.kind = np.zeros(num, np.int32)
        self.back = np.empty((num, 3, 3))
        self.back[:] = _IDENTITY
        self.frame = np.zeros((num, 2), np.int32)
        self.before = self.back.copy()
        self.view = np.zeros((num, 4), np.int32)
        self.view[:, 2:] = self.size
        self.border = np.zeros(num, np.int32)
        self.fill = np.zeros((num, 3), np.float32)
        self.mix = np.zeros(num, np.int32)
        self.share = np.zeros((num, 2), np.float32)
        self.window = np.zeros((num, 4), np.int32)
        self.moved = np.zeros(num, np.int8)
        self.staged = np.zeros(num, bool)
        self.fixed = np.zeros(num, bool)
        self._others: list[Tensor | None] | None = None
        self._tables = _Column(np.zeros((num, 0, 3, 256), np.float32))
        self._holes = _Column(np.zeros((num, 0, 4), np.int32))
        self._colours = _Column(np.zeros((num, 0, 3), np.float32))
        self._keys = _Column(np.zeros((num, 1, 2), np.uint32))

    def __len__(self) -> int:
        return len(self.size)

    def add_tables(self, tables: NDArray[np.float32]) -> int:
        """Keep a table per image, [B, 3, 256], and return its number."""
        return self._tables.add(tables[:, None])

    def add_holes(self, holes: NDArray[Any], colours: NDArray[Any]) -> int:
        """Keep rectangles, [B, n, 4], and their colours, [B, n, 3]; return the number of the first."""
        self._colours.add(colours)
        return self._holes.add(holes)

    def add_keys(self, keys: NDArray[np.uint32]) -> int:
        """Keep a key per image, [B, 2], and return its number."""
        return self._keys.add(keys[:, None])

    def blend(self, rows: NDArray[np.int64], others: Sequence[Tensor], mix: int) -> None:
        """Let other images come into those of ``rows``, which have an empty program."""
        if self._others is None:
            self._others = [None] * len(self)
        for row, other in zip(rows.tolist(), others, strict=True):
            self._others[row] = other
        self.mix[rows] = mix

    @property
    def is_mixed(self) -> Rows:
        """Which images a second one comes into, bool [B]."""
        mixed: Rows = self.mix != 0
        return mixed

    def write(self, rows: Rows, dtype: torch.dtype | None = None) -> None:
        """Carry out the programs of ``rows`` and let them begin anew.

        Args:
            rows: Rows to finish; those whose program is empty are left unchanged, unless their type differs.
            dtype: Data type of the new images; None is float32, and leaves images unchanged whose program is empty.
        """
        if not rows.any():
            return
        todo = rows & (self.staged | (self.moved != CLEAN) | self.is_mixed | ~self._is_whole)
        if dtype is not None:
            todo |= rows & (self._is_float != (dtype == torch.float32))
        places = np.flatnonzero(todo)
        if not len(places):
            return
        made = self._make_room(places, dtype or torch.float32)
        self._carry_out(places, [image.permute(2, 0, 1) for image in made])
        self.replace(places, made)

    def store(self, out: Tensor) -> None:
        """Carry out all programs into ``out``, [B, 3, H, W]."""
        self._carry_out(None, out)

    def replace(self, places: NDArray[np.int64], images: Sequence[Tensor]) -> None:
        """Let the programs of ``places`` begin anew, with other images [H, W, 3]."""
        if isinstance(self.images, Tensor):
            self.images = list(self.images)
        for place, image in zip(places.tolist(), images, strict=True):
            self.images[place] = image
            self.size[place] = self._source_size[place] = image.shape[:2]
            self._is_float[place] = image.dtype == torch.float32
            if self._others is not None:
                self._others[place] = None
        for array in (
            self.codes,
            self.kind,
            self.frame,
            self.border,
            self.mix,
            self.moved,
            self.staged,
            self.fixed,
        ):
            array[places] = 0
        self.back[places] = _IDENTITY
        self.view[places, :2] = 0
        self.view[places, 2:] = self.size[places]

    @property
    def _is_whole(self) -> Rows:
        """Which images are still as they were, if only whole-pixel moves were made, bool [B]."""
        same = (self.back == _IDENTITY).all(axis=(1, 2)) & (self.view[:, :2] == 0).all(axis=1)
        whole: Rows = same & (self.view[:, 2:] == self._source_size).all(axis=1)
        return whole

    def _make_room(self, places: NDArray[np.int64], dtype: torch.dtype) -> list[Tensor]:
        """Make images [H, W, 3] for the results of ``places``."""
        sizes = self.size[places]
        device = self.images[0].device
        if (sizes == sizes[0]).all():
            height, width = sizes[0].tolist()
            shape = (len(places), height, width, 3)
            return list(torch.empty(shape, dtype=dtype, device=device))
        return [torch.empty((*size, 3), dtype=dtype, device=device) for size in sizes.tolist()]

    def _carry_out(self, places: NDArray[np.int64] | None, outs: Any) -> None:
        program = Program(
            codes=self.codes,
            values=self.values,
            kind=self.kind,
            back=self.back.reshape(-1, 9),
            frame=self.frame,
            before=self.before.reshape(-1, 9),
            view=self.view,
            border=self.border,
            fill=self.fill,
            size=self.size.astype(np.int32),
            mix=self.mix,
            share=self.share,
            window=self.window,
            tables=self._tables.all,
            holes=self._holes.all,
            colours=self._colours.all,
            keys=self._keys.all,
        )
        images, others = self.images, self._others
        if places is not None:
            chosen: list[Any] = [field[places] for field in program]
            program = Program(*chosen)
            images = [images[place] for place in places]
            others = None if others is None else [others[place] for place in places]
        self._run_program(program, images, others, outs)


class _Column:
    """Arrays [B, n, ...] that grow along n."""

    def __init__(self, first: NDArray[Any]) -> None:
        self._parts = [first]
        self._num = int(first.shape[1])

    def add(self, more: NDArray[Any]) -> int:
        """Put more behind, and return where it begins."""
        self._parts.append(more.astype(self._parts[0].dtype))
        self._num += more.shape[1]
        return self._num - int(more.shape[1])

    @property
    def all(self) -> NDArray[Any]:
        """Everything, [B, n, ...]."""
        if len(self._parts) > 1:
            self._parts = [np.ascontiguousarray(np.concatenate(self._parts, axis=1))]
        return self._parts[0]
