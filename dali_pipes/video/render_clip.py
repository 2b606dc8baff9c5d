"""The decode stage of clips on the CPU: render each frame on the canvases of all views, and then release it.

Only the part of a frame that the crops show is converted and resized.
"""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode import opencv
from dali_pipes.errors import DecodeError
from dali_pipes.samples.targets import SampleTargets
from dali_pipes.stages.canvas_memory import Canvases
from dali_pipes.stages.data import NO_TARGETS, Decoded, Fetched, needed_part
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.video.color import to_rgb
from dali_pipes.video.decode import read_frames, read_readable
from dali_pipes.video.packets import Part, overlapping_clips
from gpu_aug import Draws
from gpu_aug.resampling.crop_and_resize import resize_on_canvas
from readers import BadSample
from readers.video import VideoError, VideoInfo
from readers.video.frame_folder import FRAMES_CODEC

Picture = Any
"""An `av.VideoFrame` as stored, or uint8 [height, width, 3]."""

# Largest size of decoded frames that clips of one video share; if they need more, each clip decodes its own frames.
_SHARED_BYTES = 1 << 28


class ClipRenderer:
    """Renders the canvases of a step of clips; see threads.Render. Clips of one video share its decoded frames.

    Args:
        fetcher: Records clips that cannot be decoded, and chooses their substitutes.
        fetched: The step.
        rows: The rows to render; None means all.
    """

    def __init__(
        self, fetcher: Fetcher, fetched: Fetched, rows: Sequence[int] | None = None
    ) -> None:
        assert fetcher.clips is not None
        self._fetcher, self._clips = fetcher, fetcher.clips
        self._shared = self._share(fetched, range(len(fetched)) if rows is None else rows)

    def __call__(self, fetched: Fetched, canvases: Canvases, start: int) -> Decoded:
        """Render consecutive rows of the step, starting with row `start`."""
        rows = fetched
        for row in range(len(fetched)):
            one, _ = self.render(fetched, row, canvases, row, start + row)
            if one is not fetched:
                rows = rows.replaced(row, one)
        return Decoded(rows, [NO_TARGETS] * len(rows))

    def render(
        self,
        fetched: Fetched,
        of_row: int,
        canvases: Canvases,
        row: int,
        number: int | None = None,
    ) -> tuple[Fetched, SampleTargets]:
        """Render a clip, or its substitute if it cannot be decoded.

        Args:
            fetched: Rows that include the clip.
            of_row: Index of the clip's row in `fetched`.
            canvases: Canvases to render on.
            row: Index of the clip's row in `canvases`.
            number: Index of the clip's row in the step; None if `fetched` is the step.

        Returns:
            `fetched` or, for a damaged clip, a one-row step that replaces it; and empty targets, because clips have none.
        """
        number = of_row if number is None else number
        shared = self._shared.get(number, {})
        while fetched.data[of_row] is not None:
            held: dict[int, int] = {}
            try:
                for place, part in enumerate(self._parts(fetched, of_row)):
                    frames = fetched.frames[of_row, part.columns]
                    pictures = shared[place].take(number) if place in shared else None
                    decoded = pictures or self._decode(fetched, of_row, part, frames, held)
                    self._render_part(decoded, part, fetched, of_row, canvases, row)
                if held:
                    fetched = self._fetcher.record_damage(fetched, of_row, held, len(part.info))
                return fetched, NO_TARGETS
            except DecodeError as error:
                fetched, of_row = self._fetcher.replace_row(fetched, of_row, error), 0
                shared = {}  # a substitute shows another video
        canvases.blacken(row, fetched.draws, of_row)
        return fetched, NO_TARGETS

    def _render_part(
        self,
        pictures: Iterable[tuple[int, Picture]],
        part: Part,
        fetched: Fetched,
        of_row: int,
        canvases: Canvases,
        row: int,
    ) -> None:
        """Render frames in the order in which they are decoded; a frame that occurs several times in a clip is copied."""
        own = self._fetcher.drawn_for(fetched, of_row, (part.info.height, part.info.width))
        stencil = Stencil(*own, part.info)
        columns = np.arange(fetched.frames.shape[1])[part.columns]
        frames = fetched.frames[of_row, part.columns]
        for frame, picture in _with_source(pictures, part):
            first, *others = columns[frames == frame].tolist()
            rendered = canvases.of(row, fetched.draws, of_row, first)
            stencil.render(picture, rendered)
            for number in others:
                copies = canvases.of(row, fetched.draws, of_row, number)
                for copy, canvas in zip(copies, rendered, strict=True):
                    copy.copy_(canvas)

    def _decode(
        self,
        fetched: Fetched,
        row: int,
        part: Part,
        frames: NDArray[np.int64],
        held: dict[int, int] | None = None,
    ) -> Iterator[tuple[int, Picture]]:
        """Yield the index and picture of some frames of a part. Only with `held` are undecodable frames replaced."""
        if part.info.codec == FRAMES_CODEC:
            return read_pictures(part, np.unique(frames))
        sample, data = fetched.samples[row], fetched.data[row]
        assert sample is not None
        assert data is not None
        if part.field:
            data = sample.fields[part.field]
        if self._clips.on_damaged_video == "truncate" and held is not None:
            return read_readable(data, part.info, frames, held)
        return read_frames(data, part.info, frames)

    def _share(self, fetched: Fetched, rendered: Sequence[int]) -> "dict[int, dict[int, _Shared]]":
        """Return the frames that a row shares with other rows, by row and by index of the part of its clip."""
        of_video: dict[tuple[int, Hashable], dict[int, Part]] = {}
        for row in rendered:
            if fetched.data[row] is not None:
                # Such a row shares nothing; `render` raises the same error again, and replaces the row.
                with suppress(DecodeError):
                    for place, part in enumerate(self._parts(fetched, row)):
                        of_video.setdefault((place, part.video), {})[row] = part
        shared: dict[int, dict[int, _Shared]] = {}
        for (place, _), parts in of_video.items():
            if len(parts) < 2:
                continue
            part = next(iter(parts.values()))
            frames = {row: np.unique(fetched.frames[row, part.columns]) for row in parts}
            # Clips without common packets are decoded separately, so that several threads share the work.
            for group in overlapping_clips(part.info, frames):
                together = np.unique(np.concatenate(list(group.values())))
                size_bytes = len(together) * part.info.height * part.info.width * 3
                if len(group) > 1 and size_bytes <= _SHARED_BYTES:
                    decode = partial(self._decode, fetched, min(group), part, together)
                    one = _Shared(decode, group)
                    for row in group:
                        shared.setdefault(row, {})[place] = one
        return shared

    def _parts(self, fetched: Fetched, row: int) -> list[Part]:
        """Return the parts of a row's clip.

        Raises:
            DecodeError: A video cannot be read.
        """
        try:
            return self._clips.parts(int(fetched.indices[row]))
        except VideoError as error:
            raise DecodeError(str(error)) from error


