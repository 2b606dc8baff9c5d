"""Draw clips: original frames, and augmented frames of several epochs or of every decoder and engine."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dali_pipes.preview.chosen_batches import (
    Drawn,
    as_schedule,
    distance_words,
    draw_chosen,
    draw_pairs,
    layers_of,
    preview_loader,
    short_name,
)
from dali_pipes.preview.images import about
from dali_pipes.preview.pictures import Picture, label_words, to_pictures
from dali_pipes.video.clips import Clips
from dali_pipes.video.color import to_rgb
from dali_pipes.video.decode import read_frames
from dali_pipes.video.render_clip import read_pictures
from gpu_aug import Recipe, Schedule, Views
from gpu_aug.engines.choose import EngineChoice
from readers import BadSample, Sample
from readers.video.frame_folder import FRAMES_CODEC

_HEIGHT_MAX = 256  # pixels; larger frames are shrunk at once, because all clips of a page are in memory together


@dataclass(frozen=True)
class Strip:
    """A row of frames of one clip: its original frames, or those of one view.

    Attributes:
        name: Title, such as "view 1".
        frames: T pictures of one size.
        words: Descriptions of the draws, or of the difference from another strip.
    """

    name: str
    frames: list[Picture]
    words: Sequence[str] = ()


@dataclass(frozen=True)
class ClipPictures:
    """The pictures of a clip in an epoch.

    Attributes:
        key: Key of the video.
        label: Name of the clip's class; "" if it has no label.
        epoch: The epoch.
        numbers: int64 [T], indices of the frames in presentation order; an index is repeated in place of a damaged
            frame, or of one after the end of the video.
        seconds: float64 [T], display time of each frame, counted from the first frame of the video.
        source: The frames before augmentation, T pictures of one size.
        views: The augmented frames of each view.
        made_by: A text with decoder, engine and device; "" if the strips differ in these.
    """

    key: str
    label: str
    epoch: int
    numbers: NDArray[np.int64]
    seconds: NDArray[np.float64]
    source: list[Picture]
    views: Sequence[Strip]
    made_by: str = ""


def clip_pictures(
    clips: Clips,
    recipe: Recipe | Views | Schedule,
    *,
    indices: Sequence[int] | None = None,
    numbers: Sequence[int] | None = None,
    seed: int = 0,
    epochs: Sequence[int] = (0,),
    engine: EngineChoice = "auto",
) -> list[ClipPictures]:
    """Return clips before augmentation, and as training with this seed sees them in several epochs.

    Args:
        clips: Clips of the videos to show; they may include further videos.
        recipe: The recipe; a schedule has one for each epoch.
        indices: The clips to show, without duplicates; None shows all.
        numbers: If `clips` is a selection, the index in the training's dataset of each clip; random numbers are drawn by it.
        seed: Seed of the frames and of the draws.
        epochs: The epochs to show.
        engine: The engine, as for Loader.

    Returns:
        Each clip in each epoch, ordered by clip.

    Raises:
        BadSampleError: A clip cannot be read or decoded.
    """
    chosen = list(range(len(clips)) if indices is None else indices)
    with preview_loader(clips, recipe, seed=seed, engine=engine) as loader:
        drawn = [draw_chosen(loader, chosen, epoch, numbers) for epoch in epochs]
        made_by = about(loader)
    of_epoch = [_pictures(clips, one, _strips(one, "augmented"), made_by) for one in drawn]
    return [one for of_clip in zip(*of_epoch, strict=True) for one in of_clip]


def _strips(drawn: Drawn, name: str, first: tuple[str, Drawn] | None = None) -> list[list[Strip]]:
    """Return the strips of each clip of a batch, one per view.

    Args:
        drawn: The batch.
        name: Title of the strips; with several views, the index of the view is added.
        first: Name and batch of another pair of decoder and engine, with equal draws, from which the strips then
            describe the difference.
    """
    strips: list[list[Strip]] = [[] for _ in drawn.rows]
    others = list(layers_of(first[1])) if first is not None else []
    for number, layer in enumerate(layers_of(drawn)):
        title = f"{name}, {layer.title}" if layer.title else name
        for row, frames in enumerate(layer.images):
            words = drawn.words(layer, row)
            if first is not None:
                other = others[number].images[row]
                words = [distance_words(frames, other, first[0])]
            strips[row].append(Strip(title, to_pictures(frames), words))
    return strips


def _pictures(
    clips: Clips, drawn: Drawn, strips: Sequence[Sequence[Strip]], made_by: str = ""
) -> list[ClipPictures]:
    """Combine the clips of an epoch with the strips that are shown below them."""
    batch = drawn.batch
    assert batch.frames is not None
    assert batch.seconds is not None
    shown = batch.frames.numpy()
    return [
        ClipPictures(
            key=entry.key.rpartition("#")[0],
            label=label_words(getattr(entry, "label", -1), clips.class_names),
            epoch=drawn.epoch,
            numbers=shown[row],
            seconds=batch.seconds[row].numpy(),
            source=_source(clips, entry, shown[row]),
            views=strips[row],
            made_by=made_by,
        )
        for row, entry in enumerate(clips.fetch(batch.indices.numpy()))
    ]


def _source(clips: Clips, entry: Sample | BadSample, frames: NDArray[np.int64]) -> list[Picture]:
    """Return the original frames of a clip with indices int64 [T]; large frames are shrunk."""
    [part] = clips.parts(entry.index)
    assert isinstance(entry, Sample)  # its frames were drawn before, so it is not bad
    if part.info.codec == FRAMES_CODEC:
        decoded = read_pictures(part, np.unique(frames))
    else:
        assert entry.video is not None
        decoded = read_frames(entry.video, part.info, frames)
    shrunk: dict[int, Picture] = {}
    for frame, picture in decoded:
        rgb = picture if isinstance(picture, np.ndarray) else to_rgb(picture, part.info)
        image = Image.fromarray(rgb)
        image.thumbnail((image.width, _HEIGHT_MAX))
        shrunk[frame] = np.array(image)  # a copy: the next frame overwrites `rgb`
    return [shrunk[frame] for frame in frames.tolist()]


def clip_engines(
    clips: Clips,
    recipe: Recipe | Views | Schedule,
    *,
    indices: Sequence[int] | None = None,
    numbers: Sequence[int] | None = None,
    seed: int = 0,
    epoch: int = 0,
) -> tuple[list[ClipPictures], dict[str, str]]:
    """Return clips before augmentation, and as every decoder and engine makes them: one strip per view and pair.

    Args:
        clips: Clips of the videos to show; they may include further videos.
        recipe: The recipe.
        indices: The clips to show, without duplicates; None shows all.
        numbers: If `clips` is a selection, the index in the training's dataset of each clip.
        seed: Seed of the frames and of the draws.
        epoch: The epoch of the draws.

    Returns:
        The clips; and for each pair that cannot make them, the reason by name of the pair.

    Raises:
        LoaderError: No pair can make the clips.
    """
    chosen = list(range(len(clips)) if indices is None else indices)
    drawn, missing = draw_pairs(
        clips, as_schedule(recipe), chosen, epoch, seed=seed, numbers=numbers
    )
    first, *_ = drawn.items()
    of_pair = [
        _strips(one, short_name(name), None if name == first[0] else first)
        for name, one in drawn.items()
    ]
    strips = [[strip for pair in of_pair for strip in pair[row]] for row in range(len(chosen))]
    return _pictures(clips, first[1], strips), missing
