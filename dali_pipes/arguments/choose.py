"""What "auto" means on this machine, and why."""

import importlib.util
import os
from dataclasses import dataclass, replace
from typing import Literal

import torch

from dali_pipes.decode.dali.feed import INSTALL_DALI
from dali_pipes.decode.dali.user_pipeline import DaliDecoder
from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.video.dali.nvdec import find_nvdec
from gpu_aug.engines.choose import EngineChoice, EngineName, best_engine
from gpu_aug.image_kind import ImageKind

DecoderName = Literal["auto", "dali", "cpu", "cuda"]

USUAL_IMAGES = ImageFields()

# bench/results/gpu-h100-path-*.json; "auto" takes what was fastest.
_MEASURED = "one loader on an H100 with 16 cores made 43,300 images/s with it, 14,700 with the CPU, 12,750 with DALI"


@dataclass(frozen=True, slots=True)
class Choice:
    """The parts of a loader, and one sentence for each that says why it was chosen."""

    device: torch.device
    decoder: Literal["dali", "cpu", "cuda"]
    engine: EngineName
    reasons: tuple[str, ...]

    def decoding_on_cpu(self, why: str) -> "Choice":
        """Return it with the decoder "cpu"."""
        return self._with_decoder("cpu", f"decoder cpu: {why}")

    def _with_decoder(self, decoder: Literal["dali", "cpu", "cuda"], why: str) -> "Choice":
        device, _, engine = self.reasons
        return replace(self, decoder=decoder, reasons=(device, why, engine))


def choose(
    device: str | torch.device,
    decoder: DecoderName | DaliDecoder,
    engine: EngineChoice,
    images: ImageFields = USUAL_IMAGES,
) -> Choice:
    """Fill in every "auto".

    Args:
        device: As for Loader.
        decoder: As for Loader.
        engine: As for Loader.
        images: What is decoded.

    Raises:
        LoaderError: A name that is not allowed, or parts that do not work together.
        MissingPackageError: DALI is asked for by name and is not installed.
    """
    chosen_device, why_device = _device(device)
    if images.is_usual:
        chosen_decoder, why_decoder = _decoder(decoder, chosen_device)
    else:
        chosen_decoder, why_decoder = _decoder_of(images, decoder)
    chosen_engine, why_engine = _engine(engine, chosen_device, images.kind)
    if images.kind.channels != 3 and chosen_engine != "kornia":
        why_engine += ", and works on three channels at a time"
    return Choice(
        chosen_device, chosen_decoder, chosen_engine, (why_device, why_decoder, why_engine)
    )


def choose_for_clips(choice: Choice, asked: DecoderName | DaliDecoder) -> Choice:
    """Return the choice for clips: where DALI would decode them on a GPU, NVDEC must be there, else "auto" is the CPU.

    Raises:
        LoaderError: DALI is asked for by name, and this process may not use NVDEC; or "cuda" is, which decodes JPEGs.
    """
    if asked == "cuda":
        raise LoaderError(
            'decoder="cuda" decodes JPEGs, and these are clips; use decoder="dali", "cpu" or "auto"'
        )
    if choice.decoder == "cuda":
        choice = choice._with_decoder(*_dali_or_cpu(choice.device))
    if choice.decoder != "dali" or choice.device.type != "cuda":
        return choice
    problem = find_nvdec(choice.device.index).problem
    if problem and asked == "dali":
        raise LoaderError(problem)
    return choice.decoding_on_cpu(problem) if problem else choice


def available_decoders() -> dict[str, str]:
    """Each decoder's name, with why it cannot be used here, or "" when it can. Imports nothing.

    Example:
        >>> "cpu" in available_decoders()
        True
    """
    return {"dali": "" if _dali_is_installed() else INSTALL_DALI, "cpu": ""}


def _dali_is_installed() -> bool:
    return _is_importable("nvidia.dali")


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _dali_or_cpu(device: torch.device) -> tuple[Literal["dali", "cpu"], str]:
    """What decodes on a GPU where our own kernels do not."""
    if _dali_is_installed():
        return "dali", f"decoder dali: it is installed, and decodes on {device}"
    return "cpu", "decoder cpu: NVIDIA DALI is not installed"


def _device(asked: str | torch.device) -> tuple[torch.device, str]:
    if asked == "auto":
        if torch.cuda.is_available():
            device = torch.device("cuda", _present_device())
            return device, f"device {device}: {torch.cuda.get_device_name(device)}"
        return torch.device("cpu"), "device cpu: torch sees no CUDA device"
    parsed = _parse(asked)
    if parsed is None or parsed.type not in ("cpu", "cuda"):
        raise LoaderError(
            f'device={asked!r} is not known; allowed are "auto", "cpu", "cuda", "cuda:N"'
        )
    device = _numbered(parsed) if parsed.type == "cuda" else torch.device("cpu")
    return device, f"device {device}: asked for"


