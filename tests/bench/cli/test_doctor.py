"""`gpu-aug doctor`."""

import pytest

from dali_pipes.machine.doctor import Finding, judge_image_packages, judge_pair
from tests.support.commands import Run


def test_doctor_names_what_is_there(run: Run) -> None:
    """The examination names both decoders, both engines and the choice."""
    code, printed, _ = run("doctor")

    assert code == 0
    for subject in (
        "decoder dali",
        "decoder cpu",
        "HEIC",
        "engine kornia",
        "engine albumentations",
        "auto",
    ):
        assert subject in printed
    assert "NVIDIA DALI 2" in printed


@pytest.mark.parametrize(
    ("torch_cuda", "dali_cuda", "driver", "found", "advice"),
    [
        (13, 12, None, "for CUDA 13 and 12; a driver 580 or newer serves both", ""),
        (13, 12, "580.65.06", "untested on a GPU", "pip install nvidia-dali-cuda130"),
        (12, 12, "535.10", "a driver 525 or newer serves both", ""),
        (13, 13, "575.1", "got 575.1", "install NVIDIA's driver 580 or newer"),
    ],
)
def test_doctor_judges_torch_and_dali(
    torch_cuda: int, dali_cuda: int, driver: str | None, found: str, advice: str
) -> None:
    """Builds for two versions of CUDA, and drivers older than NVIDIA's guide asks for, are said."""
    finding = judge_pair(torch_cuda, dali_cuda, driver)
    assert found in finding.found
    assert advice in finding.advice
    assert bool(finding.advice) == bool(advice)


@pytest.mark.parametrize(
    ("installed", "found", "advice"),
    [
        (
            {"pillow": "13.0"},
            "AVIF and JPEG 2000 of 8 bits by pillow 13.0",
            "for JPEG XL, AVIF and JPEG 2000 of all bits: pip install 'gpu-aug[images]'; for HEIC: pip install 'gpu-aug[heic]'",
        ),
        (
            {"pillow": "13.0", "imagecodecs": "2026.3", "pillow-heif": "1.8"},
            "JPEG XL, AVIF and JPEG 2000 of all bits by imagecodecs 2026.3; HEIC by pillow-heif 1.8",
            "",
        ),
    ],
)
def test_doctor_names_the_image_formats(installed: dict[str, str], found: str, advice: str) -> None:
    """With the packages that read them, and the extras that are missing."""
    assert judge_image_packages(installed) == Finding("images", found, advice)
