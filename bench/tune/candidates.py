"""What a loader's user can set, as candidates that are worth a try on some data and machine."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Alters = Literal["", "pixels", "order"]
"""What becomes different besides the speed: nothing, the pixels, or the order of the samples."""

DEFAULTS = "the defaults"


@dataclass(frozen=True)
class Candidate:
    """Arguments of a loader that are tried.

    Attributes:
        settings: What differs from what the user gave and from the defaults; empty for just these.
        alters: What becomes different besides the speed. Candidates that alter anything are named as options,
            and never chosen.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    alters: Alters = ""

    @property
    def name(self) -> str:
        """Its settings, as they are written in Python."""
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items()) or DEFAULTS

    def cost(self, num_threads: int, prefetch: int) -> tuple[bool, int, int, int]:
        """What it takes of the machine, to be compared: a process, threads, batches in memory; then how much it changes.

        Args:
            num_threads: Threads of a loader where it does not say.
            prefetch: Batches ahead where it does not say.
        """
        own = self.settings
        return (
            bool(own.get("helper_process", False)),
            int(own.get("num_threads", num_threads)),
            int(own.get("prefetch", prefetch)),
            len(own),
        )

    def with_more(self, other: "Candidate") -> "Candidate":
        """Both together."""
        return Candidate({**self.settings, **other.settings}, self.alters or other.alters)


@dataclass(frozen=True)
class Ground:
    """What decides which candidates there are.

    Attributes:
        num_threads: Threads of a loader that is not told; the cores.
        device: Type of the device: "cpu" or "cuda".
        decoder: Which decoder the defaults choose, and so `engine`.
        decoders: Those that are there.
        engines: Those that can carry out the recipe; unknown ones find out when they start.
        fixed: Names of what the user has set, which is left alone.
        waits: Whether samples are waited for rather than computed: they lie in an object store, or on slow storage.
        blocks: Whether neighbouring samples lie in one file, so that block shuffle reads larger pieces.
        jpegs: Whether there are JPEGs that could be decoded at a smaller size.
        clips: Whether samples are clips.
        enough: Whether the defaults should do: then what takes less of the machine is tried first.
    """

    num_threads: int
    device: str
    decoder: str
    engine: str
    decoders: Sequence[str]
    engines: Sequence[str]
    fixed: frozenset[str] = frozenset()
    waits: bool = False
    blocks: bool = False
    jpegs: bool = True
    clips: bool = False
    enough: bool = False


def candidates(ground: Ground) -> list[Candidate]:
    """Everything that is worth a try: the defaults first, then what is most likely to matter.

    The number of images that a thread takes at once (a chunk of a batch) is none of a loader's arguments.

    Example:
        >>> ground = Ground(2, "cpu", "cpu", "fused", ["cpu"], ["fused"], jpegs=False)
        >>> [candidate.name for candidate in candidates(ground)][:3]
        ['the defaults', 'num_threads=4', 'prefetch=4']
    """
    tried = [
        Candidate(dict(settings))
        for settings in _alone(ground)
        if not ground.fixed & settings.keys()
    ]
    return [Candidate(), *tried]


def options(ground: Ground) -> list[Candidate]:
    """What would change pixels or order, and is therefore named and never chosen."""
    found = []
    if ground.blocks and not ground.fixed & {"shuffle", "shuffle_window"}:
        found.append(Candidate({"shuffle": "block"}, "order"))
    if (
        ground.decoder == "cpu"
        and ground.jpegs
        and not ground.clips
        and not ground.fixed & {"decode"}
    ):
        found.append(Candidate({"decode": "fast"}, "pixels"))
    return found


def combinations(singles: Sequence[Candidate]) -> list[Candidate]:
    """Join candidates that were good alone, best first: the first with the second, then with the third as well.

    Of two that set the same thing the better one is taken.
    """
    joined: list[Candidate] = []
    if not singles:
        return joined
    whole = singles[0]
    for single in singles[1:]:
        if not whole.settings.keys() & single.settings.keys():
            whole = whole.with_more(single)
            joined.append(whole)
    return joined


def _alone(ground: Ground) -> Iterable[Mapping[str, Any]]:
    """Settings besides the defaults, in the order in which they are tried."""
    threads = ground.num_threads
    fewer = sorted({threads // 2, threads // 4} - {0, threads}, reverse=True)
    cheaper = [*({"num_threads": number} for number in fewer), {"prefetch": 1}]
    if ground.enough:
        yield from cheaper
    if ground.waits:  # a fetch in flight needs a thread and a batch, so both grow together
        yield from ({"num_threads": n * threads, "prefetch": n * threads} for n in (2, 4, 8))
    yield {"num_threads": 2 * threads}
    yield {"prefetch": 4}
    if ground.decoder == "cpu":
        yield {"helper_process": True}
    elif "cpu" in ground.decoders:
        yield {"decoder": "cpu", "helper_process": True}
    yield from ({"decoder": name} for name in ground.decoders if name != ground.decoder)
    yield from ({"engine": name} for name in ground.engines if name != ground.engine)
    if not ground.enough:
        yield from cheaper
