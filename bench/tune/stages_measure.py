"""Measuring what every stage costs, in turns, on samples that lie in memory."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from bench.compare.timer import Rate, rotated
from bench.micro.turns import Turns
from bench.tune.stages import StageCost
from bench.tune.stages_dali import DaliDecoding
from bench.tune.stages_decode import LARGEST_CHUNK, Change, Decoding
from bench.tune.stages_held import Parts
from bench.tune.stages_turns import Threads, Timed, Work
from bench.tune.stages_work import (
    augment_work,
    draw_work,
    hand_over_work,
    header_work,
    resize_work,
    target_work,
    transfer_work,
)

ROUNDS = 5


class StageTurns:
    """Everything that is measured in turns.

    Args:
        parts: A loader's parts, on samples in memory.
        kinds: Decoding them, by kind of image.
        changes: Decoding some of them in other ways, by name.
        threads: Threads that work.

    Attributes:
        skipped: By stage, why it is not measured.
    """

    def __init__(
        self,
        parts: Parts,
        kinds: Mapping[str, Decoding | DaliDecoding],
        changes: Mapping[str, Change],
        threads: Threads,
    ) -> None:
        self.skipped: dict[str, str] = {}
        self._parts, self._kinds, self._changes, self._threads = parts, kinds, changes, threads
        self._works = self._found_works()
        self._timed = {name: Timed() for name in self._works}

    def prepare(self) -> None:
        """Do everything once, which compiles what it needs."""
        for decoding in self._decodings():
            decoding.prepare(self._threads)
        for work in self._works.values():
            self._threads.once(work)

    def measure(self, seconds: float, on_progress: Callable[[float], None]) -> None:
        """Give everything its turns.

        Args:
            seconds: Time for all of it; every turn is finished, and there are at least two of each.
            on_progress: Called with the share of the time that is over.
        """
        turns: list[Callable[[float], None]] = [
            *(lambda each, one=one: one.turn(self._threads, each) for one in self._decodings()),
            *(
                lambda each, name=name: self._threads.turn(
                    self._works[name], self._timed[name], each
                )
                for name in self._works
            ),
        ]
        each = seconds / (ROUNDS * len(turns) * 2)
        began = time.monotonic()
        for number in range(ROUNDS):
            for turn in rotated(turns, number):
                turn(each)
                on_progress(min((time.monotonic() - began) / seconds, 1.0))
            if number and time.monotonic() - began > seconds * (number + 1) / (number + 2):
                break

    def costs(self, shares: Mapping[str, float]) -> tuple[StageCost, ...]:
        """What every stage costs, in the order of a batch.

        Args:
            shares: Of kinds of images among all.
        """
        found = {name: self._cost(name) for name in self._works}
        if self._kinds:
            found["decode"] = mixed(self.decode_costs(), shares)
        order = (
            "header",
            "draw",
            "decode",
            "resize",
            "targets",
            "transfer",
            "augment",
            "hand_over",
        )
        return tuple(found[name] for name in order if name in found)

    def decode_costs(self) -> dict[str, StageCost]:
        """What decoding costs by kind of image; what DALI's pipeline does besides is taken off."""
        also = sum(self._timed[name].cpu_seconds for name in ("header", "draw"))
        return {
            kind: _without(one.cost, also) if isinstance(one, DaliDecoding) else one.cost
            for kind, one in self._kinds.items()
        }

    def _decodings(self) -> list[Decoding | DaliDecoding]:
        changed = [
            one for change in self._changes.values() for one in (change.before, change.after)
        ]
        return [*self._kinds.values(), *changed]

    def _found_works(self) -> dict[str, Work]:
        parts, on_gpu = self._parts, self._parts.engines.device.type == "cuda"
        by_dali = parts.setup.choice.decoder == "dali"
        works: dict[str, Work | None] = {
            "header": header_work(parts),
            "draw": draw_work(parts),
            "targets": target_work(parts),
            "transfer": None if by_dali else transfer_work(parts),
            "augment": augment_work(parts, LARGEST_CHUNK // 2),
            "hand_over": hand_over_work(parts),
        }
        if by_dali:
            self.skipped["resize"] = "DALI resizes what it decodes"
        elif parts.fetcher.images.is_usual:
            works["resize"] = resize_work(parts)
        else:
            self.skipped["resize"] = (
                "images of other kinds than RGB of 8 bits are resized while they are decoded"
            )
        if works["targets"] is None:
            self.skipped["targets"] = "no sample has masks, boxes or keypoints"
        if not on_gpu:
            self.skipped["transfer"] = "batches stay on the CPU"
        elif by_dali:
            self.skipped["transfer"] = (
                "DALI copies encoded images to the GPU, which is a part of its decoding"
            )
        return {name: work for name, work in works.items() if work is not None}

    def _cost(self, name: str) -> StageCost:
        alone, together, cpu = self._timed[name].rates
        on_gpu = self._parts.engines.device.type == "cuda"
        return StageCost(
            name,
            cpu,
            alone,
            together,
            pixels=_finished_pixels(self._parts) if name in ("resize", "augment") else 0.0,
            part_of="decode" if name == "resize" else "",
            on_device=on_gpu and name in ("transfer", "augment"),
            one_thread=name == "hand_over",
        )


def _without(cost: StageCost, seconds: float) -> StageCost:
    """A cost without so many seconds of a core per image, which are counted elsewhere; a tenth of it stays at least."""
    runs = tuple(max(run - seconds, run / 10) for run in cost.cpu_seconds.runs)
    return replace(cost, cpu_seconds=Turns(runs))


def mixed(costs: Mapping[str, StageCost], shares: Mapping[str, float]) -> StageCost:
    """What decoding costs where kinds of images are mixed in these shares; kinds that were not measured are left out."""
    total = sum(shares.get(kind, 0.0) for kind in costs)
    weights = {kind: shares.get(kind, 0.0) / total for kind in costs}
    on_device = any(cost.on_device for cost in costs.values())

    def mean(values: Sequence[float]) -> float:
        return sum(weights[kind] * value for kind, value in zip(costs, values, strict=True))

    def rounds(runs_of: Callable[[StageCost], Sequence[float]]) -> list[tuple[float, ...]]:
        return list(zip(*(runs_of(cost) for cost in costs.values()), strict=False))

    return StageCost(
        "decode",
        Turns(tuple(map(mean, rounds(lambda cost: cost.cpu_seconds.runs)))),
        Rate(tuple(_harmonic(weights, costs, run) for run in rounds(lambda cost: cost.alone.runs))),
        Rate(
            tuple(_harmonic(weights, costs, run) for run in rounds(lambda cost: cost.together.runs))
        ),
        mean([cost.image_bytes for cost in costs.values()]),
        mean([cost.pixels for cost in costs.values()]),
        on_device=on_device,
    )


def _harmonic(
    weights: Mapping[str, float], costs: Mapping[str, StageCost], rates: Sequence[float]
) -> float:
    return 1 / sum(weights[kind] / rate for kind, rate in zip(costs, rates, strict=True))


def _finished_pixels(parts: Parts) -> float:
    sizes = [view.recipe.fixed_size for view in parts.engines.views]
    return fmean(height * width for height, width in sizes)
