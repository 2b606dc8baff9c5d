"""Clips, a dataset whose samples are clips with a fixed count of frames, taken from the videos of another dataset."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dali_pipes.arguments.dataset import require_fetch
from dali_pipes.arguments.values import require_one_of, require_positive
from dali_pipes.errors import LoaderError
from dali_pipes.video.packets import Part
from dali_pipes.video.sampling import (
    Padding,
    Rate,
    Sampling,
    choose_frames,
    clip_start,
    frame_offsets,
    read_rate,
)
from gpu_aug.draws import SLOTS, uniforms
from gpu_aug.ops.temporal import SPEED_UNIT
from readers import BadSample, Dataset, Sample
from readers.datasets.dataset import IndexedDataset, Subset
from readers.datasets.first_samples import probed_samples
from readers.fingerprint import fingerprint_of
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.labels.label_vector import LabelShape, label_shape_of
from readers.sample import ColumnName, Payload, SelectionError, checked_indices
from readers.storage.unreadable import is_transient
from readers.video import VideoError, VideoIndex, VideoInfo, read_seconds
from readers.video.info import Segment, cut

OnDamagedVideo = Literal["raise", "truncate"]

# Videos whose metadata are cached, about as many as the batches in flight have: otherwise the index reads and parses
# a video's packets each time.
_MOST_REMEMBERED = 128

_Known = tuple[VideoInfo, Segment]
"""Metadata of a video, and the part of it from which clips are taken."""


class Clips(IndexedDataset):
    """Clips with a fixed number of frames, taken from videos.

    A clip is a sample whose key is that of its video followed by ``#0``, ``#1`` and so on, and whose label is that of
    its video. Its frames depend only on the seed, the epoch, the clip's index in the dataset, and the video. If a
    sample has the field ``clip`` (as from a list of clips, and from the shards into which such a list is packed) or the
    fields ``start_seconds`` and ``end_seconds``, only these seconds of its video are used: frames whose display starts
    before or after them are not taken. See `readers.video.read_seconds`; for tables, ``columns=`` leaves columns out.

    Frames are turned upright and otherwise returned as coded: an interlaced frame contains both fields, nothing is
    deinterlaced. If a file has several video streams, the one that FFmpeg considers the best is read, never a cover
    picture. `Loader.explain`, ``gpu-aug index`` and ``gpu-aug inspect`` report the number of such videos.

    The videos are indexed once, see `readers.video.VideoIndex`. A selection of clips costs nothing; clips of selected
    videos index only these videos.

    Args:
        dataset: Samples that each hold a video. Mixtures and balanced datasets raise: mix or balance the clips instead.
        num_frames: Frames of a clip, T.
        stride: Take every Nth frame; 1 takes all. Give either this or `fps`.
        fps: Frames per second of the clip. At each moment the frame on display is taken, which is also right for videos
            with a variable frame rate. Rounded to the nearest fraction with a denominator up to 100,000, so 30000 /
            1001 and 29.97 are exact.
        sampling: "random" draws the start of each clip, in every epoch, among all starts at which the complete clip
            fits. "uniform" spreads `clips_per_video` from the beginning to the end (a single one is in the middle).
            "all" cuts the complete video into consecutive clips, the last one padded, so that with stride=1 every frame
            is in one of them. "first" starts at the first frame.
        clips_per_video: Number of clips that "random" and "uniform" take from each video.
        padding: The frames of a clip after the end of the video: "edge" repeats the last frame, "loop" continues from
            the beginning, and "repeat" shows every frame from the clip's first one on equally often.
        on_damaged_video: Handling of a video that breaks off: "raise" makes its clips bad samples (see `on_bad_sample`
            of Loader); "truncate" takes clips from the readable part, and replaces a frame that cannot be decoded by
            the last good one before it. `Batch.frames` then has the replacement, and `Loader.bad_samples` lists the
            clip as kept.

    Raises:
        LoaderError: An argument is invalid.
        IndexFileError: No folder for the index of the videos can be written.
        SelectionError: The dataset itself determines how often each sample comes.

    Example:
        >>> clips = Clips(open_dataset("videos/"), num_frames=8, stride=2)
        >>> loader = Loader(clips, Recipe.preset("video_train", size=32), batch_size=2)
        >>> loader.peek().images.shape
        torch.Size([2, 8, 3, 32, 32])
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        num_frames: int,
        stride: int | None = None,
        fps: float | Fraction | None = None,
        sampling: Sampling = "random",
        clips_per_video: int = 1,
        padding: Padding = "edge",
        on_damaged_video: OnDamagedVideo = "raise",
    ) -> None:
        _require_video_dataset(dataset)
        require_positive(num_frames=num_frames, clips_per_video=clips_per_video)
        require_one_of("sampling", sampling, ("random", "uniform", "all", "first"))
        require_one_of("padding", padding, ("edge", "loop", "repeat"))
        require_one_of("on_damaged_video", on_damaged_video, ("raise", "truncate"))
        if clips_per_video > 1 and sampling in ("all", "first"):
            raise LoaderError(
                f'clips_per_video={clips_per_video} is for sampling="random" and "uniform", got {sampling=}; '
                "leave it out"
            )
        self.dataset = dataset
        self.num_frames = int(num_frames)
        self.on_damaged_video: OnDamagedVideo = on_damaged_video
        self._rate: Rate = read_rate(stride, fps)
        self._sampling: Sampling = sampling
        self._clips_per_video = int(clips_per_video)
        self._padding: Padding = padding
        _require_videos(dataset)
        self._index = VideoIndex.open(dataset)
        self.cameras: dict[str, slice] = {}
        self.depths: dict[str, slice] = {}
        self.sizes: dict[str, set[tuple[int, int]]] = {}
        self._first = np.concatenate([[0], np.cumsum(self._counts(), dtype=np.int64)])

    def __len__(self) -> int:
        return int(self._first[-1])

    def __repr__(self) -> str:
        """Return the settings, without the dataset and without defaults."""
        given = {
            "sampling": (self._sampling, "random"),
            "clips_per_video": (self._clips_per_video, 1),
            "padding": (self._padding, "edge"),
            "on_damaged_video": (self.on_damaged_video, "raise"),
        }
        others = [f"{name}={value}" for name, (value, usual) in given.items() if value != usual]
        return f"Clips({', '.join([f'num_frames={self.num_frames}', str(self._rate), *others])})"

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names of the videos."""
        return self.dataset.class_names

    @property
    def label_shape(self) -> LabelShape:
        """Shape of the labels of the videos."""
        return label_shape_of(self.dataset)

    @property
    def block_size(self) -> int:
        """Average number of clips in a block of videos."""
        videos = int(getattr(self.dataset, "block_size", 256))
        return max(1, round(videos * len(self) / max(len(self.dataset), 1)))

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits: a digest of the videos, their frames and seconds, and of the settings."""
        how = [
            *(self.num_frames, self._rate.identity, self._sampling, self._clips_per_video),
            *(self._padding, self.on_damaged_video, len(self)),
        ]
        frames = hashlib.sha256(np.asarray(self._index.num_frames, "<i8").tobytes())
        seconds = self._index.segment_seconds
        if not np.isnan(seconds).all():
            frames.update(np.asarray(seconds, "<f8").tobytes())
        return fingerprint_of(json.dumps([self.dataset.fingerprint, frames.hexdigest(), how]))

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return the values of a column for all clips; a clip has the value of its video."""
        if not isinstance(self.dataset, IndexedDataset):
            raise SelectionError(
                f"{type(self.dataset).__name__} has no columns; derive it from readers.IndexedDataset"
            )
        if name in ("height", "width"):
            values = self._index.sizes[:, int(name == "width")]
        else:
            values = self.dataset.column(name)
        return np.repeat(values, np.diff(self._first))

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read the videos of clips; each video is read once."""
        clips = np.array(checked_indices(indices, len(self)), np.int64)
        videos, rows = np.unique(self.videos(clips), return_inverse=True)
        entries = self.dataset.fetch(videos)
        return [
            self._clip(entries[row], clip, int(videos[row]))
            for clip, row in zip(clips.tolist(), rows.tolist(), strict=True)
        ]

    def peculiar(self) -> dict[str, int]:
        """Return the number of videos with each peculiarity that users should know; see `readers.video.VideoIndex.peculiar`."""
        return self._index.peculiar

    def videos(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each clip the index of its video in the dataset of videos, int64 [n]."""
        return np.searchsorted(self._first, indices, side="right") - 1

    def info(self, video: int) -> VideoInfo | VideoError:
        """Return the metadata of a video, or the reason why no clip can be taken from it."""
        known = self._known(video)
        return known if isinstance(known, VideoError) else known[0]

    def parts(self, index: int) -> list[Part]:
        """Return the parts of a clip; it has one, from its video."""
        [video] = self.videos(np.array([index])).tolist()
        info, _ = self._remembered(video)
        return [Part(slice(None), video, info, partial(self._fetch_frames, video))]

    def frames(
        self, seed: int, epoch: int, indices: NDArray[np.int64], repeats: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Choose the frames of clips as a Loader does if its recipe has no operation that changes time, such as TemporalReverse.

        ``clips.frames(0, 3, np.array([7]), np.array([0]))`` returns those of clip 7 in epoch 3 with seed 0.

        Args:
            seed: Not negative.
            epoch: Not negative.
            indices: int64 [n], the clips.
            repeats: int64 [n], numbers of the occurrences of each clip within the epoch.

        Returns:
            int64 [n, T], frame numbers in presentation order; 0 for a video that cannot be read.
        """
        speed = np.full(len(indices), SPEED_UNIT)
        return self.choose(seed, epoch, indices, indices + repeats * len(self), speed)

    def choose(
        self,
        seed: int,
        epoch: int,
        indices: NDArray[np.int64],
        identities: NDArray[np.int64],
        speed: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Choose the frames of clips from random numbers, like a Loader; see `ClipSource.choose` and `frames`."""
        chosen = np.zeros((len(indices), self.num_frames), np.int64)
        [numbers] = uniforms(seed, epoch, identities, [1], slots=SLOTS["starts of clips"])
        words = (numbers[:, 0] * 2.0**32).astype(np.int64).tolist()
        videos = self.videos(indices).tolist()
        for row, (clip, video) in enumerate(zip(indices.tolist(), videos, strict=True)):
            known = self._known(video)
            if not isinstance(known, VideoError):
                number, segment = clip - int(self._first[video]), known[1]
                offsets = frame_offsets(self._rate, segment, self.num_frames, int(speed[row]))
                start = self._start(segment, offsets[-1], number, words[row])
                positions = [start + offset for offset in offsets]
                frames = choose_frames(self._rate, segment, positions, self._padding)
                chosen[row] = segment.first + frames
        return chosen

    def _start(self, segment: Segment, span: int, number: int, word: int) -> int:
        """Return the start position of the clip with index `number` in its video, given its random number `word`."""
        if self._sampling == "first" or self._sampling == "all":
            return number * self.num_frames * self._rate.step(segment)
        room = self._rate.length(segment) - 1 - span
        return clip_start(self._sampling, room, number, self._clips_per_video, word)

    def _fetch_frames(self, video: int, frames: NDArray[np.int64]) -> list[Payload | BadSample]:
        """Read encoded frames of a video whose frames are separate files."""
        dataset, number = _in_whole(self.dataset, video)
        pictures: list[Payload | BadSample] = dataset.fetch_frames(number, frames)
        return pictures

    def _clip(self, entry: Sample | BadSample, clip: int, video: int) -> Sample | BadSample:
        """Convert a video's sample to the sample of one of its clips."""
        key = f"{entry.key}#{clip - int(self._first[video])}"
        if isinstance(entry, BadSample):
            return replace(entry, index=clip, key=key)
        info = self.info(video)
        if isinstance(info, VideoError):
            return BadSample(clip, key, "header", str(info), transient=is_transient(info))
        now, indexed = read_seconds(entry), self._seconds(video)
        if now != indexed:  # the frames were chosen from the index, so the file must match it
            reason = (
                f"its clip is of the seconds {now}, but was of {indexed} when the videos were indexed (None is the whole "
                f"video): delete {self._index.path}"
            )
            return BadSample(clip, key, "header", reason)
        size = (info.height, info.width)
        return replace(entry, index=clip, key=key, size=size, image_field=entry.video_field)

    def _seconds(self, video: int) -> tuple[float, float] | None:
        """Return the seconds of a video from which clips are taken; None for the full video."""
        start, stop = self._index.segment_seconds[video].tolist()
        return None if math.isnan(start) else (start, stop)

    def _known(self, video: int) -> _Known | VideoError:
        """Return the metadata of a video, or the reason why no clip can be taken from it; any thread may call this."""
        try:
            return self._remembered(video)
        except (
            VideoError
        ) as error:  # not cached: a video that cannot be read now may be readable later
            return error

    def _read(self, video: int) -> _Known:
        info = self._index[video]
        if isinstance(info, VideoError):
            raise info
        if info.damage and self.on_damaged_video == "raise":
            raise VideoError(
                f'{info.damage} after {len(info)} frames; on_damaged_video="truncate" takes clips from these'
            )
        return info, cut(info, self._seconds(video))

    @cached_property
    def _remembered(self) -> Callable[[int], _Known]:
        """A function that reads the metadata of a video (`_read`), with a cache for the latest videos."""
        return lru_cache(_MOST_REMEMBERED)(self._read)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_remembered"}

    def _counts(self) -> NDArray[np.int64]:
        """Return the count of clips of each video, int64 [n]; a bad video has at least one clip, which reports it."""
        counts = np.full(len(self.dataset), self._clips_per_video)
        if self._sampling == "all":
            for video in range(len(counts)):
                known = self._known(video)
                if not isinstance(known, VideoError):
                    span = self.num_frames * self._rate.step(known[1])
                    counts[video] = -(-self._rate.length(known[1]) // span)
        return counts


def _require_video_dataset(dataset: Dataset) -> None:
    """Raise if clips cannot be taken from a dataset, judged by its type.

    Raises:
        LoaderError: `dataset` is not a dataset, or its samples are clips or a robot's frames.
        SelectionError: The dataset itself determines how often each sample comes.
    """
    require_fetch(dataset)
    if isinstance(dataset, Clips):
        raise LoaderError("Clips takes a dataset of videos, got one of clips; give it their videos")
    if isinstance(dataset, IndexedDataset):
        dataset._require_selectable("Clips")
    whole, _ = _in_whole(dataset, 0)
    if isinstance(whole, LeRobotDataset):
        raise LoaderError(
            "Clips takes a dataset of videos, got a LeRobot dataset; give the Loader the dataset itself, and "
            "choose frames by open_dataset(..., delta_timestamps=...)"
        )


def _in_whole(dataset: Dataset, index: int) -> tuple[Any, int]:
    """Return the dataset from which a selection was made, and the index in it of a sample of the selection."""
    while isinstance(dataset, Subset):
        [index] = dataset.indices_in_whole([index]).tolist()
        dataset = dataset.whole
    return dataset, index


def _require_videos(dataset: Dataset) -> None:
    """Raise if the samples are images, before the index reads all of them.

    Raises:
        LoaderError: The first readable sample is an image.
    """
    for sample in islice(probed_samples(dataset), 1):
        if sample.video is None and sample.image is not None:
            raise LoaderError(
                f"Clips takes a dataset of videos, but {sample.key} is an image; give the Loader the dataset itself"
            )
