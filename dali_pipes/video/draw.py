"""The decode stage of clips on the CPU: frames decoded once for all clips of a batch, and their canvases."""

import threading
from collections import Counter

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError
from dali_pipes.finish import Sheets
from dali_pipes.video.decode import decode_frames
from dali_pipes.work import Work, Workshop
from gpu_aug.resample import resample
from readers.video import VideoInfo

Frames = dict[int, NDArray[np.uint8]]


class ClipDrawer:
    """Draws the canvases of a batch of clips; see finish.Draw. Threads that need one video share its frames.

    Args:
        workshop: Deals with clips that cannot be decoded.
        work: The batch.
    """

    def __init__(self, workshop: Workshop, work: Work) -> None:
        assert workshop.clips is not None
        self._workshop, self._work, self._clips = workshop, work, workshop.clips
        self._videos = self._clips.videos(work.indices)
        self._left = Counter(self._videos.tolist())
        self._locks = {video: threading.Lock() for video in self._left}
        self._decoded: dict[int, Frames | DecodeError] = {}

    def __call__(self, sheets: Sheets, start: int, stop: int) -> None:
        """Draw the canvases at places start to stop (half open)."""
        for place in range(start, stop):
            frames = self._frames(sheets.rows[place])
            if frames is None:
                sheets.blacken(place)
            else:
                draw_frames(frames, self._work, sheets, place)

    def _frames(self, row: int) -> list[NDArray[np.uint8]] | None:
        """Decode a row's frames, or those of its substitute; None where the row is lost."""
        work = self._work
        try:
            decoded = self._shared(row)
        except DecodeError as error:
            decoded = {}
            self._workshop.lose_late(work, row, "decode", error)
            while work.data[row] is not None:
                try:
                    decoded = self._decode(row, work.frames[row])
                    break
                except DecodeError as again:
                    self._workshop.lose_late(work, row, "decode", again)
        if work.data[row] is None:
            return None
        return [decoded[frame] for frame in work.frames[row].tolist()]

    def _shared(self, row: int) -> Frames:
        """Decode what all rows of a video need, once.

        Raises:
            DecodeError: It cannot be decoded, which all these rows are told.
        """
        video = int(self._videos[row])
        with self._locks[video]:
            decoded = self._decoded.get(video)
            if decoded is None:
                same = self._videos == video
                try:
                    decoded = self._decode(row, self._work.frames[same].ravel())
                except DecodeError as error:
                    decoded = error
                self._decoded[video] = decoded
            self._left[video] -= 1
            if not self._left[video]:
                del self._decoded[video]
        if isinstance(decoded, DecodeError):
            raise decoded
        return decoded

    def _decode(self, row: int, frames: NDArray[np.int64]) -> Frames:
        data = self._work.data[row]
        info = self._clips.info(int(self._clips.videos(self._work.indices[row : row + 1])[0]))
        if data is None or not isinstance(info, VideoInfo):
            return {}
        return decode_frames(data, info, frames)


def draw_frames(frames: list[NDArray[np.uint8]], work: Work, sheets: Sheets, place: int) -> None:
    """Draw the canvases of every view and frame of a clip."""
    row = sheets.rows[place]
    for view, draws in enumerate(work.draws):
        for number, frame in enumerate(frames):
            pixels = torch.from_numpy(frame)
            resample(pixels, draws.windows, row, sheets.canvas(place, view, number))
