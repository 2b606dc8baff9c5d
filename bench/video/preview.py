"""A picture of clips: their frames, and below them what the recipe makes of these."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from bench.annotate import Picture
from bench.arguments import check_writable, recipe_from
from bench.errors import BenchError
from bench.preview import to_pictures, viewable
from bench.video.clips import ClipSettings
from bench.video.plan import sound_videos
from dali_pipes import Batch, Loader
from dali_pipes.video.clips import Clips
from gpu_aug import Recipe, Resize, Views
from readers.video import VideoInfo

_HEIGHT_MAX = 256  # of what is drawn; larger frames are shrunk


@dataclass(frozen=True)
class ClipPictures:
    """A clip, ready to be drawn.

    Attributes:
        key: Key of the video.
        label: The name of its class, "" where it has none.
        numbers: int64 [T], its frames, places in the order of presentation.
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


def draw_clips(
    source: str,
    recipe: str,
    settings: ClipSettings,
    out: Path,
    *,
    count: int,
    seed: int,
    animate: Path | None = None,
    format: str | None = None,
) -> None:
    """Write strips of frames: those of each clip, and below them every view that the recipe makes.

    Args:
        source: Whatever `readers.open_dataset` takes.
        recipe: A preset or a file.
        settings: How clips are taken out of videos.
        out: The picture.
        count: Clips, each of another video.
        seed: Seed of the frames and of the draws.
        animate: Gets the first clip as a moving picture, before and after.
        format: Format of the source, if its name does not tell it.

    Raises:
        BenchError: Nothing can be drawn, or not there.
    """
    from bench.video.animation import MOVING, write_animation
    from bench.video.strips import draw_strips

    _check(out, (".png", ".jpg", ".jpeg", ".webp"), "picture")
    if animate is not None:
        _check(animate, MOVING, "moving picture")
    if count < 1:
        raise BenchError(f"count must be 1 or more, got {count}: leave it out to get 4")
    parsed = recipe_from(recipe)
    views = parsed if isinstance(parsed, Views) else Views([parsed])
    console = Console()
    videos, left_out = sound_videos(source, settings, most=count, format=format)
    for fault in left_out:
        console.print(Text(f"not drawn: {fault}", style="yellow"), soft_wrap=True)
    clips = settings.clips(videos, sampling="random")
    drawn = list(clip_pictures(clips, views, seed))
    draw_strips(drawn).save(out)
    console.print(f"written: {out}", soft_wrap=True)
    if animate is not None:
        write_animation(drawn[0], animate)
        console.print(f"written: {animate}", soft_wrap=True)


def clip_pictures(clips: Clips, views: Views, seed: int) -> Iterator[ClipPictures]:
    """Load all clips: as they are, and as the recipe makes them of the same frames."""
    batch = _load(clips, views, seed)
    augmented = [
        [to_pictures(viewable(clip.float(), recipe)) for clip in view]
        for view, recipe in zip(batch.views, views.recipes, strict=True)
    ]
    indices = np.arange(len(clips))
    numbers = clips.frames(seed, 0, indices, np.zeros_like(indices))
    sources = _sources(clips, seed)
    for row, entry in enumerate(clips.fetch(indices)):
        info, label = clips.info(row), int(getattr(entry, "label", -1))
        assert isinstance(info, VideoInfo)
        yield ClipPictures(
            key=entry.key.rpartition("#")[0],
            label=clips.class_names[label] if 0 <= label < len(clips.class_names) else "",
            numbers=numbers[row],
            seconds=info.seconds[numbers[row]],
            source=sources[row],
            views=[view[row] for view in augmented],
        )


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


def _check(path: Path, endings: tuple[str, ...], what: str) -> None:
    check_writable(path)
    if path.suffix.lower() not in endings:
        raise BenchError(f"a {what}'s name must end in {', '.join(endings)}, got {path}")
