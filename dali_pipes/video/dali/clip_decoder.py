"""Decode clips with NVIDIA DALI, and render the canvases of their frames with torch on the frames' device."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from dali_pipes.decode.dali.base import DecoderByDali
from dali_pipes.decode.dali.loan import Loan
from dali_pipes.decode.remaining_rows import start_rendering
from dali_pipes.stages.augment import Augmenter
from dali_pipes.stages.canvas_memory import ViewCanvases
from dali_pipes.stages.cuda_streams import SideStream
from dali_pipes.stages.data import NO_TARGETS, Decoded, Fetched, Pending
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.video.color import BT601, LUMA_WEIGHTS, rgb_matrix, stored_rect
from dali_pipes.video.dali.excerpt import Excerpt, make_excerpt
from dali_pipes.video.dali.feed import ClipFeed, inputs_of
from dali_pipes.video.dali.support import Refusals
from gpu_aug.resampling.crop_and_resize import paste
from gpu_aug.resampling.crops import Crops
from gpu_aug.upload import upload
from readers.video import VideoError, VideoInfo

# Bytes of decoded frames that DALI holds per push; larger steps are pushed in parts. With a depth of 2, they take at most 2 GiB of the
# memory of a GPU.
_PART_BYTES = 1 << 30

Rendered = dict[int, tuple[torch.Tensor, ...]]
"""For each row, the canvases of its frames: a tensor per view, uint8 [T, height, width, 3]."""

# Bytes of frames that are resized at a time; as float32, they and their results take about five times as much memory.
_PIECE_BYTES = 16 << 20


def render_canvases(frames: torch.Tensor, info: VideoInfo, crops: Crops, row: int) -> torch.Tensor:
    """Crop frames, turn, resize and paste the crops, with the pixels of `gpu_aug.resampling.crop_and_resize`.

    Args:
        frames: uint8 [n, height, width, 3], not turned upright.
        info: Metadata of the video.
        crops: The batch's crops.
        row: The row of the clip.

    Returns:
        uint8 [n, canvas height, canvas width, 3] on the same device.
    """
    upright = (*crops.start[row].tolist(), *crops.shape[row].tolist())
    size = (int(frames.shape[1]), int(frames.shape[2]))
    top, left, height, width = stored_rect(upright, size, info.rotation)
    cut = frames[:, top : top + height, left : left + width]
    cut = torch.rot90(cut, -info.rotation // 90, dims=(1, 2))
    rendered = _resample(cut, tuple(crops.resize[row].tolist()), info.matrix, crops.antialias)
    (top, left), canvas = crops.paste[row].tolist(), tuple(crops.canvas[row].tolist())
    if top == left == 0 and canvas == tuple(rendered.shape[1:3]):
        return rendered
    canvases = rendered.new_empty((len(rendered), *canvas, 3))
    paste(rendered, top, left, canvases)
    return canvases


def _resample(
    cut: torch.Tensor, size: tuple[int, ...], matrix: int, antialias: bool
) -> torch.Tensor:
    colours = color_correction(matrix)
    if size == tuple(cut.shape[1:3]) and colours is None:
        return cut
    if colours is not None:
        colours = upload(colours, cut.device)
    out = torch.empty((len(cut), *size, 3), dtype=torch.uint8, device=cut.device)
    count = max(1, _PIECE_BYTES // max(1, cut[:1].numel()))
    for start in range(0, len(cut), count):
        piece = cut[start : start + count].permute(0, 3, 1, 2).float()
        if size != tuple(piece.shape[2:]):
            piece = F.interpolate(piece, size=size, mode="bilinear", antialias=antialias)
        piece = piece.permute(0, 2, 3, 1)
        if colours is not None:
            # Not a matrix product: torch would round it to TF32 if the user allows that.
            piece = torch.stack([(piece * weights).sum(-1) for weights in colours], -1)
        # + 0.5 because the cast to uint8 rounds down.
        out[start : start + count] = piece.add_(0.5).clamp_(0, 255)
    return out


@cache
def color_correction(matrix: int) -> torch.Tensor | None:
    """Return the matrix that corrects colours which DALI, as for all videos, converted with BT.601.

    Values that BT.601 clipped to black or white stay clipped, so strong colours differ a little.

    Args:
        matrix: See `VideoInfo.matrix`.

    Returns:
        float32 [3, 3], to multiply RGB with; None if BT.601 is right.
    """
    if matrix not in LUMA_WEIGHTS or LUMA_WEIGHTS[matrix] == LUMA_WEIGHTS[BT601]:
        return None
    meant, made = (torch.from_numpy(rgb_matrix(number)) for number in (matrix, BT601))
    corrected: torch.Tensor = meant @ torch.linalg.inv(made)
    return corrected.float()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A step of clips after `DaliClipDecoder.prepare`.

    Attributes:
        fetched: The step.
        excerpts: For each row that DALI decodes, the excerpt of its video; all other rows are decoded on the CPU.
        parts: Groups of rows that are pushed together.
    """

    fetched: Fetched
    excerpts: dict[int, Excerpt]
    parts: list[list[int]]


