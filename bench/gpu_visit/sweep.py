"""Step: our loader over batch sizes, batches ahead and shares for the JPEG engine, one of them at a time."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from bench.compare.usage import Busy, mean_of
from bench.gpu_visit.flow import slice_rate, summary
from bench.gpu_visit.folder import write_folder
from bench.gpu_visit.loop import endless, loader_for
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Notes, Scale
from gpu_aug import Recipe

_ROUNDS = 3


@dataclass(frozen=True)
class Choice:
    """What a loader is given.

    Attributes:
        batch_size: Images in a batch.
        prefetch: Batches that DALI works on ahead.
        hw_decoder_load: Share of the JPEGs for the JPEG engine; None leaves it to DALI, which takes 0.65.
    """

    batch_size: int = 128
    prefetch: int = 2
    hw_decoder_load: float | None = None


FACTORS: dict[str, Sequence[Any]] = {
    "batch_size": (32, 64, 256, 512),
    "prefetch": (1, 3, 4),
    "hw_decoder_load": (0.0, 0.3, 0.5, 0.65, 0.8, 0.9, 1.0),
}
_REHEARSED: dict[str, Sequence[Any]] = {
    "batch_size": (4,),
    "prefetch": (1,),
    "hw_decoder_load": (0.5,),
}


def sweep(scale: Scale, data: Path, notes: Notes) -> None:
    """Each choice beside the default, in turns, so that the ratio is of the same seconds.

    The row of the default's own share, 0.65, is the control: it tells how much a ratio is worth.
    """
    size, (count, _) = next(iter(scale.pictures.items()))
    default = Choice(batch_size=min(Choice().batch_size, scale.batch_size))
    with TemporaryDirectory(prefix="gpu-aug-") as folder, ExitStack() as stack:
        write_folder(photographs(data, size, count), Path(folder))
        usual = stack.enter_context(opened(default, scale, Path(folder)))
        defaults: list[float] = []
        for factor, values in (FACTORS if scale.on_gpu else _REHEARSED).items():
            for value in values:
                with notes.attempt(f"{factor} {value}") as row:
                    choice = replace(default, **{factor: value})
                    row |= vars(choice)
                    with opened(choice, scale, Path(folder)) as other:
                        found = _in_turns(usual, other, scale)
                    defaults += found.pop("default")
                    row |= found
        notes.put(default={**vars(default), **summary(defaults or [0.0])})
    notes.put(headline=_headline(notes))


@contextmanager
def opened(choice: Choice, scale: Scale, root: Path) -> Iterator[Callable[[float], float]]:
    """A loader that gives images per second over so many seconds."""
    with _engine_load(choice.hw_decoder_load, scale):
        loader = loader_for(
            scale,
            root,
            "dali",
            batch_size=choice.batch_size,
            prefetch=choice.prefetch,
            recipe=Recipe.imagenet_train(size=scale.side),
        )
        with loader:
            batches = endless(loader)
            for _ in range(2):  # the pipeline is built, and the kernels are compiled
                next(batches)
            yield partial(_flat_out, batches, choice, scale)


def _flat_out(batches: Iterator[Any], choice: Choice, scale: Scale, seconds: float) -> float:
    return slice_rate(
        lambda: next(batches),
        choice.batch_size,
        seconds,
        scale.device,
        discard=choice.prefetch + 3 if scale.on_gpu else 1,
    )


@contextmanager
def _engine_load(load: float | None, scale: Scale) -> Iterator[None]:
    """Let the pipelines that are built meanwhile give this share to the JPEG engine: Loader has no such argument."""
    if load is None:
        yield
        return
    from nvidia.dali import fn

    name = "image" if scale.on_gpu else "image_slice"
    changed = partial(getattr(fn.decoders, name), hw_decoder_load=load)
    with mock.patch.object(fn.decoders, name, changed):
        yield


def _in_turns(
    usual: Callable[[float], float], other: Callable[[float], float], scale: Scale
) -> dict[str, Any]:
    """Rates of both in every round; "times_default" is the median of the rounds' ratios."""
    pairs, looks = [], []
    for _ in range(_ROUNDS):
        default = usual(scale.seconds / 4)
        with Busy(scale.device) as busy:
            pairs.append((default, other(scale.seconds / 4)))
        looks.append(busy)
    ratios = [mine / default for default, mine in pairs]
    return {
        **mean_of(looks),
        **summary([mine for _, mine in pairs]),
        "default": [default for default, _ in pairs],
        "times_default": round(median(ratios), 3),
        "times_default_runs": [round(ratio, 3) for ratio in ratios],
    }


def _headline(notes: Notes) -> str:
    default = notes.found["default"]
    parts = [
        f"batch_size {default['batch_size']}, prefetch {default['prefetch']}, DALI's own share for the JPEG engine: "
        f"{default['images_per_second']:.0f} images/s"
    ]
    for factor in FACTORS:
        ratios = {
            name: row["times_default"]
            for name, row in notes.found.items()
            if name.startswith(factor) and "times_default" in row
        }
        best = max(ratios, key=ratios.__getitem__, default="")
        if best and ratios[best] > 1:
            parts.append(f"{best}: {ratios[best]} times that")
        else:
            parts.append(f"no other {factor} is faster" if best else f"{factor}: nothing measured")
    return "; ".join(parts)
