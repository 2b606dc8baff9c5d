"""The decode stage of clips on the CPU: each frame is drawn on the canvases of all views and let go."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode import opencv
from dali_pipes.errors import DecodeError
from dali_pipes.pipeline.augment import Sheets
from dali_pipes.pipeline.fetch import Work, Workshop
from dali_pipes.video.decode import read_frames
from dali_pipes.video.salvage import read_readable
from dali_pipes.video.stencil import Stencil
from readers import BadSample
from readers.video import VideoInfo
from readers.video.frame_folder import FRAMES_CODEC

Picture = Any
"""An `av.VideoFrame` as it is stored, or uint8 [height, width, 3]."""

_SHARED_BYTES = 1 << 28
"""Bytes of decoded frames that several clips of one video may share; beyond that each clip is decoded by itself."""


class ClipDrawer:
    """Draws the canvases of a batch of clips; see finish.Draw. Clips of one video share its frames.

    Args:
        workshop: Deals with clips that cannot be decoded.
        work: The batch.
        rows: Rows that it will draw; None is all.
    """

    def __init__(self, workshop: Workshop, work: Work, rows: Sequence[int] | None = None) -> None:
        assert workshop.clips is not None
        self._workshop, self._work, self._clips = workshop, work, workshop.clips
        self._shared = self._share(range(len(work)) if rows is None else rows)

    def __call__(self, sheets: Sheets, start: int, stop: int) -> None:
        """Draw the canvases at places start to stop (half open)."""
        for place in range(start, stop):
            self._draw(sheets, place)

    def _draw(self, sheets: Sheets, place: int) -> None:
        """Draw a row, or its substitute where it is lost."""
        work, row = self._work, sheets.rows[place]
        shared = self._shared.get(row)
        while work.data[row] is not None:
            held: dict[int, int] = {}
            try:
                pictures = shared.take(row) if shared else None
                self._draw_clip(pictures or self.decode(row, work.frames[row], held), sheets, place)
                if held:
                    self._workshop.keep(work, row, held, len(self._info(row)))
                return
            except DecodeError as error:
                self._workshop.lose_late(work, row, "decode", error)
                shared = None  # a substitute is another video
        sheets.blacken(place)

    def _draw_clip(
        self, pictures: Iterable[tuple[int, Picture]], sheets: Sheets, place: int
    ) -> None:
        """Draw frames as they come, in any order; a frame that a clip has several times is copied."""
        work, row = self._work, sheets.rows[place]
        stencil = Stencil(work, row, self._info(row))
        views = range(len(work.draws))
        for frame, picture in pictures:
            first, *others = np.flatnonzero(work.frames[row] == frame).tolist()
            drawn = [sheets.canvas(place, view, first) for view in views]
            stencil.draw(picture, drawn)
            for number in others:
                for view in views:
                    sheets.canvas(place, view, number).copy_(drawn[view])

    def decode(
        self, row: int, frames: NDArray[np.int64], held: dict[int, int] | None = None
    ) -> Iterator[tuple[int, Picture]]:
        """Decode some frames of a row's video; see `read_frames`. Without `held` nothing stands in for them."""
        info, data = self._info(row), self._work.data[row]
        assert data is not None
        if info.codec == FRAMES_CODEC:
            return self._read_files(row, info, np.unique(frames))
        if self._clips.on_damaged_video == "truncate" and held is not None:
            return read_readable(data, info, frames, held)
        return read_frames(data, info, frames)

    def _read_files(
        self, row: int, info: VideoInfo, frames: NDArray[np.int64]
    ) -> Iterator[tuple[int, Picture]]:
        fetched = self._clips.fetch_frames(self._video(row), frames)
        for frame, content in zip(frames.tolist(), fetched, strict=True):
            if isinstance(content, BadSample):
                raise DecodeError(f"frame {frame} of {len(info)}: {content.reason}")
            try:
                yield frame, opencv.decode(content, (info.height, info.width))
            except DecodeError as error:
                raise DecodeError(f"frame {frame} of {len(info)}: {error}") from error

    def _share(self, drawn: Sequence[int]) -> "dict[int, _Shared]":
        """Find the rows that have a video together with others, and whose frames are few enough to keep."""
        work = self._work
        shared: dict[int, _Shared] = {}
        present = np.array([row for row in drawn if work.data[row] is not None], np.int64)
        videos = self._clips.videos(work.indices[present])
        for video in [video for video, times in Counter(videos.tolist()).items() if times > 1]:
            rows = present[videos == video].tolist()
            info = self._clips.info(video)
            if not isinstance(info, VideoInfo):
                continue
            frames = {row: np.unique(work.frames[row]) for row in rows}
            together = np.unique(np.concatenate(list(frames.values())))
            if len(together) * info.height * info.width * 3 <= _SHARED_BYTES:
                one = _Shared(self, rows[0], together, frames)
                shared.update(dict.fromkeys(rows, one))
        return shared

    def _video(self, row: int) -> int:
        return int(self._clips.videos(self._work.indices[row : row + 1])[0])

    def _info(self, row: int) -> VideoInfo:
        info = self._clips.info(self._video(row))
        if not isinstance(info, VideoInfo):
            raise DecodeError(str(info))
        return info


class _Shared:
    """The frames of a video that several rows need: decoded once, each let go with the last row that needs it."""

    def __init__(
        self,
        drawer: ClipDrawer,
        row: int,
        frames: NDArray[np.int64],
        of_row: dict[int, NDArray[np.int64]],
    ) -> None:
        self._drawer, self._row, self._frames, self._of_row = drawer, row, frames, of_row
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
                    self._decoded = dict(self._drawer.decode(self._row, self._frames))
            if not self._decoded:
                return None
            frames = self._of_row[row].tolist()
            taken = [(frame, self._decoded[frame]) for frame in frames]
            for frame in frames:
                self._left[frame] -= 1
                if not self._left[frame]:
                    del self._decoded[frame]
            return taken
