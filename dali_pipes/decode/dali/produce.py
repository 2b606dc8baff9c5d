"""Finished batches by way of a user's own DALI pipeline; see `from_dali`."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from dali_pipes.decode.dali.user import DaliDecoder
from dali_pipes.errors import DecodeError, LoaderError
from dali_pipes.pipeline.augment import Canvases, Finisher, Pending, Sheets, View
from dali_pipes.pipeline.fetch import Work, Workshop
from dali_pipes.pipeline.render import draw_views
from dali_pipes.pipeline.streams import SideStream
from dali_pipes.schedule import Plan
from gpu_aug.resampling.decoded import resample

Images = dict[int, Any]
"""By row: DALI's uint8 [height, width, 3]."""


class PipelineProducer:
    """Decodes with a user's pipeline, driven by the thread that takes the batches; see produce.Producer.

    `decoder.begin()` comes before. Rows without data are not given to the pipeline: nothing is known that it is sure to decode.
    """

    def __init__(self, workshop: Workshop, finisher: Finisher, decoder: DaliDecoder) -> None:
        self._workshop = workshop
        self._finisher = finisher
        self._decoder = decoder
        self._side = SideStream(finisher.device)
        # What lies on the CPU is read by the host, which waits for it.
        self._stream = None if decoder.device_id is None else self._side.stream
        self._preparing: deque[Future[Work]] = deque()
        self._decoding: deque[tuple[Work, list[int]]] = deque()
        self._finishing: deque[Pending] = deque()
        # Images on the CPU are resampled by our threads, one batch ahead of the one that is waited for.
        self._lookahead = 2 if decoder.device_id is None else 1
        self.capacity = decoder.depth + self._lookahead

    def submit(self, plan: Plan) -> None:
        """Start on a batch; returns at once."""
        self._preparing.append(self._finisher.pool.submit(self._workshop.prepare, plan))

    def take(self) -> tuple[Work, tuple[torch.Tensor, ...]]:
        """Wait for the oldest batch: its work and per view the images of all its rows, [E, 3, H, W]."""
        self._push()
        while len(self._finishing) < self._lookahead and self._decoding:
            self._finishing.append(self._collect())
            self._push()
        pending = self._finishing.popleft()
        return pending.work, pending.wait()

    def close(self) -> None:
        """Drop what is under way and end the threads."""
        self._finisher.close()
        self._decoder.end()

    def _push(self) -> None:
        while self._preparing and len(self._decoding) < self._decoder.depth:
            work = self._preparing.popleft().result()
            rows = [row for row, data in enumerate(work.data) if data is not None]
            if rows:  # DALI never recovers from an empty batch
                self._decoder.push(_encoded(work, rows))
            self._decoding.append((work, rows))

    def _collect(self) -> Pending:
        with self._finisher.timings.measure("decode"):
            work, rows = self._decoding.popleft()
            images = self._images(work, rows)
        if self._decoder.device_id is None:
            parts = {row: np.asarray(image) for row, image in images.items()}
            return self._finisher.spawn(work, partial(_draw, work, parts))
        return self._augment(work, images)

    def _images(self, work: Work, rows: list[int]) -> Images:
        """Return what the pipeline makes of rows, once they and their targets are good or lost."""
        images: Images = {}
        outputs = self._decoder.take(self._stream) if rows else []
        read = partial(self._workshop.read_targets, work)
        while rows:
            if outputs is None:
                images |= self._take_apart(work, rows)
            else:
                images |= dict(zip(rows, outputs, strict=True))
            rows = [row for row in rows if work.data[row] is not None]
            _settle(self._workshop, work, rows, images)
            good = list(self._finisher.pool.map(read, rows))
            # Those with bad targets are lost by now, or others have taken their places.
            again = [row for row, kept in zip(rows, good, strict=True) if not kept]
            rows = [row for row in again if work.data[row] is not None]
            outputs = self._decode_now(work, rows) if rows else []
        return {row: image for row, image in images.items() if work.data[row] is not None}

    def _take_apart(self, work: Work, rows: list[int]) -> Images:
        """Decode rows that were refused together: by halves, until the bad ones are known."""
        halves = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
        if len(rows) == 1:
            error = DecodeError(self._decoder.refusal)
            self._workshop.lose_late(work, rows[0], "decode", error)
            halves = [rows] if work.data[rows[0]] is not None else []
        images: Images = {}
        for half in halves:
            outputs = self._decode_now(work, half)
            if outputs is None:
                images |= self._take_apart(work, half)
            else:
                images |= dict(zip(half, outputs, strict=True))
        return images

    def _decode_now(self, work: Work, rows: list[int]) -> Any | None:
        return self._decoder.decode_now(_encoded(work, rows), self._stream)

    def _augment(self, work: Work, images: Images) -> Pending:
        """Go on from images on the engines' device."""
        finisher = self._finisher
        move = partial(finisher.move_targets, work)
        list(finisher.pool.map(move, *zip(*finisher.chunks(len(work)), strict=True)))

        def finish() -> tuple[torch.Tensor, ...]:
            tensors = {row: from_dlpack(image) for row, image in images.items()}
            canvases = [
                _canvases_on_device(work, tensors, number, view)
                for number, view in enumerate(finisher.views)
            ]
            return finisher.augment(work, canvases)

        return Pending(work, [], self._side.run(finish).take)


