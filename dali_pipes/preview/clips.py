"""Clips as pictures: their frames, and what the recipe makes of these in several epochs, or on every engine."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.loader import Loader
from dali_pipes.preview.cells import label_words
from dali_pipes.preview.chosen_batches import Drawer, Drawn
from dali_pipes.preview.draw_descriptions import draw_words
from dali_pipes.preview.images import about, as_views, distance_words, require_decoder
from dali_pipes.preview.pairs import DECODERS, ENGINES, pair_name
from dali_pipes.preview.pictures import Picture, to_pictures, viewable
from dali_pipes.video.clips import Clips
from gpu_aug import EngineError, Recipe, Resize, Schedule, Views
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
) -> Iterator[ClipPictures]:
    """Load clips as they are, and as training with this seed sees them in each of several epochs.

    Args:
        clips: Clips of the videos that are to be drawn, or of more.
        recipe: What is made of them. Of a schedule each epoch has its own.
        indices: Which clips are drawn, each once; None is all.
        numbers: As which samples of the training's dataset each of `clips` is drawn; None where these are all of it.
        seed: Seed of the frames and of the draws.
        epochs: Which epochs are drawn.
        engine: As for Loader.

    Yields:
        Each clip in each epoch, clip by clip.

    Raises:
        BadSampleError: One of them cannot be read or decoded.
    """
    chosen = list(range(len(clips)) if indices is None else indices)
    schedule = recipe if isinstance(recipe, Schedule) else Schedule({0: recipe})
    with clip_loader(clips, schedule, seed=seed, engine=engine) as loader:
        drawer = Drawer(loader, None if numbers is None else np.array(numbers, np.int64))
        drawn = [drawer.draw(chosen, epoch) for epoch in epochs]
        made_by = about(loader)
    of_epoch = [pictures_of(clips, one, drawer, strips_of(one), made_by) for one in drawn]
    for of_clip in zip(*of_epoch, strict=True):
        yield from of_clip


def clip_loader(clips: Clips, recipe: Schedule, *, seed: int, **options: Any) -> Loader:
    """Return a loader that makes clips as training does: in its order where they are mixed with their neighbours."""
    mixes = any(as_views(one).group > 1 for one in recipe.recipes)
    return Loader(
        clips,
        recipe,
        batch_size=1,
        device="cpu" if options.get("engine") == "albumentations" else "auto",
        seed=seed,
        shuffle="global" if mixes else "none",
        dtype=torch.float32,
        on_bad_sample="replace",  # a neighbour that is bad; `Drawer` refuses one that is asked for
        **options,
    )


def strips_of(drawn: Drawn) -> list[list[Strip]]:
    """Return, for each clip of a batch, what every view made of it, with what was drawn."""
    many = len(drawn.views) > 1
    strips: list[list[Strip]] = [[] for _ in drawn.rows]
    for view, (recipe, draws) in enumerate(zip(drawn.views.recipes, drawn.draws, strict=True)):
        name = f"view {view + 1}" if many else "augmented"
        for place, row in enumerate(drawn.rows.tolist()):
            frames = to_pictures(viewable(drawn.batch.views[view][place], recipe))
            strips[place].append(Strip(name, frames, draw_words(recipe, draws, row, drawn.keys)))
    return strips


def pictures_of(
    clips: Clips,
    drawn: Drawn,
    drawer: Drawer,
    strips: Sequence[Sequence[Strip]],
    made_by: str = "",
) -> list[ClipPictures]:
    """Put the clips of an epoch together.

    Args:
        clips: The clips.
        drawn: What was loaded.
        drawer: What loaded it.
        strips: For each clip what is shown below its frames.
        made_by: See ClipPictures.
    """
    batch = drawn.batch
    assert batch.frames is not None
    assert batch.seconds is not None
    shown, marks = batch.frames.numpy(), _marks(clips, drawn, drawer)
    sources = _sources(clips, batch.indices.numpy(), shown)
    entries = clips.fetch(batch.indices.numpy())
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
        for row, entry in enumerate(entries)
    ]


def _marks(clips: Clips, drawn: Drawn, drawer: Drawer) -> list[list[str]]:
    """Say of each frame of each clip whether it stands for a damaged one, or for one behind the end of the video."""
    fetcher, batch = drawer.setup.fetcher, drawn.batch
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
    """The frames themselves, shrunk where they are large: one batch for each size of video."""
    sizes = []
    for video in clips.videos(indices).tolist():
        info = clips.info(video)
        assert isinstance(info, VideoInfo)
        scale = min(1.0, _HEIGHT_MAX / info.height)
        sizes.append((round(info.height * scale), max(1, round(info.width * scale))))
    given = _Given(clips, dict(zip(indices.tolist(), frames, strict=True)))
    sources: list[list[Picture]] = [[]] * len(indices)
    for size in dict.fromkeys(sizes):
        rows = [row for row, own in enumerate(sizes) if own == size]
        with clip_loader(given, Schedule({0: Recipe([Resize(size)])}), seed=0) as loader:
            images = Drawer(loader).draw(indices[rows].tolist(), 0).batch.images
        for row, clip in zip(rows, images, strict=True):
            sources[row] = to_pictures(clip)
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
    schedule = recipe if isinstance(recipe, Schedule) else Schedule({0: recipe})
    found: list[tuple[str, Drawn, Drawer]] = []
    missing: dict[str, str] = {}
    for decoder, engine in product(DECODERS, ENGINES):
        name = pair_name(decoder, engine)
        on_pair(name)
        try:
            require_decoder(decoder)
            with clip_loader(clips, schedule, seed=seed, decoder=decoder, engine=engine) as loader:
                own = None if numbers is None else np.array(numbers, np.int64)
                drawer = Drawer(loader, own)
                found.append((name, drawer.draw(chosen, epoch), drawer))
        except (EngineError, MissingPackageError) as error:
            missing[name] = str(error)
    if not found:
        raise LoaderError(
            f"no decoder and engine can make these clips: {next(iter(missing.values()))}"
        )
    _, drawn, drawer = found[0]
    of_pair = [_strips(name, one, found[0]) for name, one, _ in found]
    strips = [[strip for pair in of_pair for strip in pair[place]] for place in range(len(chosen))]
    return pictures_of(clips, drawn, drawer, strips), missing


def _strips(name: str, drawn: Drawn, first: tuple[str, Drawn, Drawer]) -> list[list[Strip]]:
    """Return the strips of a pair for each clip; only the first pair's say what was drawn."""
    short = name.partition("/")[2]
    of_clips = []
    for place, strips in enumerate(strips_of(drawn)):
        own = []
        for view, strip in enumerate(strips):
            words = strip.words
            if name != first[0]:
                recipe = drawn.views.recipes[view]
                mine, other = (
                    viewable(one.batch.views[view][place], recipe) for one in (drawn, first[1])
                )
                words = [" ".join(distance_words(mine, other, first[0]))]
            title = f"{short}, {strip.name}" if len(strips) > 1 else short
            own.append(Strip(title, strip.frames, words))
        of_clips.append(own)
    return of_clips
