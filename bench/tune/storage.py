"""What storage gives on its own: `dataset.fetch` and nothing else, for several numbers of fetches at once."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from bench.compare.timer import Rate

Temperature = Literal["cold", "warm"]

GROWS = 1.15
"""More at once helps where it gives at least so many times as much."""


@dataclass(frozen=True, slots=True)
class ReadRate:
    """How fast samples came in one way of reading.

    Attributes:
        temperature: "cold" where nothing of them was in a cache that we can empty, "warm" where all was.
        request: Samples of one fetch.
        in_flight: Fetches at once, each by a thread.
        rate: Samples per second, one number per round.
        sample_bytes: Bytes of a sample, the mean of those that were read.
        cpu_seconds: Seconds of a core that fetching a sample took, in the threads that fetched.
    """

    temperature: Temperature
    request: int
    in_flight: int
    rate: Rate
    sample_bytes: float
    cpu_seconds: float

    @property
    def samples_per_second(self) -> float:
        """The median of the rounds."""
        return self.rate.median

    @property
    def megabytes_per_second(self) -> float:
        """The same in 10**6 bytes per second."""
        return self.rate.median * self.sample_bytes / 1e6


@dataclass(frozen=True, slots=True)
class StorageCeiling:
    """What storage gives.

    Attributes:
        rates: Of every temperature, request size and number in flight that was measured.
        note: What could not be made cold and why, or what "cold" means here; one sentence.
        latency_seconds: What a fetch of one sample takes besides its bytes, one fetch at a time, cold (else warm).
        seconds_per_byte: What each byte of it adds.
        one_file_each: Whether every sample is a file or an object of its own.
        sequential: Batches of neighbouring samples in place of random ones, cold (else warm); None where every sample
            is a file of its own, which has no neighbours.
        big_bytes_per_second: Of a large file on the same storage, read from front to back, cold (else warm), where every
            sample is a file of its own; None where that was not measured, and `note_big` says why.
        note_big: See there.
    """

    rates: tuple[ReadRate, ...]
    note: str
    latency_seconds: float = 0.0
    seconds_per_byte: float = 0.0
    one_file_each: bool = False
    sequential: ReadRate | None = None
    big_bytes_per_second: float | None = None
    note_big: str = ""

    def of(self, temperature: Temperature) -> list[ReadRate]:
        """The rates at a temperature, of the largest requests for every number in flight, fewest in flight first."""
        found = sorted(
            (rate for rate in self.rates if rate.temperature == temperature),
            key=lambda rate: (rate.in_flight, rate.request),
        )
        return list({rate.in_flight: rate for rate in found}.values())

    def at(self, temperature: Temperature, in_flight: int) -> ReadRate | None:
        """The fastest with at most so many fetches in flight; None where nothing was measured at that temperature."""
        return _fastest(
            rate for rate in self.of(temperature) if rate.in_flight <= max(in_flight, 1)
        )

    def best(self, temperature: Temperature) -> ReadRate | None:
        """The fastest of all."""
        return _fastest(self.of(temperature))

    def grows(self, temperature: Temperature, in_flight: int) -> bool:
        """Whether more fetches in flight than these give noticeably more: latency limits, and not bandwidth."""
        now, best = self.at(temperature, in_flight), self.best(temperature)
        return (
            now is not None
            and best is not None
            and (best.samples_per_second >= GROWS * now.samples_per_second)
        )


def _fastest(rates: Iterable[ReadRate]) -> ReadRate | None:
    return max(rates, key=lambda rate: rate.samples_per_second, default=None)
