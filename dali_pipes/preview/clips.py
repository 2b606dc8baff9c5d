"""Clips as pictures: their frames, and what the recipe makes of these in several epochs, or on every engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dali_pipes.preview.cells import label_words
from dali_pipes.preview.chosen_batches import (
    Drawn,
    as_schedule,
    distance_words,
    draw_chosen,
    draw_pairs,
    layers_of,
    preview_loader,
)
from dali_pipes.preview.images import about
from dali_pipes.preview.pairs import short_name
from dali_pipes.preview.pictures import Picture, to_pictures
from dali_pipes.video.clips import Clips
from gpu_aug import Recipe, Resize, Schedule, Views
from gpu_aug.engines.choose import EngineChoice
from gpu_aug.frame_times import drawn_speed, frame_order
from readers.video import VideoInfo

_HEIGHT_MAX = 256  # of what is drawn; larger frames are shrunk


@dataclass(frozen=True)
class Strip:
    """The frames of a clip in one form.

    Attributes:
        name: What they are, such as "view 1".
        frames: T pictures of one size.
        words: What was drawn, or how far they are from others.
    """

    name: str
    frames: list[Picture]
    words: Sequence[str] = ()


@dataclass(frozen=True)
class ClipPictures:
    """A clip in one epoch, ready to be drawn.

    Attributes:
        key: Key of the video.
        label: The name of its class, "" where it has none.
        epoch: The epoch.
        numbers: int64 [T], the frames that are shown, by their numbers in the order of presentation.
        seconds: float64 [T], when each is shown, after the first frame of the video.
        marks: For each frame "" or why it stands for another one.
        source: The frames themselves, T pictures of one size.
        views: What the recipe makes of them.
        made_by: The engine, where it ran, and the decoder; "" where the views have several.
    """

    key: str
    label: str
    epoch: int
    numbers: NDArray[np.int64]
    seconds: NDArray[np.float64]
    marks: Sequence[str]
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
    """Load clips as they are, and as training with this seed sees them in each of several epochs.

    Args:
        clips: Clips of the videos that are to be drawn, or of more.
        recipe: What is made of them. Of a schedule each epoch has its own.
        indices: Which clips are drawn, each once; None is all.
        numbers: As which samples of the training's dataset each of `clips` is drawn; None where these are all of it.
        seed: Seed of the frames and of the draws.
        epochs: Which epochs are drawn.
        engine: As for Loader.

    Returns:
        Each clip in each epoch, clip by clip.

    Raises:
        BadSampleError: One of them cannot be read or decoded.
    """
    chosen = list(range(len(clips)) if indices is None else indices)
    with preview_loader(clips, recipe, seed=seed, engine=engine) as loader:
        drawn = [draw_chosen(loader, chosen, epoch, numbers) for epoch in epochs]
        made_by = about(loader)
    of_epoch = [_pictures(clips, one, _strips(one, "augmented"), made_by) for one in drawn]
    return [one for of_clip in zip(*of_epoch, strict=True) for one in of_clip]


def _strips(drawn: Drawn, name: str, first: tuple[str, Drawn] | None = None) -> list[list[Strip]]:
    """Return, for each clip of a batch, what every view made of it.

    Args:
        drawn: The batch.
        name: Of a strip whose recipe has one view.
        first: Another batch of the same draws and its name; then the distance from it is said, not the draws.
    """
    strips: list[list[Strip]] = [[] for _ in drawn.rows]
    others = list(layers_of(first[1])) if first is not None else []
    for number, layer in enumerate(layers_of(drawn)):
        title = f"{name}, {layer.title}" if layer.title else name
        for row, frames in enumerate(layer.images):
            words = drawn.words(layer, row)
            if first is not None:
                other = others[number].images[row]
                words = [" ".join(distance_words(frames, other, first[0]))]
            strips[row].append(Strip(title, to_pictures(frames), words))
    return strips


def _pictures(
    clips: Clips, drawn: Drawn, strips: Sequence[Sequence[Strip]], made_by: str = ""
) -> list[ClipPictures]:
    """Put the clips of an epoch together with the strips that are shown below each of them."""
    batch = drawn.batch
    assert batch.frames is not None
    assert batch.seconds is not None
    indices, shown = batch.indices.numpy(), batch.frames.numpy()
    marks, sources = _marks(clips, drawn), _sources(clips, indices, shown)
    return [
        ClipPictures(
            key=entry.key.rpartition("#")[0],
            label=label_words(getattr(entry, "label", -1), clips.class_names),
            epoch=drawn.epoch,
            numbers=shown[row],
            seconds=batch.seconds[row].numpy(),
            marks=marks[row],
            source=sources[row],
            views=strips[row],
            made_by=made_by,
        )
        for row, entry in enumerate(clips.fetch(indices))
    ]


def _marks(clips: Clips, drawn: Drawn) -> list[list[str]]:
    """Say of each frame of each clip whether it stands for a damaged one, or for one behind the end of the video."""
    fetcher, batch = drawn.fetcher, drawn.batch
    assert batch.frames is not None
    first, draws, indices = drawn.views.recipes[0], drawn.draws[0], batch.indices.numpy()
    speed = drawn_speed(first, draws)[drawn.rows]
    order = frame_order(first, draws, clips.num_frames)[drawn.rows]
    identities = fetcher.identities(indices, np.zeros_like(indices))
    how = (fetcher.seed, drawn.epoch, indices, identities, speed)
    wanted = np.take_along_axis(clips.choose(*how), order, axis=1)
    padded = np.take_along_axis(clips.padded(*how), order, axis=1)
    return [
        [
            f"held: #{number} does not decode" if number != shown else "padding" if pad else ""
            for number, shown, pad in zip(*row, strict=True)
        ]
        for row in zip(wanted.tolist(), batch.frames.tolist(), padded.tolist(), strict=True)
    ]


def _sources(
    clips: Clips, indices: NDArray[np.int64], frames: NDArray[np.int64]
) -> list[list[Picture]]:
    """Return the frames themselves, shrunk where they are large."""
    given = _Given(clips, dict(zip(indices.tolist(), frames, strict=True)))
    sources = []
    for index, video in zip(indices.tolist(), clips.videos(indices).tolist(), strict=True):
        info = clips.info(video)
        assert isinstance(info, VideoInfo)  # its frames were drawn before
        scale = min(1.0, _HEIGHT_MAX / info.height)
        size = (round(info.height * scale), max(1, round(info.width * scale)))
        with preview_loader(given, Recipe([Resize(size)]), seed=0, decoder="cpu") as loader:
            [images] = draw_chosen(loader, [index], 0).batch.images
        sources.append(to_pictures(images))
    return sources


class _Given(Clips):
    """Clips of frames that are given: by the clip's index, int64 [T]."""

    def __init__(self, clips: Clips, frames: dict[int, NDArray[np.int64]]) -> None:
        self.__dict__.update(clips.__dict__)
        self._given = frames

    def choose(
        self, seed: int, epoch: int, indices: NDArray[np.int64], *drawn: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return those."""
        del seed, epoch, drawn
        return np.stack([self._given[index] for index in indices.tolist()])


def clip_engines(
    clips: Clips,
    recipe: Recipe | Views | Schedule,
    *,
    indices: Sequence[int] | None = None,
    numbers: Sequence[int] | None = None,
    seed: int = 0,
    epoch: int = 0,
    on_pair: Callable[[str], None] = lambda _: None,
) -> tuple[list[ClipPictures], dict[str, str]]:
    """Load clips as they are, and as every decoder and engine makes them: a strip for each view of each pair.

    Args:
        clips: As for `clip_pictures`, and so are `recipe`, `indices`, `numbers` and `seed`.
        recipe: What is made of them.
        indices: Which clips are drawn, each once; None is all.
        numbers: As which samples each of `clips` is drawn.
        seed: Seed of the frames and of the draws.
        epoch: Whose draws they are.
        on_pair: Called with the name of each pair before it is drawn.

    Returns:
        The clips, and why a pair is not there, by its name.

    Raises:
        LoaderError: Not one pair can make them.
    """
    chosen = list(range(len(clips)) if indices is None else indices)
    drawn, missing = draw_pairs(
        clips, as_schedule(recipe), chosen, epoch, seed=seed, on_pair=on_pair, numbers=numbers
    )
    first, *_ = drawn.items()
    of_pair = [
        _strips(one, short_name(name), None if name == first[0] else first)
        for name, one in drawn.items()
    ]
    strips = [[strip for pair in of_pair for strip in pair[row]] for row in range(len(chosen))]
    return _pictures(clips, first[1], strips), missing
