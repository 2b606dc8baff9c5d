"""What DALI's decoder gives: its own pipeline, fed from memory, with nothing done to what it decodes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import cycle

import numpy as np
import torch

from bench.tune.stages import StageCost
from bench.tune.stages_held import Parts
from bench.tune.stages_turns import Threads, Timed
from dali_pipes.options import Setup
from dali_pipes.pipeline.make import Production
from dali_pipes.pipeline.pipeline import Producer
from dali_pipes.schedule import Plan
from gpu_aug import Draws
from gpu_aug.compiled.clock import clock
from gpu_aug.engines.engine import Images


class _Nothing:
    """An engine that leaves the memory as it is."""

    name = "nothing"

    def run(self, images: Images, draws: Draws, out: torch.Tensor) -> None:
        """See `gpu_aug.Engine`."""


@dataclass(slots=True)
class DaliDecoding:
    """Decoding by DALI, to be measured; its threads are its own.

    Fetching from memory, headers and draws are in it, too: what these cost must be taken off its seconds of cores.

    Attributes:
        parts: The loader's parts that hold the samples.
        timed: Its turns.
    """

    parts: Parts
    timed: Timed = field(default_factory=Timed)
    _production: Production | None = None

    def prepare(self, threads: Threads) -> None:
        """Make the pipeline and run it once."""
        del threads
        setup = _without_engines(self.parts.setup)
        self._production = Production(setup, self.parts.steps)
        self._run(0.0)

    def turn(self, threads: Threads, seconds: float) -> None:
        """Run the pipeline for some seconds."""
        del threads
        rate, cpu = self._run(2 * seconds)
        self.timed.alone.append(rate)
        self.timed.together.append(rate)
        self.timed.cpu.append(cpu)

    @property
    def cost(self) -> StageCost:
        """What was measured."""
        alone, together, cpu = self.timed.rates
        batches = self.parts.batches
        sizes = np.concatenate([batch.sizes for batch in batches])
        num_bytes = [len(data) for batch in batches for data in batch.data if data is not None]
        on_gpu = self.parts.setup.choice.device.type == "cuda"
        return StageCost(
            "decode",
            cpu,
            alone,
            together,
            float(np.mean(num_bytes)),
            float(sizes.prod(1).mean()),
            on_device=on_gpu,
        )

    def _run(self, seconds: float) -> tuple[float, float]:
        """Images per second, and seconds of cores per image, of at least two steps after the first."""
        assert self._production is not None
        producer = self._production.start(self.parts.steps.largest)
        try:
            found = _drain(producer, cycle(self.parts.steps.plans(0, 0)), seconds)
            self._production.keep(producer)
        finally:
            self._production.stop(producer)
        return found


def _drain(producer: Producer, plans: Iterator[Plan], seconds: float) -> tuple[float, float]:
    under_way = producer.capacity + 1
    for _ in range(under_way):
        producer.submit(next(plans))
    producer.take()
    images, began, cpu = 0, clock(), time.process_time()
    while clock() - began < seconds:
        producer.submit(next(plans))
        images += len(producer.take()[0])
    for _ in range(under_way - 1):
        finished, made = producer.take()
        images += len(finished)
    if made[0].is_cuda:
        torch.cuda.synchronize(made[0].device)
    return images / (clock() - began), (time.process_time() - cpu) / images


def _without_engines(setup: Setup) -> Setup:
    variants = tuple(
        tuple(replace(view, engine=_Nothing()) for view in views) for views in setup.variants
    )
    return replace(setup, variants=variants)