def _numbered(device: torch.device) -> torch.device:
    if not torch.cuda.is_available():
        raise LoaderError(
            f'device="{device}", but torch sees no CUDA device; use device="cpu" or "auto", and see '
            f"what is there with: gpu-aug doctor"
        )
    number = _present_device() if device.index is None else device.index
    if number >= torch.cuda.device_count():
        raise LoaderError(
            f'device="{device}", but this machine has {torch.cuda.device_count()} CUDA devices, '
            f"numbered from 0; choose one of them"
        )
    return torch.device("cuda", number)


def _present_device() -> int:
    """Return the device that torch stands on, or while nobody has chosen one, that of torchrun's LOCAL_RANK."""
    current, local = torch.cuda.current_device(), os.environ.get("LOCAL_RANK", "")
    if current == 0 and local.isdecimal() and int(local) < torch.cuda.device_count():
        return int(local)
    return current


def _parse(asked: str | torch.device) -> torch.device | None:
    try:
        return torch.device(asked)
    except RuntimeError:  # torch's error for a string that it does not know
        return None


def _decoder(
    asked: DecoderName | DaliDecoder, device: torch.device
) -> tuple[Literal["dali", "cpu", "cuda"], str]:
    if isinstance(asked, DaliDecoder):
        return "dali", _why_pipeline(asked, device)
    if asked == "auto":
        if device.type == "cpu":
            return "cpu", "decoder cpu: without a GPU it is faster than DALI"
        if _is_importable("cuda.bindings.nvrtc"):
            return (
                "cuda",
                f"decoder cuda: the fastest for JPEGs on {device} ({_MEASURED}); other files are decoded on the CPU",
            )
        return _dali_or_cpu(device)
    if asked not in ("dali", "cpu", "cuda"):
        raise LoaderError(
            f'decoder={asked!r} is not known; allowed are "auto", "dali", "cpu", "cuda", and from_dali(pipeline)'
        )
    if asked == "cuda" and device.type != "cuda":
        is_there = torch.cuda.is_available()
        found = f"{device=!s}" if is_there else "torch sees no CUDA device here"
        way = 'device="cuda", or ' if is_there else ""
        raise LoaderError(f'decoder="cuda" decodes on a GPU, and {found}; use {way}decoder="cpu"')
    if asked == "dali" and not _dali_is_installed():
        raise MissingPackageError(INSTALL_DALI)
    return asked, f"decoder {asked}: asked for"


def _decoder_of(
    images: ImageFields, asked: DecoderName | DaliDecoder
) -> tuple[Literal["cpu"], str]:
    """The decoder of images that are not one RGB image of 8 bits."""
    if asked not in ("auto", "cpu"):
        name = "from_dali(...)" if isinstance(asked, DaliDecoder) else f'"{asked}"'
        raise LoaderError(
            f'decoder={name} gives one RGB image of 8 bits, and asked for is {images}; use decoder="cpu" or "auto"'
        )
    return "cpu", f"decoder cpu: DALI gives one RGB image of 8 bits, and asked for is {images}"


def _why_pipeline(decoder: DaliDecoder, device: torch.device) -> str:
    number = decoder.device_id
    if number is not None and (device.type != "cuda" or device.index != number):
        raise LoaderError(
            f'the pipeline of from_dali makes images on GPU {number}, but {device=!s}; use device="cuda:{number}", or '
            f"end the pipeline with images.cpu()"
        )
    where = "the CPU" if number is None else f"GPU {number}"
    return f"decoder dali: a pipeline of your own, with images on {where}"


def _engine(asked: EngineChoice, device: torch.device, kind: ImageKind) -> tuple[EngineName, str]:
    if asked == "auto":
        engine = best_engine(kind)
        where = "a CPU" if device.type == "cpu" else str(device)
        why = f"on {where} it is the fastest" + (f" for {kind}" if engine == "kornia" else "")
        return engine, f"engine {engine}: {why}"
    if asked not in ("fused", "kornia", "albumentations"):
        raise LoaderError(
            f'engine={asked!r} is not known; allowed are "auto", "fused", "kornia", "albumentations"'
        )
    if asked == "albumentations" and device.type != "cpu":
        raise LoaderError(
            f'engine="albumentations" runs on the CPU, but device={device}; use device="cpu" or '
            f'engine="fused"'
        )
    return asked, f"engine {asked}: asked for"
