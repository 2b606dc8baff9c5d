"""Choose the device, decoder and engine of a loader where the user gave "auto", with the reasons of the choices."""

import importlib.util
import os
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from dali_pipes.arguments.values import refuse, require_one_of
from dali_pipes.decode.cuda_jpeg.on_gpu import MISSING_NVRTC
from dali_pipes.decode.dali.driver import INSTALL_DALI
from dali_pipes.decode.dali.user_pipeline import DaliDecoder
from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.video.dali.nvdec import find_nvdec
from dali_pipes.video.source import ClipSource
from gpu_aug.engines.choose import EngineChoice, EngineName, best_engine
from gpu_aug.image_kind import ImageKind

DecoderName = Literal["auto", "dali", "cpu", "cuda"]

ChosenDecoder = Literal["dali", "cpu", "cuda"]

_DECODERS = get_args(DecoderName)  # a pipeline of the user is none of them, and was not measured

USUAL_IMAGES = ImageFields()

# Numbers of docs/gpu.md, from bench/results/gpu-h100-path-*.json; "auto" uses the fastest decoder.
_MEASURED = (
    "one loader on an H100 with 16 cores made 38,300 to 43,300 images/s with it, 12,200 to 14,700 with the CPU, "
    "12,750 with DALI"
)

# Images/s on a CPU, relative to cpu+fused, by decoder and engine: imagenet_train_jitter in batches of 64, bfloat16, 2 cores; from
# bench/results/cpu-choice.json, with which a test compares them. "auto" uses the fastest.
CPU_SPEEDS = {
    "cpu+fused": 1.0,
    "dali+fused": 0.55,
    "cpu+albumentations": 0.26,
    "dali+albumentations": 0.23,
    "cpu+kornia": 0.17,
    "dali+kornia": 0.15,
}


@dataclass(frozen=True, slots=True)
class Choice:
    """Device, decoder and engine of a loader, each with a sentence that gives the reason."""

    device: torch.device
    decoder: ChosenDecoder
    engine: EngineName
    reasons: tuple[str, ...]


def choose(
    device: str | torch.device,
    decoder: DecoderName | DaliDecoder,
    engine: EngineChoice,
    images: ImageFields = USUAL_IMAGES,
    clips: ClipSource | None = None,
) -> Choice:
    """Replace every "auto" by the fastest choice on this machine.

    Args:
        device: The user's choice of the device, as for Loader.
        decoder: The user's choice of the decoder, as for Loader.
        engine: The user's choice of the engine, as for Loader.
        images: The images of a sample.
        clips: The clips of the dataset; None if samples are images.

    Raises:
        LoaderError: A name is not allowed, or the choices do not work together.
        MissingPackageError: DALI is requested by name but not installed.
    """
    chosen_device, why_device = _device(device)
    chosen_decoder, why_decoder = _decoder(decoder, chosen_device, images, clips)
    chosen_engine, why_engine = _engine(engine, chosen_device, images.kind)
    if images.kind.channels != 3 and chosen_engine != "kornia":
        why_engine += ", and works on three channels at a time"
    reasons: tuple[str, ...] = (
        f"device {chosen_device}: {why_device}",
        f"decoder {chosen_decoder}: {why_decoder}",
        f"engine {chosen_engine}: {why_engine}",
    )
    if chosen_device.type == "cpu" and clips is None and images.is_usual and decoder in _DECODERS:
        reasons += (_speeds(f"{chosen_decoder}+{chosen_engine}"),)
    return Choice(chosen_device, chosen_decoder, chosen_engine, reasons)


def _speeds(chosen: str) -> str:
    """Return a text with the measured speeds of all decoders and engines on a CPU, relative to the fastest."""
    best, *others = sorted(CPU_SPEEDS, key=lambda name: -CPU_SPEEDS[name])
    slower = ", ".join(f"{name} {CPU_SPEEDS[name]:g}" for name in others)
    text = f"speed on a CPU: of {best} = 1, measured with imagenet_train_jitter, {slower}"
    if chosen == best:
        return text
    return f'{text}; {chosen} makes {CPU_SPEEDS[chosen]:g} times as many images/s as {best}, which "auto" chooses'


def available_decoders() -> dict[str, str]:
    """Return for each decoder's name why this machine cannot use it, or "" if it can; no decoder is imported.

    Example:
        >>> "cpu" in available_decoders()
        True
    """
    cuda = "" if torch.cuda.is_available() else 'decoder="cuda" needs a GPU, and torch sees none'
    return {
        "cuda": cuda or ("" if _is_importable("cuda.bindings.nvrtc") else MISSING_NVRTC),
        "dali": "" if _is_importable("nvidia.dali") else INSTALL_DALI,
        "cpu": "",
    }


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _device(asked: str | torch.device) -> tuple[torch.device, str]:
    if asked == "auto":
        if torch.cuda.is_available():
            device = torch.device("cuda", _present_device())
            return device, torch.cuda.get_device_name(device)
        return torch.device("cpu"), "torch sees no CUDA device"
    parsed = _parse(asked)
    if parsed is None or parsed.type not in ("cpu", "cuda"):
        raise LoaderError(
            f'device={asked!r} is not known; allowed are "auto", "cpu", "cuda", "cuda:N"'
        )
    device = _numbered(parsed) if parsed.type == "cuda" else torch.device("cpu")
    return device, "asked for"