class DaliClipDecoder(DecoderByDali):
    """Decodes clips with DALI; see DecoderByDali.

    DALI gets the packets of a video that its clip needs, with new frame numbers. torch renders the canvases on the
    device of the frames, and augmentation runs on a separate stream. Clips that DALI must not decode, or refuses, are
    decoded on the CPU, which decides what is a bad sample.

    Args:
        fetcher: Replaces bad samples.
        augmenter: Augments the canvases.
        feed: DALI's pipeline.
        refusals: Remembers which kinds of videos DALI refuses.
    """

    def __init__(
        self, fetcher: Fetcher, augmenter: Augmenter, feed: ClipFeed, refusals: Refusals
    ) -> None:
        # On a CPU the engine runs in the loop's own thread, so nothing can be launched ahead.
        self.lookahead = 1 if augmenter.side.stream is None else 2
        super().__init__(fetcher, augmenter, feed)
        self._feed, self._refusals = feed, refusals
        self._pool = augmenter.workers.pool
        # Parts of the started steps that are not pushed yet: a step with many frames needs several pushes.
        self._unpushed: deque[list[Excerpt]] = deque()

    def prepare(self, fetched: Fetched) -> Prepared:
        """Cut out the packets that the clips need."""
        found = ((row, self._excerpt(fetched, row)) for row in range(len(fetched)))
        excerpts = {row: excerpt for row, excerpt in found if excerpt is not None}
        return Prepared(fetched, excerpts, list(divide(excerpts)))

    def start(self, prepared: Prepared) -> None:
        """Push the parts of a step into DALI, as many as it has room for."""
        self._unpushed += [[prepared.excerpts[row] for row in rows] for rows in prepared.parts]
        self._fill()

    def finish(self, prepared: Prepared) -> Pending:
        """Take a step from DALI, part by part, and start augmenting it."""
        rendered: Rendered = {}
        for rows in prepared.parts:
            with self._recorder.measure("decode", by_others=True):
                outputs = self._feed.take(self._side.stream)
            self._fill()
            if outputs is not None:
                rendered |= self._render(prepared, rows, outputs[0])
            else:
                rendered |= self._take_apart(prepared, rows)
        return self._augment(prepared.fetched, rendered)

    def _excerpt(self, fetched: Fetched, row: int) -> Excerpt | None:
        clips, data = self._fetcher.clips, fetched.data[row]
        if clips is None or data is None:
            return None
        try:
            info = clips.parts(int(fetched.indices[row]))[0].info
        except VideoError:  # the decoder on the CPU reports the reason
            return None
        if self._refusals.is_hopeless(info):
            return None
        return make_excerpt(data, info, fetched.frames[row], self._feed.backend)

    def _fill(self) -> None:
        """Push parts while DALI has room."""
        while self._unpushed and len(self._feed) < self.depth:
            excerpts = self._unpushed.popleft()
            self._feed.warm_up(inputs_of(excerpts[:1]))
            self._feed.push(inputs_of(excerpts))

    def _take_apart(self, step: Prepared, rows: Sequence[int]) -> Rendered:
        """Return the canvases of clips that DALI refused together, decoded one by one.

        Clips that DALI refuses again are missing: the CPU decodes them.
        """
        rendered: Rendered = {}
        for row in rows:
            excerpt = step.excerpts[row]
            with self._recorder.measure("decode", by_others=True):
                outputs = self._feed.run_now(inputs_of([excerpt]), self._side.stream)
            decoded = outputs is not None
            self._refusals.note(excerpt.info, decoded=decoded, said=self._feed.refusal)
            if outputs is not None:
                rendered |= self._render(step, [row], outputs[0])
        return rendered

    def _render(self, step: Prepared, rows: Sequence[int], decoded: Sequence[Any]) -> Rendered:
        """Render canvases and release the frames, on the stream that waits for DALI's outputs."""
        renders = [
            partial(_render_views, self._side, step.fetched, row, step.excerpts[row], frames)
            for row, frames in zip(rows, decoded, strict=True)
        ]
        with self._recorder.measure("decode", by_others=True):
            if self._side.stream is None:
                rendered = list(self._pool.map(lambda render: render(), renders))
            else:
                rendered = [self._side.run(render).tensors for render in renders]
        return dict(zip(rows, rendered, strict=True))

    def _augment(self, fetched: Fetched, rendered: Rendered) -> Pending:
        """Render the rows that DALI did not decode on the CPU, and start augmenting all rows."""
        others = [row for row in range(len(fetched)) if row not in rendered]
        remaining = start_rendering(self._fetcher, self._augmenter, fetched, others)
        with self._recorder.measure("decode", by_others=True):
            decoded = remaining.wait(Decoded(fetched, [NO_TARGETS] * len(fetched)))
        engines = self._augmenter.engines_of(fetched)

        def canvases() -> list[ViewCanvases]:
            return [
                join(rendered, view, uploaded, others, len(fetched))
                for view, uploaded in enumerate(engines.upload(remaining.canvases))
            ]

        return self._augmenter.launch(decoded, canvases)


