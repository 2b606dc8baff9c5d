"""Measuring all ceilings of an input pipeline in a given time."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.output.errors import BenchError
from bench.tune.ceilings import Ceilings, Setting
from bench.tune.ceilings_cores import CoresMeter
from bench.tune.facts import Facts, look_at_facts
from bench.tune.stages_decode import Decoding, Maker, by_kind, find_changes
from bench.tune.stages_held import Parts, make_parts, require_images
from bench.tune.stages_measure import ROUNDS, StageTurns
from bench.tune.stages_turns import Threads
from bench.tune.storage_measure import measure_storage
from readers import Dataset, Sample
from readers.cores import usable_cores

Progress = Callable[[str, float], None]
"""Gets what is measured now, and the share of the time that is over, 0 to 1."""

_SHARES = {"facts": 0.08, "storage": 0.3, "cores": 0.06, "stages": 0.5}  # what is left prepares
_SECONDS_PER_MEGAPIXEL = 0.012  # of decoding, about
_PREPARED_SHARE = 0.04
_FEWEST, _MOST = 12, 192


def measure_ceilings(
    dataset: Dataset,
    recipe: Any,
    *,
    source: str | None = None,
    seconds: float = 30.0,
    on_progress: Progress = lambda *_: None,
    **settings: Any,
) -> Ceilings:
    """Measure what storage and every stage of a loader give on their own.

    Args:
        dataset: The data.
        recipe: As for Loader.
        source: Path, pattern or URL of the data: it tells where they lie and lets reads be made cold.
        seconds: About how long it takes; what is compiled for the first time and a few large images take longer.
        on_progress: Told what is measured.
        settings: Arguments of Loader; ``batch_size`` is needed.

    Raises:
        BenchError: The data are clips or a stream, hold no image, or there is no batch_size.
        dali_pipes.LoaderError: A setting that cannot work.

    Example:
        >>> from bench.tune.ceilings_measure import measure_ceilings
        >>> photos = open_dataset("photos/")
        >>> found = measure_ceilings(photos, Recipe.imagenet_train(size=64), source="photos/", seconds=1, batch_size=8)
        >>> found.facts.kinds, found.storage.one_file_each
        ({'baseline JPEG': 36}, True)
    """
    began = time.monotonic()
    if not isinstance(settings.get("batch_size"), int) or settings["batch_size"] < 1:
        raise BenchError(
            f"batch_size must be a whole number from 1 on, got {settings.get('batch_size')!r}: say how many images a "
            "training step gets"
        )
    require_images(dataset)
    done = 0.0

    def part(name: str) -> Callable[[float], None]:
        start = done
        return lambda share: on_progress(name, start + share * _SHARES[name])

    part("facts")(0.0)
    facts, samples = look_at_facts(dataset, source=source, seconds=seconds * _SHARES["facts"])
    done += _SHARES["facts"]
    storage = measure_storage(
        dataset,
        facts,
        source=source,
        batch_size=settings["batch_size"],
        seconds=seconds * _SHARES["storage"],
        on_progress=part("storage"),
    )
    done += _SHARES["storage"]
    held = choose_held(facts, samples, seconds)
    parts = make_parts(dataset, held, recipe, settings)
    cores = CoresMeter(usable_cores())
    cores.turn(seconds * _SHARES["cores"] / 3)
    with Threads(parts.setup.num_threads) as threads:
        chunk = seconds * _SHARES["stages"] / ROUNDS / 40
        maker = Maker(dataset, recipe, settings, chunk)
        kinds, changes, skipped = _decodings(maker, parts, held, facts)
        turns = StageTurns(parts, kinds, changes, threads)
        turns.prepare()
        cores.turn(seconds * _SHARES["cores"] / 3)
        turns.measure(seconds * _SHARES["stages"], part("stages"))
        cores.turn(seconds * _SHARES["cores"] / 3)
    on_progress("done", 1.0)
    return Ceilings(
        facts,
        _setting(parts, settings["batch_size"]),
        cores.cores,
        storage,
        turns.costs(facts.shares),
        {kind: one.cost for kind, one in kinds.items()},
        {name: change.stored for name, change in changes.items()},
        skipped | turns.skipped,
        time.monotonic() - began,
    )


def choose_held(facts: Facts, samples: Sequence[Sample], seconds: float) -> list[Sample]:
    """Choose samples to measure on: fewer where they are large, all kinds as they are mixed and each at least twice."""
    per_image = max(facts.megapixels.mean, 0.01) * _SECONDS_PER_MEGAPIXEL
    count = min(max(int(seconds * _PREPARED_SHARE / per_image), _FEWEST), _MOST, len(samples))
    held: list[Sample] = []
    for kind, some in by_kind(samples).items():
        held += some[: max(round(count * facts.shares.get(kind, 0.0)), 2)]
    return held


def _decodings(
    maker: Maker, parts: Parts, held: Sequence[Sample], facts: Facts
) -> tuple[dict[str, Decoding], dict[str, Any], dict[str, str]]:
    """What decodes, by kind of image; what decodes in other ways; and why the others do not."""
    setup = parts.setup
    if setup.choice.decoder == "dali":
        why = "DALI decodes, and its decoder was measured as a whole"
        return {}, {}, dict.fromkeys(("tile", "fast", "smaller"), why)
    kinds = {kind: maker.decoding(some) for kind, some in by_kind(held).items()}
    if not setup.fetcher.images.is_usual:
        why = "it is for RGB images of 8 bits, one per sample"
        return kinds, {}, dict.fromkeys(("tile", "fast", "smaller"), why)
    changes, skipped = find_changes(maker, held, facts.shares)
    return kinds, dict(changes), skipped


def _setting(parts: Parts, batch_size: int) -> Setting:
    setup = parts.setup
    return Setting(
        batch_size,
        setup.num_threads,
        setup.options.prefetch,
        setup.choice.device.type,
        setup.choice.decoder,
        setup.choice.engine,
    )
