"""The steps of a visit in their order, and in which call they run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.output.errors import BenchError

Call = Literal["first", "second", "last", "by name"]

CALLS: tuple[Call, ...] = ("first", "second", "last")
"""Each is one command on the GPU machine, and fits into `SECONDS_MAX`; what is "by name" runs where it is asked for."""

SECONDS_MAX = 570.0
"""The limit of a call: a command may run for 600 s on machines that are lent."""

_TESTS = Path(__file__).resolve().parents[2] / "tests"
_ENGINE_TESTS = _TESTS / "gpu_aug" / "engines"  # they take longest


@dataclass(frozen=True)
class Step:
    """Definition of a step.

    Attributes:
        promise: What the step shows or measures.
        function: "module.function" in this package; "" for tests of pytest.
        seconds_max: After so long it is ended.
        call: The call it belongs to.
        verifies: Whether it has verdicts; else it measures.
    """

    promise: str
    function: str
    seconds_max: float
    call: Call
    verifies: bool = True


STEPS = {
    "smoke": Step("A loader on the device gives Pillow's pixels, by its JPEG engine", "smoke.smoke", 90, "first"),
    "cuda-jpeg": Step("Our JPEG decoder on the device gives the CPU's bits, and its speed", "cuda_jpeg.cuda_jpeg", 100, "first"),
    "decode": Step("Decoding whole JPEGs", "decode.decode", 70, "first", verifies=False),
    "compare": Step("Loaders alone, and behind a step of ResNet-50", "loaders.loaders", 220, "first", verifies=False),
    "waits": Step("The thread of the training loop never waits for the device", "waits.waits", 60, "first"),
    "tests": Step("The tests that need CUDA pass, but for those of the engines", "", 200, "second"),
    "cuda-loaders": Step("Loaders with our JPEG decoder on the device give the CPU's bits, and their speed", "cuda_loaders.cuda_loaders", 100, "second"),
    "damage": Step("A broken file costs itself alone, wherever it stands", "damage.damage", 110, "second"),
    "kinds": Step("Images of every kind have Pillow's pixels", "image_kinds.kinds", 70, "second"),
    "asking": Step("A step that reads its loss every time", "loaders.asking", 60, "second", verifies=False),
    "tests-engines": Step("The tests of the engines that need CUDA pass", "", 200, "last"),
    "races": Step("Losses do not depend on whether the loop waits", "async_check.races", 130, "last"),
    "kernel": Step("The fused kernels beside a copy on the device", "kernel.kernel", 120, "last", verifies=False),
    "streams": Step("Another stream, or a captured graph, changes nothing", "streams.streams", 50, "last"),
    "agreement": Step("The engines give the same pixels on the device", "engines.engines", 60, "last"),
    "warm": Step("Compiling everything once", "warm.warm", 110, "by name", verifies=False),
    "soak": Step("In a long run every row is its sample, and memory stays flat", "soak.soak", 100, "by name"),
    "regions": Step("A region is decoded to the pixels of the whole", "regions.regions", 50, "by name"),
    "video": Step("Clips as training batches", "video.video", 90, "by name", verifies=False),
    "tiles": Step("Crops cut out of tiled JPEGs", "regions.tiles", 90, "by name", verifies=False),
    "large": Step("Decoding JPEGs of 12 megapixels", "decode.large", 90, "by name", verifies=False),
    "sanitizer": Step("Our kernels touch no memory that is not theirs", "sanitizer.sanitizer", 300, "by name"),
}  # fmt: skip
"""By name, the most informative of each call first."""


@dataclass(frozen=True)
class Command:
    """The command of a step.

    Attributes:
        name: Names its log and its result, NAME.log and NAME.json.
        arguments: What follows the interpreter.
        seconds_max: After so long it is killed.
        environment: Added to this process's own.
    """

    name: str
    arguments: Sequence[str]
    seconds_max: float
    environment: Mapping[str, str] = field(default_factory=dict)


def commands(
    out: Path, photographs: Path, names: Sequence[str] = (), *, rehearse: bool
) -> list[Command]:
    """The commands of steps, in their order.

    Args:
        out: The folder of their results.
        photographs: A folder of JPEGs.
        names: Names of steps and of calls; none is the first call.
        rehearse: On the CPU, with tiny inputs.

    Raises:
        BenchError: There is no such step.
    """
    allowed = [*CALLS, *STEPS]
    if unknown := sorted(set(names) - set(allowed)):
        raise BenchError(
            f"STEPS must be some of {', '.join(allowed)}, got {', '.join(unknown)}: choose"
        )
    flags = [f"--data={photographs}", *(["--rehearse"] if rehearse else [])]
    found = []
    for name, step in STEPS.items():
        if not {name, step.call}.intersection(names or ["first"]):
            continue
        if not step.function:
            found.append(_tests(name, step, rehearse=rehearse))
            continue
        own = ["-X", "faulthandler", "-m", "bench.gpu.step", name, f"--out={out / name}.json"]
        found.append(Command(name, [*own, *flags], step.seconds_max))
    return found


def _tests(name: str, step: Step, *, rehearse: bool) -> Command:
    """The files with tests that need CUDA: the engines', or all others; one file in a rehearsal."""
    files = [
        str(path)
        for path in sorted(_TESTS.rglob("test_*.py"))
        if path.name != "test_docstrings.py"  # needs the library of every format
        and path.is_relative_to(_ENGINE_TESTS) == (name == "tests-engines")
        and "needs_cuda" in path.read_text(encoding="utf-8")
    ]
    command = ["-m", "pytest", "-v", "-m", "needs_cuda", "--tb=long"]
    command += ["--continue-on-collection-errors"]  # a package that is missing costs its own tests
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # else JAX takes most of the memory
    if not rehearse:
        environment["FAIL_WITHOUT_CUDA"] = "1"
    return Command(name, [*command, *(files[:1] if rehearse else files)], step.seconds_max, environment)  # fmt: skip