def _numbered(device: torch.device) -> torch.device:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (device.index or 0) >= count:
        raise LoaderError(
            f'device="{device}", but torch sees no CUDA device of that number, {count} in all; use device="cpu" or "auto"; '
            "gpu-aug doctor lists them"
        )
    return torch.device("cuda", _present_device() if device.index is None else device.index)


def _present_device() -> int:
    """Return the index of torch's current GPU, or torchrun's LOCAL_RANK if torch.cuda.set_device was not called yet."""
    current, local = torch.cuda.current_device(), os.environ.get("LOCAL_RANK", "")
    if current == 0 and local.isdecimal() and int(local) < torch.cuda.device_count():
        return int(local)
    return current


def _parse(asked: str | torch.device) -> torch.device | None:
    try:
        return torch.device(asked)
    except RuntimeError:  # torch's error for an unknown device string
        return None


def _decoder(
    asked: DecoderName | DaliDecoder,
    device: torch.device,
    images: ImageFields,
    clips: ClipSource | None,
) -> tuple[ChosenDecoder, str]:
    if asked == "auto":
        return _fastest_decoder(device, images, clips)
    if asked == "cpu":
        return "cpu", "asked for"
    if not images.is_usual:
        name = "from_dali(...)" if isinstance(asked, DaliDecoder) else f'"{asked}"'
        raise LoaderError(
            f'decoder={name} gives one RGB image of 8 bits, and asked for is {images}; use decoder="cpu" or "auto"'
        )
    if isinstance(asked, DaliDecoder):
        return "dali", _why_pipeline(asked, device)
    if asked not in ("dali", "cuda"):
        raise LoaderError(
            f'decoder={asked!r} is not known; allowed are "auto", "dali", "cpu", "cuda", and from_dali(pipeline)'
        )
    if asked == "dali" and not _is_importable("nvidia.dali"):
        raise MissingPackageError(INSTALL_DALI)
    _require_possible(asked, device, clips)
    return asked, "asked for"


def _require_possible(
    decoder: Literal["dali", "cuda"], device: torch.device, clips: ClipSource | None
) -> None:
    """Raise if a decoder that was requested by name cannot decode such samples on such a device."""
    problem = _nvdec_problem(device, clips)
    refuse(
        (decoder == "dali" and bool(problem), problem),
        (
            decoder == "cuda" and clips is not None,
            'decoder="cuda" decodes JPEGs, and these are clips; use decoder="dali", "cpu" or "auto"',
        ),
        (
            decoder == "cuda" and device.type != "cuda",
            f'decoder="cuda" decodes on a GPU, and {device=!s}; use decoder="cpu", or a device that gpu-aug doctor lists',
        ),
    )


def _fastest_decoder(
    device: torch.device, images: ImageFields, clips: ClipSource | None
) -> tuple[ChosenDecoder, str]:
    if not images.is_usual:
        return (
            "cpu",
            f"the other decoders give one RGB image of 8 bits, and asked for is {images}",
        )
    if clips is not None and clips.cameras:
        return "cpu", "only it makes clips of the pictures of several cameras and moments"
    if device.type == "cpu":
        return "cpu", "without a GPU it is faster than DALI"
    if clips is None and _is_importable("cuda.bindings.nvrtc"):
        return (
            "cuda",
            f"the fastest for JPEGs on {device} ({_MEASURED}); other files are decoded on the CPU",
        )
    if not _is_importable("nvidia.dali"):
        return "cpu", "NVIDIA DALI is not installed"
    if problem := _nvdec_problem(device, clips):
        return "cpu", problem
    return "dali", f"it is installed, and decodes on {device}"


def _nvdec_problem(device: torch.device, clips: ClipSource | None) -> str:
    """Return why DALI cannot decode the videos of clips on a device; "" if it can."""
    if clips is None or device.type == "cpu":
        return ""
    return find_nvdec(device.index).problem


def _why_pipeline(decoder: DaliDecoder, device: torch.device) -> str:
    number = decoder.device_id
    if number is not None and (device.type != "cuda" or device.index != number):
        raise LoaderError(
            f'the pipeline of from_dali makes images on GPU {number}, but {device=!s}; use device="cuda:{number}", or '
            f"end the pipeline with images.cpu()"
        )
    return (
        f"a pipeline of your own, with images on {'the CPU' if number is None else f'GPU {number}'}"
    )


def _engine(asked: EngineChoice, device: torch.device, kind: ImageKind) -> tuple[EngineName, str]:
    if asked == "auto":
        engine = best_engine(kind)
        where = "a CPU" if device.type == "cpu" else str(device)
        why = f"on {where} it is the fastest" + (f" for {kind}" if engine == "kornia" else "")
        return engine, why
    require_one_of("engine", asked, ("auto", "fused", "kornia", "albumentations"))
    if asked == "albumentations" and device.type != "cpu":
        raise LoaderError(
            f'engine="albumentations" runs on the CPU, but device={device}; use device="cpu" or '
            f'engine="fused"'
        )
    return asked, "asked for"
