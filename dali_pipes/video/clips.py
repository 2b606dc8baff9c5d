"""Clips: a dataset of videos seen as one of clips."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dali_pipes.video.positions import Padding, frames_by_stride, frames_by_time
from gpu_aug.draws import uniforms
from readers import BadSample, Dataset, Sample
from readers.dataset import ColumnName, IndexedDataset
from readers.video import VIDEO_FIELDS, VideoError, VideoInfo, scan_video

Sampling = Literal["random", "uniform", "all", "first"]

_SLOT = 1 << 30  # far from those of all operations and views


class Clips(IndexedDataset):
    """Clips of a fixed number of frames, taken from videos.

    Args:
        dataset: Samples of which each holds a video.
        num_frames: Frames of a clip.
        stride: Places from one frame of a clip to the next; 1 takes all. Either this or `fps`.
        fps: Frames per second of the clip. The frame that is shown at a moment is taken, which is exact
            for videos of variable frame rate, too.
        sampling: "random" draws where each clip begins, anew in every epoch; "uniform" spreads
            `clips_per_video` from the beginning to the end (one: in the middle); "all" cuts the whole video
            into clips that follow each other; "first" begins at the first frame.
        clips_per_video: For "random" and "uniform".
        padding: What becomes of a video that is too short: "edge" holds its last frame, "loop" begins again,
            "repeat" shows every frame equally often.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        num_frames: int,
        stride: int | None = None,
        fps: float | None = None,
        sampling: Sampling = "random",
        clips_per_video: int = 1,
        padding: Padding = "edge",
    ) -> None:
        self.dataset = dataset
        self.num_frames = num_frames
        self._stride, self._fps = stride, fps
        self._sampling, self._padding = sampling, padding
        self._infos = [_scan(entry) for entry in dataset.fetch(range(len(dataset)))]
        counts = [
            clips_per_video if sampling in ("random", "uniform") else self._count(info)
            for info in self._infos
        ]
        self._first = np.cumsum([0, *counts])

    def __len__(self) -> int:
        return int(self._first[-1])

    @property
    def class_names(self) -> tuple[str, ...]:
        """Those of the videos."""
        return self.dataset.class_names

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the videos and how clips are taken from them."""
        how = [self.num_frames, self._stride, self._fps, self._sampling, self._padding, len(self)]
        text = json.dumps([self.dataset.fingerprint, how])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def videos(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The video of each clip, int64 [n]."""
        return np.searchsorted(self._first, indices, side="right") - 1

    def info(self, video: int) -> VideoInfo | VideoError:
        """What is known of a video, or why it is none."""
        return self._infos[video]

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read the videos of clips; see `Dataset.fetch`. A clip is its video with another index and key."""
        clips = np.asarray(indices, np.int64)
        videos = self.videos(clips)
        fetched = self.dataset.fetch(videos)
        return [
            self._clip(entry, clip, video)
            for entry, clip, video in zip(fetched, clips.tolist(), videos.tolist(), strict=True)
        ]

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`."""
        raise NotImplementedError

    def frames(
        self, seed: int, epoch: int, indices: NDArray[np.int64], repeats: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Choose the frames of clips.

        Args:
            seed: Not negative.
            epoch: Not negative.
            indices: int64 [n], the clips.
            repeats: int64 [n], tells apart the times that an epoch has one clip.

        Returns:
            int64 [n, num_frames], places in the order of presentation; 0 for what is no video.
        """
        identities = indices + repeats * len(self)
        shares = uniforms(seed, epoch, identities, [1], first_slot=_SLOT)[0][:, 0]
        chosen = np.zeros((len(indices), self.num_frames), np.int64)
        for row, (clip, video) in enumerate(
            zip(indices.tolist(), self.videos(indices).tolist(), strict=True)
        ):
            info = self._infos[video]
            if isinstance(info, VideoInfo):
                number = clip - int(self._first[video])
                chosen[row] = self._choose(info, self._share(number, video, shares[row]))
        return chosen

    def _share(self, number: int, video: int, drawn: float) -> float:
        if self._sampling == "random":
            return float(drawn)
        if self._sampling == "first":
            return 0.0
        count = int(self._first[video + 1] - self._first[video])
        return 0.5 if count == 1 else number / (count - 1)

    def _choose(self, info: VideoInfo, share: float) -> NDArray[np.int64]:
        if self._fps is None:
            return frames_by_stride(
                len(info), self.num_frames, self._stride or 1, share, self._padding
            )
        return frames_by_time(
            info.seconds,
            info.duration_seconds,
            self.num_frames,
            1 / self._fps,
            share,
            self._padding,
        )

    def _count(self, info: VideoInfo | VideoError) -> int:
        del info
        return 1

    def _clip(self, entry: Sample | BadSample, clip: int, video: int) -> Sample | BadSample:
        number = clip - int(self._first[video])
        key = f"{entry.key}#{number}"
        if isinstance(entry, BadSample):
            return replace(entry, index=clip, key=key)
        info = self._infos[video]
        if isinstance(info, VideoError):
            return BadSample(clip, key, "header", str(info))
        name = _video_field(entry)
        return replace(entry, index=clip, key=key, size=(info.height, info.width), image_field=name)


def _video_field(sample: Sample) -> str | None:
    for name in sample.fields:
        if name.rpartition(".")[2] in VIDEO_FIELDS:
            return name
    return None


def _scan(entry: Sample | BadSample) -> VideoInfo | VideoError:
    if isinstance(entry, BadSample):
        return VideoError(entry.reason)
    name = _video_field(entry)
    if name is None:
        return VideoError(f"no field with a video; its fields: {', '.join(entry.fields)}")
    try:
        return scan_video(entry.fields[name])
    except VideoError as error:
        return error