def _with_source(
    pictures: Iterable[tuple[int, Picture]], part: Part
) -> Iterator[tuple[int, Picture]]:
    """Yield pictures; name the file in errors, because a sample may have several cameras."""
    try:
        yield from pictures
    except DecodeError as error:
        raise DecodeError(f"{part.source}: {error}" if part.source else str(error)) from error


def read_pictures(part: Part, frames: NDArray[np.int64]) -> Iterator[tuple[int, Picture]]:
    """Yield the index and picture of frames that are separate files."""
    info = part.info
    for frame, content in zip(frames.tolist(), part.read(frames), strict=True):
        if isinstance(content, BadSample):
            raise DecodeError(f"frame {frame} of {len(info)}: {content.reason}")
        try:
            yield frame, opencv.decode(content, (info.height, info.width))
        except DecodeError as error:
            raise DecodeError(f"frame {frame} of {len(info)}: {error}") from error


class _Shared:
    """The frames of a video that several rows need: each is decoded once, and released after the last of these rows."""

    def __init__(
        self,
        decode: Callable[[], Iterable[tuple[int, Picture]]],
        of_row: dict[int, NDArray[np.int64]],
    ) -> None:
        self._decode, self._of_row = decode, of_row
        self._left = Counter(frame for wanted in of_row.values() for frame in wanted.tolist())
        self._lock = threading.Lock()
        self._tried = False
        self._decoded: dict[int, Picture] = {}

    def take(self, row: int) -> list[tuple[int, Picture]] | None:
        """Return a row's frames; None if a frame of any row is undecodable: then each row must decode its own."""
        with self._lock:
            if not self._tried:
                self._tried = True
                # Then each row decodes its own frames, so that only rows with the bad frame are bad.
                with suppress(DecodeError):
                    self._decoded = dict(self._decode())
            if not self._decoded:
                return None
            frames = self._of_row[row].tolist()
            taken = [(frame, self._decoded[frame]) for frame in frames]
            for frame in frames:
                self._left[frame] -= 1
                if not self._left[frame]:
                    del self._decoded[frame]
            return taken


class Stencil:
    """Renders frames of a clip to canvases, with the crops of the clip's row, which all its frames have in common.

    Args:
        draws: The draws of each view.
        row: Index of the row in `draws`.
        info: Metadata of the video.
    """

    def __init__(self, draws: Sequence[Draws], row: int, info: VideoInfo) -> None:
        starts, shapes = needed_part(draws)
        self._draws, self._row, self._info = draws, row, info
        self._start, self._shape = _pair(starts[row]), _pair(shapes[row])

    def render(self, picture: Picture, canvases: Sequence[torch.Tensor]) -> None:
        """Render the canvas of each view from a frame.

        Args:
            picture: The frame; an `av.VideoFrame` is turned upright.
            canvases: uint8 [canvas height, canvas width, 3] for each view, overwritten.
        """
        (top, left), (height, width) = self._start, self._shape
        if isinstance(picture, np.ndarray):
            part = picture[top : top + height, left : left + width]
        else:
            part = to_rgb(picture, self._info, (top, left, height, width))
        for drawn, canvas in zip(self._draws, canvases, strict=True):
            crops, row = drawn.crops, self._row
            (top, left), (height, width) = (
                _pair(crops.start[row] - np.array(self._start)),
                _pair(crops.shape[row]),
            )
            cut = part[top : top + height, left : left + width]
            resize, paste = _pair(crops.resize[row]), _pair(crops.paste[row])
            resize_on_canvas(cut, resize, paste, canvas.numpy(), antialias=crops.antialias)


def _pair(values: NDArray[np.int32]) -> tuple[int, int]:
    return int(values[0]), int(values[1])
