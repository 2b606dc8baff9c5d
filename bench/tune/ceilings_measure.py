"""Measuring all ceilings of an input pipeline in a given time."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.output.errors import BenchError
from bench.tune.ceilings import Ceilings, Setting
from bench.tune.ceilings_cores import CoresMeter
from bench.tune.facts import Facts, look_at_facts
from bench.tune.stages_dali import DaliDecoding
from bench.tune.stages_decode import CHANGES, Change, Decoding, Maker, by_kind, find_changes
from bench.tune.stages_held import Parts, make_parts, require_images
from bench.tune.stages_measure import ROUNDS, StageTurns
from bench.tune.stages_turns import Threads
from bench.tune.storage import StorageCeiling
from bench.tune.storage_measure import measure_storage
from dali_pipes.decode.check import check_image
from readers import Dataset, Sample, read_header
from readers.cores import usable_cores

Progress = Callable[[str, float], None]
"""Gets what is measured now, and the share of the time that is over, 0 to 1."""

_SHARES = {"facts": 0.08, "storage": 0.3, "cores": 0.06, "stages": 0.5}  # what is left prepares
_SECONDS_PER_MEGAPIXEL = 0.012  # of decoding, about
_PREPARED_SHARE = 0.04
_FEWEST, _MOST = 12, 192
_OTHER_IMAGES = {"channels", "depth", "images"}  # which OpenCV would decode to something else


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
    _require_batch_size(settings)
    require_images(dataset)
    batch_size = settings["batch_size"]
    facts, samples, storage = _look(dataset, source, batch_size, seconds, on_progress)
    verify = not _OTHER_IMAGES & settings.keys()
    held, damaged = choose_held(facts, samples, seconds, verify=verify)
    parts = make_parts(dataset, held, recipe, settings)
    maker = _maker(dataset, recipe, settings, seconds)
    cores = CoresMeter(usable_cores())
    kinds, changes, skipped = _decodings(maker, parts, held, facts)
    with Threads(parts.setup.threads_of_all) as threads:
        turns = StageTurns(parts, kinds, changes, threads)
        _measure_stages(turns, cores, seconds, on_progress)
    on_progress("done", 1.0)
    return Ceilings(
        facts,
        _setting(parts, batch_size),
        cores.cores,
        storage,
        turns.costs(facts.shares),
        turns.decode_costs(),
        {name: change.stored for name, change in changes.items()},
        skipped | turns.skipped | damaged,
        time.monotonic() - began,
    )


def _require_batch_size(settings: Mapping[str, Any]) -> None:
    given = settings.get("batch_size")
    if not isinstance(given, int) or given < 1:
        raise BenchError(
            f"batch_size must be a whole number from 1 on, got {given!r}: say how many images a training step gets"
        )


def _look(
    dataset: Dataset, source: str | None, batch_size: int, seconds: float, on_progress: Progress
) -> tuple[Facts, Sequence[Sample], StorageCeiling]:
    """Find out what the data are like, with some samples of them, and what storage gives."""
    on_progress("facts", 0.0)
    facts, samples = look_at_facts(dataset, source=source, seconds=seconds * _SHARES["facts"])
    storage = measure_storage(
        dataset,
        facts,
        source=source,
        batch_size=batch_size,
        seconds=seconds * _SHARES["storage"],
        on_progress=lambda share: on_progress("storage", _passed("storage", share)),
    )
    return facts, samples, storage


def _maker(dataset: Dataset, recipe: Any, settings: Mapping[str, Any], seconds: float) -> Maker:
    chunk_seconds = seconds * _SHARES["stages"] / ROUNDS / 40
    most_stored = min(max(int(seconds), _FEWEST // 2), _FEWEST * 2)
    return Maker(dataset, recipe, settings, chunk_seconds, most_stored)


def _measure_stages(
    turns: StageTurns, cores: CoresMeter, seconds: float, on_progress: Progress
) -> None:
    """Give every stage its turns, and find out how many cores there are before, between and after."""
    each = seconds * _SHARES["cores"] / 3
    cores.turn(each)
    turns.prepare()
    cores.turn(each)
    turns.measure(
        seconds * _SHARES["stages"], lambda share: on_progress("stages", _passed("stages", share))
    )
    cores.turn(each)


def _passed(name: str, share: float) -> float:
    """The share of the whole time that is over when a share of one part is."""
    names = list(_SHARES)
    return sum(_SHARES[one] for one in names[: names.index(name)]) + share * _SHARES[name]


def choose_held(
    facts: Facts, samples: Sequence[Sample], seconds: float, *, verify: bool = True
) -> tuple[list[Sample], dict[str, str]]:
    """Choose samples to measure on: fewer where they are large, all kinds as they are mixed and each at least twice.

    Args:
        facts: What the data are like.
        samples: To choose from.
        seconds: Time for all measurements.
        verify: Whether to leave out those that do not decode to RGB of 8 bits.

    Returns:
        Those that decode; and under "damaged" how many do not, in words.

    Raises:
        BenchError: Not one decodes.
    """
    per_image = max(facts.megapixels.mean, 0.01) * _SECONDS_PER_MEGAPIXEL
    count = min(max(int(seconds * _PREPARED_SHARE / per_image), _FEWEST), _MOST, len(samples))
    chosen: list[Sample] = []
    for kind, some in by_kind(samples).items():
        chosen += some[: max(round(count * facts.shares.get(kind, 0.0)), 2)]
    with ThreadPoolExecutor(usable_cores()) as pool:
        faults = list(pool.map(_fault, chosen)) if verify else [""] * len(chosen)
    held = [sample for sample, fault in zip(chosen, faults, strict=True) if not fault]
    bad = [f"{one.key}: {fault}" for one, fault in zip(chosen, faults, strict=True) if fault]
    if not held:
        raise BenchError(f"not one of {len(bad)} images decodes, for example {bad[0]}")
    told = f"{len(bad)} of {len(chosen)} images do not decode and were left out, for example "
    return held, {"damaged": told + bad[0]} if bad else {}


def _fault(sample: Sample) -> str:
    header = read_header(sample.image or b"")
    return check_image(sample.image or b"", (header.height, header.width))


def _decodings(
    maker: Maker, parts: Parts, held: Sequence[Sample], facts: Facts
) -> tuple[Mapping[str, Decoding | DaliDecoding], dict[str, Change], dict[str, str]]:
    """What decodes, by kind of image; what decodes in other ways; and why the others do not."""
    setup = parts.setup
    if setup.choice.decoder == "dali":
        why = "DALI decodes, whose pipeline was measured with images as they are"
        found = {
            kind: DaliDecoding(maker.decoding(some).parts) for kind, some in by_kind(held).items()
        }
        return found, {}, dict.fromkeys(CHANGES, why)
    kinds = {kind: maker.decoding(some) for kind, some in by_kind(held).items()}
    if not setup.fetcher.images.is_usual:
        why = "it is for RGB images of 8 bits, one per sample"
        return kinds, {}, dict.fromkeys(CHANGES, why)
    changes, skipped = find_changes(maker, held, facts.shares)
    return kinds, changes, skipped


def _setting(parts: Parts, batch_size: int) -> Setting:
    setup = parts.setup
    return Setting(
        batch_size,
        setup.threads_of_all,
        setup.options.fewest_ahead,
        setup.choice.device.type,
        setup.choice.decoder,
        setup.choice.engine,
    )
