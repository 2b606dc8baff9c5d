"""The steps of a visit, the most informative first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.output.errors import BenchError

Kind = Literal["right", "fast"]

_TESTS = Path(__file__).resolve().parents[2] / "tests"
_ENGINE_TESTS = _TESTS / "gpu_aug" / "engines"  # they take longest


@dataclass(frozen=True)
class Step:
    """Definition of a step.

    Attributes:
        promise: What the step shows or measures.
        function: "module.function" in this package.
        seconds_max: After so long it is ended.
        kind: "right" for one that verifies, beside which others may run, "fast" for one that measures.
    """

    promise: str
    function: str
    seconds_max: float
    kind: Kind = "right"


STEPS = {
    "environment": Step("What is installed", "step.environment", 40),
    "tests": Step("The tests that need CUDA pass, but for those of the engines", "", 200),
    "kinds": Step("Images of every kind have Pillow's pixels", "image_kinds.kinds", 90),
    "damage": Step("A broken file costs itself alone, wherever it stands", "damage.damage", 90),
    "engines": Step("The engines give the same pixels on the device", "engines.engines", 90),
    "resume": Step("A run goes on on another device with the same samples", "resume.resume", 90),
    "races": Step("Losses do not depend on whether the loop waits", "async_check.races", 90),
    "waits": Step("The thread of the training loop never waits for the device", "waits.waits", 60),
    "frames": Step("DALI gives FFmpeg's frames of every kind of video", "video.frames", 90),
    "soak": Step("In a long run every row is its sample, and memory stays flat", "soak.soak", 100),
    "regions": Step("DALI decodes a region to the pixels of the whole", "jpeg_parts.regions_of_dali", 30),
    "regions-nvimgcodec": Step("nvImageCodec does so, too", "jpeg_parts.regions_of_nvimgcodec", 30),
    "restarts": Step("Restart markers change no pixel in any decoder", "jpeg_parts.restarts", 40),
    "sanitizer": Step("Our kernels touch no memory that is not theirs", "sanitizer.sanitizer", 120),
    "tests-engines": Step("The tests of the engines that need CUDA pass", "", 200),
    "decode": Step("Decoding whole JPEGs", "decode.decode", 90, "fast"),
    "kernel": Step("The fused kernels beside a copy on the device", "kernel.kernel", 80, "fast"),
    "loaders": Step("Loaders alone, and behind a step of ResNet-50", "loaders.loaders", 150, "fast"),
    "tiles": Step("Crops cut out of tiled JPEGs", "jpeg_parts.tiles", 60, "fast"),
    "batch": Step("The batch stage beside other libraries", "batch.batch", 50, "fast"),
    "video": Step("Clips decoded, and as training batches", "video.video", 120, "fast"),
    "batch-compiled": Step("The batch stage beside Kornia compiled", "batch.compiled_kornia", 70, "fast"),
}  # fmt: skip
"""By name."""


@dataclass(frozen=True)
class Command:
    """The command of a step.

    Attributes:
        name: Names its log and its result, NAME.log and NAME.json.
        arguments: What follows the interpreter.
        seconds_max: After so long it is killed.
        kind: As in Step.
        environment: Added to this process's own.
    """

    name: str
    arguments: Sequence[str]
    seconds_max: float
    kind: Kind = "fast"
    environment: Mapping[str, str] = field(default_factory=dict)


def commands(
    out: Path, photographs: Path, names: Sequence[str] = (), *, rehearse: bool
) -> list[Command]:
    """The commands of the steps of those names, or of all.

    Args:
        out: The folder of their results.
        photographs: A folder of JPEGs.
        names: Names of steps; "right" and "fast" stand for all that verify and all that measure.
        rehearse: On the CPU, with tiny inputs.

    Raises:
        BenchError: There is no such step.
    """
    allowed = ["right", "fast", *STEPS]
    if unknown := sorted(set(names) - set(allowed)):
        raise BenchError(
            f"--only must be one of {', '.join(allowed)}, got {', '.join(unknown)}: choose"
        )
    flags = [f"--data={photographs}", *(["--rehearse"] if rehearse else [])]
    found = []
    for name, step in STEPS.items():
        if names and not {name, step.kind}.intersection(names):
            continue
        if not step.function:
            found.append(_tests(name, step, out, rehearse=rehearse))
            continue
        own = ["-X", "faulthandler", "-m", "bench.gpu.step", name, f"--out={out / name}.json"]
        found.append(Command(name, [*own, *flags], step.seconds_max, step.kind))
    return found


def _tests(name: str, step: Step, out: Path, *, rehearse: bool) -> Command:
    """The files with tests that need CUDA: the engines', or all others; one file in a rehearsal."""
    files = [
        str(path)
        for path in sorted(_TESTS.rglob("test_*.py"))
        if path.is_relative_to(_ENGINE_TESTS) == (name == "tests-engines")
        and "needs_cuda" in path.read_text(encoding="utf-8")
    ]
    command = ["-m", "pytest", "-m", "needs_cuda", "--tb=long", f"--junitxml={out / name}.xml"]
    command += ["--continue-on-collection-errors"]  # a package that is missing costs its own tests
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # else JAX takes most of the memory
    if not rehearse:
        environment["FAIL_WITHOUT_CUDA"] = "1"
    chosen = files[:1] if rehearse else files
    return Command(name, [*command, *chosen], step.seconds_max, step.kind, environment)
