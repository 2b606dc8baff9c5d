"""Clips as pictures: their frames, and what the recipe makes of these."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.batch import Batch
from dali_pipes.loader import Loader
from dali_pipes.preview.canvas import Picture, to_pictures, viewable
from dali_pipes.video.clips import Clips
from gpu_aug import Recipe, Resize, Views
from readers.label_vector import Label
from readers.video import VideoInfo

_HEIGHT_MAX = 256  # of what is drawn; larger frames are shrunk


@dataclass(frozen=True)
class ClipPictures:
    """A clip, ready to be drawn.

    Attributes:
        key: Key of the video.
        label: The name of its class, "" where it has none.
        numbers: int64 [T], its frames, by their numbers in the order of presentation.
        seconds: float64 [T], when each is shown, after the first frame of the video.
        source: T pictures of one size.
        views: For each view of the recipe, T pictures of one size.
    """

    key: str
    label: str
    numbers: NDArray[np.int64]
    seconds: NDArray[np.float64]
    source: list[Picture]
    views: list[list[Picture]]


def clip_pictures(clips: Clips, views: Views, seed: int) -> Iterator[ClipPictures]:
    """Load all clips: as they are, and as the recipe makes them of the same frames.

    Args:
        clips: One of each video that is to be drawn.
        views: What is made of them.
        seed: Seed of the frames and of the draws.
    """
    batch = _load(clips, views, seed)
    augmented = [
        [to_pictures(viewable(clip.float(), recipe)) for clip in view]
        for view, recipe in zip(batch.views, views.recipes, strict=True)
    ]
    indices = np.arange(len(clips))
    numbers = clips.frames(seed, 0, indices, np.zeros_like(indices))
    sources = _sources(clips, seed)
    for row, entry in enumerate(clips.fetch(indices)):
        info, label = clips.info(row), getattr(entry, "label", -1)
        assert isinstance(info, VideoInfo)
        yield ClipPictures(
            key=entry.key.rpartition("#")[0],
            label=_class_name(label, clips.class_names),
            numbers=numbers[row],
            seconds=info.seconds[numbers[row]],
            source=sources[row],
            views=[view[row] for view in augmented],
        )


def _class_name(label: Label, class_names: Sequence[str]) -> str:
    known = not isinstance(label, np.ndarray) and 0 <= label < len(class_names)
    return class_names[int(label)] if known else ""


def _sources(clips: Clips, seed: int) -> list[list[Picture]]:
    """The frames themselves, shrunk where they are large: all clips once for each size of video."""
    sizes = []
    for video in range(len(clips)):
        info = clips.info(video)
        assert isinstance(info, VideoInfo)
        scale = min(1.0, _HEIGHT_MAX / info.height)
        sizes.append((round(info.height * scale), max(1, round(info.width * scale))))
    sources: list[list[Picture]] = [[]] * len(clips)
    for size in dict.fromkeys(sizes):
        images = _load(clips, Views([Recipe([Resize(size)])]), seed).images
        for row in (row for row, own in enumerate(sizes) if own == size):
            sources[row] = to_pictures(images[row].float())
    return sources


def _load(clips: Clips, views: Views, seed: int) -> Batch:
    """All clips as one batch, on the CPU; the same seed chooses the same frames."""
    with Loader(
        clips,
        views if len(views) > 1 else views.recipes[0],
        batch_size=len(clips),
        seed=seed,
        shuffle="none",
        dtype=torch.float32,
    ) as loader:
        batch = next(iter(loader))
    return replace(
        batch, images=batch.images.cpu(), views=tuple(view.cpu() for view in batch.views)
    )
