"""The decode stage of clips on the CPU: each frame is rendered on the canvases of all views, then released."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode import opencv
from dali_pipes.errors import DecodeError
from dali_pipes.pipeline.canvases import Canvases
from dali_pipes.pipeline.fetch import Fetcher
from dali_pipes.pipeline.stages import NOTHING, Decoded, Fetched
from dali_pipes.video.decode import read_frames
from dali_pipes.video.render_frame import Stencil
from dali_pipes.video.salvage import read_readable
from readers import BadSample
from readers.video import VideoInfo
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
        shared = self._shared.get(number)
        while fetched.data[of_row] is not None:
            held: dict[int, int] = {}
            try:
                pictures = shared.take(number) if shared else None
                self._render_frames(
                    pictures or self.decode(fetched, of_row, fetched.frames[of_row], held),
                    fetched,
                    of_row,
                    canvases,
                    row,
                )
                if held:
                    num_frames = len(self._info(fetched, of_row))
                    return self._fetcher.keep(fetched, of_row, held, num_frames)
                return fetched
            except DecodeError as error:
                fetched, of_row = self._fetcher.lose(fetched, of_row, error), 0
                shared = None  # a substitute is another video
        canvases.blacken(row, fetched.draws, of_row)
        return fetched

    def _render_frames(
        self,
        pictures: Iterable[tuple[int, Picture]],
        fetched: Fetched,
        of_row: int,
        canvases: Canvases,
        row: int,
    ) -> None:
        """Render frames as they come, in any order; a frame that a clip has several times is copied."""
        stencil = Stencil(fetched.draws, of_row, self._info(fetched, of_row))
        for frame, picture in pictures:
            first, *others = np.flatnonzero(fetched.frames[of_row] == frame).tolist()
            rendered = canvases.of(row, fetched.draws, of_row, first)
            stencil.render(picture, rendered)
            for number in others:
                copies = canvases.of(row, fetched.draws, of_row, number)
                for copy, canvas in zip(copies, rendered, strict=True):
                    copy.copy_(canvas)

    def decode(
        self,
        fetched: Fetched,
        row: int,
        frames: NDArray[np.int64],
        held: dict[int, int] | None = None,
    ) -> Iterator[tuple[int, Picture]]:
        """Decode some frames of a row's video; see `read_frames`. Without `held` nothing stands in for them."""
        info, data = self._info(fetched, row), fetched.data[row]
        assert data is not None
        if info.codec == FRAMES_CODEC:
            return self._read_files(self._video(fetched, row), info, np.unique(frames))
        if self._clips.on_damaged_video == "truncate" and held is not None:
            return read_readable(data, info, frames, held)
        return read_frames(data, info, frames)

    def _read_files(
        self, video: int, info: VideoInfo, frames: NDArray[np.int64]
    ) -> Iterator[tuple[int, Picture]]:
        fetched = self._clips.fetch_frames(video, frames)
        for frame, content in zip(frames.tolist(), fetched, strict=True):
            if isinstance(content, BadSample):
                raise DecodeError(f"frame {frame} of {len(info)}: {content.reason}")
            try:
                yield frame, opencv.decode(content, (info.height, info.width))
            except DecodeError as error:
                raise DecodeError(f"frame {frame} of {len(info)}: {error}") from error

    def _share(self, fetched: Fetched, rendered: Sequence[int]) -> "dict[int, _Shared]":
        """Find the rows that have a video together with others, and whose frames are few enough to keep."""
        shared: dict[int, _Shared] = {}
        present = np.array([row for row in rendered if fetched.data[row] is not None], np.int64)
        videos = self._clips.videos(fetched.indices[present])
        for video in [video for video, times in Counter(videos.tolist()).items() if times > 1]:
            rows = present[videos == video].tolist()
            info = self._clips.info(video)
            if not isinstance(info, VideoInfo):
                continue
            frames = {row: np.unique(fetched.frames[row]) for row in rows}
            together = np.unique(np.concatenate(list(frames.values())))
            if len(together) * info.height * info.width * 3 <= _SHARED_BYTES:
                decode = partial(self.decode, fetched, rows[0], together)
                shared.update(dict.fromkeys(rows, _Shared(decode, frames)))
        return shared

    def _video(self, fetched: Fetched, row: int) -> int:
        return int(self._clips.videos(fetched.indices[row : row + 1])[0])

    def _info(self, fetched: Fetched, row: int) -> VideoInfo:
        info = self._clips.info(self._video(fetched, row))
        if not isinstance(info, VideoInfo):
            raise DecodeError(str(info))
        return info


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