def _encoded(work: Work, rows: Sequence[int]) -> list[np.ndarray]:
    return [np.frombuffer(work.data[row] or b"", np.uint8) for row in rows]


def _settle(workshop: Workshop, work: Work, rows: Sequence[int], images: Images) -> None:
    """Draw the parameters for the sizes that came out, where these are not those of the headers.

    Raises:
        LoaderError: What came out is no image, or not the one that a sample's targets belong to.
    """
    changed = False
    for row in rows:
        image, asked = images[row], tuple(work.sizes[row].tolist())
        shape = tuple(image.shape() if callable(image.shape) else image.shape)
        is_image = len(shape) == 3 and shape[2] == 3 and 0 not in shape
        if not is_image or str(image.dtype) != "DALIDataType.UINT8":
            raise LoaderError(
                f"the pipeline makes {image.dtype} {list(shape)} of {work.keys[row]}, but images must be uint8 "
                f"[height, width, 3]; decode with output_type=types.RGB, and leave normalising to the recipe"
            )
        if shape[:2] == asked:
            continue
        if workshop.targets.wants(work.fields[row]):
            raise LoaderError(
                f"the pipeline makes {shape[0]}x{shape[1]} of {work.keys[row]}, whose targets are stored for "
                f"{asked[0]}x{asked[1]}; leave resizing to the recipe, or read no targets: targets=[]"
            )
        work.sizes[row], changed = shape[:2], True
    if changed:
        work.draws = workshop.draw(work, slice(None))


def _draw(work: Work, images: dict[int, np.ndarray], sheets: Sheets, start: int, stop: int) -> None:
    """Draw canvases from images on the CPU; see finish.Draw."""
    for place in range(start, stop):
        image = images.get(sheets.rows[place])
        if image is None:
            sheets.blacken(place)
        else:
            draw_views(image, work, sheets, place)


def _canvases_on_device(
    work: Work, images: dict[int, torch.Tensor], number: int, view: View
) -> Canvases:
    """Draw the canvases of a view from images on its device; those of lost rows are black."""
    windows, size = work.draws[number].windows, view.recipe.decode_size
    shapes = [(*canvas, 3) for canvas in windows.canvas.tolist()]
    canvases: Canvases = (
        [torch.zeros(shape, dtype=torch.uint8, device=view.device) for shape in shapes]
        if size is None
        else torch.zeros((len(work), *size, 3), dtype=torch.uint8, device=view.device)
    )
    for row, image in images.items():
        # In float32: torch resamples uint8 on the CPU alone.
        canvas = torch.empty(shapes[row], device=view.device)
        (top, left), (height, width) = windows.start[row].tolist(), windows.shape[row].tolist()
        cut = image[top : top + height, left : left + width].float()
        resample(cut, windows, row, canvas, origin=(top, left))
        canvases[row].copy_(canvas.round_().clamp_(0, 255))
    return canvases
