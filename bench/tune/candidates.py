"""Choose the settings of a loader to try, none of which changes the samples, their order or their draws."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dali_pipes import available_decoders

Settings = Mapping[str, Any]
"""Arguments of a Loader by plain names: "prefetch" stands for the field of its `Execution`."""

_LEAST_SHARE = 0.1
"""A stage with a smaller share of the waiting time can hardly give the 5 % that a recommended change must give."""

_READS_MUCH = 0.3
"""From this share on, reading is mostly waiting for storage, which more threads than cores can overlap."""


@dataclass(frozen=True)
class Situation:
    """The behaviour of the loader with the user's settings.

    Attributes:
        num_threads: Count of threads that read, decode and augment.
        prefetch: Count of batches that the loader, or each helper process, makes ahead.
        num_helpers: Count of helper processes.
        device: Type of the device: "cpu" or "cuda".
        decoder: Name of the decoder.
        engine: Name of the engine.
        fixed: Names of arguments that the user gave; these are not tried.
        shares: Share of the waiting time by stage, 0 to 1.
    """

    num_threads: int
    prefetch: int
    num_helpers: int
    device: str
    decoder: str
    engine: str
    fixed: frozenset[str]
    shares: Mapping[str, float]

    def is_worth(self, stage: str) -> bool:
        """Return whether making a stage faster could matter: its share is large, or on a GPU unknown."""
        return self.device != "cpu" or self.shares.get(stage, 0.0) >= _LEAST_SHARE


def find_candidates(now: Situation) -> list[Settings]:
    """Return the settings to try, the most promising first.

    `dtype` and `channels_last` are not tried, because the model determines both.

    Example:
        >>> from dali_pipes.arguments.names import spelled
        >>> now = Situation(2, 3, 0, "cpu", "cpu", "fused", frozenset({"prefetch"}), {})
        >>> [spelled(settings) for settings in find_candidates(now)]
        ['num_threads=4', 'num_threads=1', 'execution=Execution(helper_process=True)']
    """
    return [settings for settings in _candidates(now) if not now.fixed & settings.keys()]


def is_settled(settings: Settings, kept: Settings) -> bool:
    """Return whether settings need no trial, because they are smaller values of settings that were kept.

    Example:
        >>> is_settled({"num_threads": 4}, {"num_threads": 8, "prefetch": 4})
        True
    """
    return all(
        type(value) is int and value < kept.get(name, value) for name, value in settings.items()
    )


def _candidates(now: Situation) -> Iterator[Settings]:
    threads = now.num_threads
    if now.shares.get("read", 0.0) >= _READS_MUCH:
        # Every read in progress needs a thread and a batch that waits for it, so both grow together.
        for factor in (4, 8, 2):
            ahead = max(now.prefetch, threads)
            yield {"num_threads": factor * threads, "prefetch": factor * ahead}
    if now.device == "cuda":
        yield from _decoders(now)
    if now.decoder == "cuda":
        yield {"cache": "device"}
    yield {"num_threads": 2 * threads}
    yield {"prefetch": 2 * now.prefetch}
    if threads > 1:
        yield {"num_threads": threads // 2}
    # Helper processes take seconds to start, and only support the decoder "cpu".
    decoder = {} if now.decoder == "cpu" else {"decoder": "cpu"}
    yield {"helper_process": False} if now.num_helpers else {**decoder, "helper_process": True}
    if now.device != "cuda":
        yield from _decoders(now)
    if now.is_worth("augment"):
        # Albumentations has no GPU code.
        engines = ["fused", "kornia", *(["albumentations"] if now.device == "cpu" else [])]
        yield from ({"engine": name} for name in engines if name != now.engine)


def _decoders(now: Situation) -> Iterator[Settings]:
    if not now.is_worth("decode"):
        return
    installed = [name for name, missing in available_decoders().items() if not missing]
    if now.device != "cuda" and "cuda" in installed:
        installed.remove("cuda")
    yield from ({"decoder": name} for name in installed if name != now.decoder)
