"""The decode stage of clips on the CPU: each frame is rendered on the canvases of all views, then released."""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode import opencv
from dali_pipes.errors import DecodeError
from dali_pipes.stages.canvases import Canvases
from dali_pipes.stages.data import NOTHING, Decoded, Fetched
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.video.decode import read_frames
from dali_pipes.video.parts import Part, overlapping
from dali_pipes.video.render_frame import Stencil
from dali_pipes.video.salvage import read_readable
from readers import BadSample
from readers.video import VideoError
from readers.video.frame_folder import FRAMES_CODEC

Picture = Any
"""An `av.VideoFrame` as it is stored, or uint8 [height, width, 3]."""

_SHARED_BYTES = 1 << 28
"""The most bytes of decoded frames that several clips of one video share; what would be more is decoded for each clip."""


class ClipRenderer:
    """Renders the canvases of a step of clips; see threads.Render. Clips of one video share its frames.

    Args:
        fetcher: Deals with clips that cannot be decoded.
        fetched: The step.
        rows: Those that it will render; None is all.
    """

    def __init__(
        self, fetcher: Fetcher, fetched: Fetched, rows: Sequence[int] | None = None
    ) -> None:
        assert fetcher.clips is not None
        self._fetcher, self._clips = fetcher, fetcher.clips
        self._shared = self._share(fetched, range(len(fetched)) if rows is None else rows)

    def __call__(self, fetched: Fetched, canvases: Canvases, start: int) -> Decoded:
        """Render some rows of the step, of which the first is row `start`."""
        rows = fetched
        for row in range(len(fetched)):
            one = self.render(fetched, row, canvases, row, start + row)
            if one is not fetched:
                rows = rows.replaced(row, one)
        return Decoded(rows, [NOTHING] * len(rows))

    def render(
        self, fetched: Fetched, of_row: int, canvases: Canvases, row: int, number: int
    ) -> Fetched:
        """Render a clip, or its substitute where it is lost.

        Args:
            fetched: Has the clip.
            of_row: The clip's row there.
            canvases: Have its canvases.
            row: The clip's row there.
            number: The clip's row in the whole step.

        Returns:
            The rows as they were given or, where the clip is damaged, the only row that takes its place.
        """
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
                    return self._fetcher.keep(fetched, of_row, held, len(part.info))
                return fetched
            except DecodeError as error:
                fetched, of_row = self._fetcher.lose(fetched, of_row, error), 0
                shared = {}  # a substitute is another video
        canvases.blacken(row, fetched.draws, of_row)
        return fetched

    def _render_part(
        self,
        pictures: Iterable[tuple[int, Picture]],
        part: Part,
        fetched: Fetched,
        of_row: int,
        canvases: Canvases,
        row: int,
    ) -> None:
        """Render frames as they come, in any order; a frame that a clip has several times is copied."""
        own = self._fetcher.drawn_for(fetched, of_row, (part.info.height, part.info.width))
        stencil = Stencil(*own, part.info)
        columns = np.arange(fetched.frames.shape[1])[part.columns]
        frames = fetched.frames[of_row, part.columns]
        for frame, picture in pictures:
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
        """Decode some frames of a part; see `read_frames`. Without `held` nothing stands in for them."""
        if part.info.codec == FRAMES_CODEC:
            return _read_pictures(part, np.unique(frames))
        sample, data = fetched.samples[row], fetched.data[row]
        assert sample is not None
        assert data is not None
        if part.field:
            data = sample.fields[part.field]
        if self._clips.on_damaged_video == "truncate" and held is not None:
            return read_readable(data, part.info, frames, held)
        return read_frames(data, part.info, frames)

    def _share(self, fetched: Fetched, rendered: Sequence[int]) -> "dict[int, dict[int, _Shared]]":
        """Find the rows that decode a video together, whose frames are few enough to keep: by row and part."""
        of_video: dict[tuple[int, Hashable], dict[int, Part]] = {}
        for row in rendered:
            if fetched.data[row] is not None:
                with suppress(DecodeError):
                    for place, part in enumerate(self._parts(fetched, row)):
                        of_video.setdefault((place, part.video), {})[row] = part
        shared: dict[int, dict[int, _Shared]] = {}
        for (place, _), parts in of_video.items():
            if len(parts) < 2:
                continue
            part = next(iter(parts.values()))
            frames = {row: np.unique(fetched.frames[row, part.columns]) for row in parts}
            for group in overlapping(part.info, frames) if part.alone else [frames]:
                together = np.unique(np.concatenate(list(group.values())))
                size_bytes = len(together) * part.info.height * part.info.width * 3
                if len(group) > 1 and size_bytes <= _SHARED_BYTES:
                    decode = partial(self._decode, fetched, min(group), part, together)
                    one = _Shared(decode, group)
                    for row in group:
                        shared.setdefault(row, {})[place] = one
        return shared

    def _parts(self, fetched: Fetched, row: int) -> list[Part]:
        """The parts of a row's clip.

        Raises:
            DecodeError: A video cannot be read.
        """
        try:
            return self._clips.parts(int(fetched.indices[row]))
        except VideoError as error:
            raise DecodeError(str(error)) from error


def _read_pictures(part: Part, frames: NDArray[np.int64]) -> Iterator[tuple[int, Picture]]:
    """Read and decode frames that are pictures of their own."""
    info = part.info
    for frame, content in zip(frames.tolist(), part.read(frames), strict=True):
        if isinstance(content, BadSample):
            raise DecodeError(f"frame {frame} of {len(info)}: {content.reason}")
        try:
            yield frame, opencv.decode(content, (info.height, info.width))
        except DecodeError as error:
            raise DecodeError(f"frame {frame} of {len(info)}: {error}") from error


class _Shared:
    """The frames of a video that several rows need: decoded once, each let go with the last row that needs it."""

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
        """Return a row's frames; None where a frame of any of the rows cannot be had: each row tries for itself."""
        with self._lock:
            if not self._tried:
                self._tried = True
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