def divide(excerpts: dict[int, Excerpt]) -> Iterator[list[int]]:
    """Divide rows into parts whose decoded frames fit into the memory for one push; each part has at least one row."""
    part: list[int] = []
    size_bytes = 0
    for row, excerpt in excerpts.items():
        if part and size_bytes + excerpt.size_bytes > _PART_BYTES:
            yield part
            part, size_bytes = [], 0
        part.append(row)
        size_bytes += excerpt.size_bytes
    if part:
        yield part


def join(
    rendered: Rendered, view: int, others: ViewCanvases, rows: Sequence[int], count: int
) -> ViewCanvases:
    """Return the canvases of all rows of a view, in row order.

    Args:
        rendered: The clips that DALI decoded.
        view: Index of the view.
        others: The canvases of `rows`, on the same device, with as many canvases per row.
        rows: The rows that are not in `rendered`, ascending.
        count: Count of all rows.
    """
    times = len(others) // len(rows) if rows else 0
    starts = {row: number * times for number, row in enumerate(rows)}
    clips = [
        others[starts[row] : starts[row] + times] if row in starts else rendered[row][view]
        for row in range(count)
    ]
    if isinstance(others, list):
        return [canvas for clip in clips for canvas in clip]
    return torch.cat([others[:0], *clips])  # type: ignore[list-item]


def _render_views(
    side: SideStream, fetched: Fetched, row: int, excerpt: Excerpt, decoded: Any
) -> tuple[torch.Tensor, ...]:
    frames = Loan(side).tensor(decoded)
    rendered = [render_canvases(frames, excerpt.info, one.crops, row) for one in fetched.draws]
    if not np.array_equal(excerpt.picks, np.arange(len(frames))):
        picks = upload(torch.from_numpy(excerpt.picks), frames.device)
        rendered = [canvases.index_select(0, picks) for canvases in rendered]
    return tuple(rendered)
