"""What every stage costs on its own: seconds of a core per image, and images per second of all threads together."""

from dataclasses import dataclass

from bench.compare.timer import Rate
from bench.micro.turns import Turns


@dataclass(frozen=True, slots=True)
class StageCost:
    """What one stage costs, measured on samples that lie in memory.

    Attributes:
        name: The stage as the loader's statistics call it ("header", "draw", "decode", "targets", "augment", "transfer",
            "hand_over"), or a part of one ("resize").
        cpu_seconds: Seconds of a core per image while every thread does the same, one number per round; of a stage on
            a GPU what its caller's thread spends.
        alone: Images per second of one thread on an otherwise idle loader, by the clock on the wall.
        together: Images per second of all threads; for a stage on a GPU, of the GPU.
        image_bytes: Encoded bytes of an image, the mean; 0 where the stage does not touch them.
        pixels: Pixels of an image, the mean: stored ones for "decode", finished ones for "resize" and "augment".
        part_of: The stage that holds this one already, "" for none: it must not be counted twice.
        on_device: Whether a GPU does it.
        one_thread: Whether only one thread of the loader does it, however many there are.
    """

    name: str
    cpu_seconds: Turns
    alone: Rate
    together: Rate
    image_bytes: float = 0.0
    pixels: float = 0.0
    part_of: str = ""
    on_device: bool = False
    one_thread: bool = False

    @property
    def per_core(self) -> float:
        """Images per second and core."""
        return 1 / self.cpu_seconds.median

    @property
    def megabytes_per_second(self) -> float:
        """Encoded 10**6 bytes per second of all threads."""
        return self.together.median * self.image_bytes / 1e6

    @property
    def megapixels_per_second(self) -> float:
        """Millions of pixels per second of all threads."""
        return self.together.median * self.pixels / 1e6
