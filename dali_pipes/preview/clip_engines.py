"""Strips of what every decoder and engine makes of the same frames with the same draws."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.preview.canvas import viewable
from dali_pipes.preview.clips import ClipPictures, Strip, clip_loader, pictures_of, strips_of
from dali_pipes.preview.drawn import Drawer, Drawn
from dali_pipes.preview.engines import distance_words, require_decoder
from dali_pipes.preview.pairs import DECODERS, ENGINES, pair_name
from dali_pipes.video.clips import Clips
from gpu_aug import EngineError, Recipe, Schedule, Views


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
