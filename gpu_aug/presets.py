"""Published recipes for training and evaluation; `make_preset`, which is also Recipe.preset, returns them by name.

They resize bilinearly, because decoding can do that; the docstrings name sources that resize otherwise.
"""

from collections.abc import Callable
from typing import Any

from gpu_aug.argument_errors import friendly_arguments
from gpu_aug.errors import RecipeError
from gpu_aug.ops.blur.blurs import GaussianBlur
from gpu_aug.ops.color.adjust import Grayscale, Solarize
from gpu_aug.ops.color.jitter import ColorJitter
from gpu_aug.ops.color.normalize import Normalize
from gpu_aug.ops.combine import OneOf
from gpu_aug.ops.geometric.crops import CenterCrop, FixedCrop, RandomCrop
from gpu_aug.ops.geometric.flips import HorizontalFlip
from gpu_aug.ops.geometric.random_resizes import RandomResize, RandomShortestSize, ScaleJitter
from gpu_aug.ops.geometric.resized_crops import RandomResizedCrop
from gpu_aug.ops.geometric.resizes import Resize
from gpu_aug.ops.operation import Operation
from gpu_aug.recipe import Recipe
from gpu_aug.views import Views

# SlowFast's mean and standard deviation.
_VIDEO = Normalize((0.45, 0.45, 0.45), (0.225, 0.225, 0.225))


@friendly_arguments
def imagenet_train(size: int = 224) -> Recipe:
    """Return the recipe RandomResizedCrop, HorizontalFlip, Normalize."""
    return Recipe([RandomResizedCrop(size), HorizontalFlip(), Normalize()])


@friendly_arguments
def imagenet_train_jitter(size: int = 224) -> Recipe:
    """Return the recipe of ``imagenet_train`` with ColorJitter on 80 % of the images."""
    jitter = ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8)
    return Recipe([RandomResizedCrop(size), HorizontalFlip(), jitter, Normalize()])


@friendly_arguments
def imagenet_eval(size: int = 224, resize: int = 256) -> Recipe:
    """Return the recipe Resize of the shorter side, CenterCrop, Normalize; nothing is random."""
    return Recipe([Resize(resize), CenterCrop(size), Normalize()])


@friendly_arguments
def deit3(size: int = 224, *, simple_crop: bool = False) -> Recipe:
    """Return the training recipe of DeiT III for image classifiers: a crop, a flip, 3-Augment, ColorJitter of 0.3.

    Args:
        size: Height and width of the result.
        simple_crop: Whether the crop is "simple random": the shorter side is resized to ``size``, 4 mirrored pixels are added
            on each side, and a square of ``size`` is cropped. If False, it is RandomResizedCrop.

    Source: Touvron et al. 2022, https://arxiv.org/abs/2204.07118, and augment.py in
    https://github.com/facebookresearch/deit, which resizes bicubically.
    """
    crop: list[Operation] = [RandomResizedCrop(size)]
    if simple_crop:
        crop = [Resize(size), RandomCrop(size, padding=4, padding_mode="reflect")]
    jitter = ColorJitter(0.3, 0.3, 0.3)
    return Recipe([*crop, HorizontalFlip(), three_augment(), jitter, Normalize()])


def three_augment() -> OneOf:
    """Return 3-Augment of DeiT III: gray, solarize or blur, equally likely.

    Source: Touvron et al. 2022, https://arxiv.org/abs/2204.07118, section 4.
    """
    return OneOf([Grayscale(1.0), Solarize(0.5, p=1.0), GaussianBlur(13, (0.1, 2.0))])


@friendly_arguments
def simclr(size: int = 224, *, strength: float = 1.0) -> Views:
    """Return the training views of SimCLR: two views of each image, with one distribution.

    Args:
        size: Height and width of the views.
        strength: Strength of the colour jitter.

    Source: Chen et al. 2020, https://arxiv.org/abs/2002.05709, appendix A, and data_util.py in
    https://github.com/google-research/simclr, which resizes bicubically and does not normalise.
    """
    view = Recipe(
        [
            RandomResizedCrop(size),
            HorizontalFlip(),
            ColorJitter(0.8 * strength, 0.8 * strength, 0.8 * strength, 0.2 * strength, p=0.8),
            Grayscale(0.2),
            GaussianBlur(size // 10 // 2 * 2 + 1, (0.1, 2.0), p=0.5),
            Normalize(),
        ]
    )
    return Views([view, view])


@friendly_arguments
def dino(size: int = 224, *, local_size: int = 96, num_local: int = 8) -> Views:
    """Return the training views of DINO: two global views and several local ones.

    Args:
        size: Height and width of the global views.
        local_size: Height and width of the local views.
        num_local: Number of local views.

    Source: Caron et al. 2021, https://arxiv.org/abs/2104.14294, and main_dino.py in
    https://github.com/facebookresearch/dino, which resizes bicubically.
    """

    def view(pixels: int, scale: tuple[float, float], blur: float, solarize: float = 0.0) -> Recipe:
        solarized = [Solarize(0.5, p=solarize)] if solarize else []
        return Recipe(
            [
                RandomResizedCrop(pixels, scale=scale),
                HorizontalFlip(),
                ColorJitter(0.4, 0.4, 0.2, 0.1, p=0.8),
                Grayscale(0.2),
                GaussianBlur(13, (0.1, 2.0), p=blur),
                *solarized,
                Normalize(),
            ]
        )

    large, small = (0.4, 1.0), (0.05, 0.4)
    first, second = view(size, large, 1.0), view(size, large, 0.1, 0.2)
    return Views([first, second, *[view(local_size, small, 0.5)] * num_local])


@friendly_arguments
def detection(size: int = 1024, *, normalize: bool = True) -> Recipe:
    """Return a training recipe for detectors with large-scale jitter: a random scale of 0.1 to 2, a crop, a flip.

    Args:
        size: Height and width of the result; a smaller image is padded with black at the bottom and right.
        normalize: Whether Normalize is the last operation; torchvision's detectors normalise by themselves.

    Source: Ghiasi et al. 2021, https://arxiv.org/abs/2012.07177, as "lsj" in references/detection of
    https://github.com/pytorch/vision, which pads with the mean colour.
    """
    crop = RandomCrop(size, position="top_left")
    last = [Normalize()] if normalize else []
    return Recipe([ScaleJitter(size, (0.1, 2.0)), crop, HorizontalFlip(), *last])


@friendly_arguments
def segmentation(size: int = 480, *, base_size: int = 520, ignore: int = 255) -> Recipe:
    """Return a training recipe for semantic segmentation: a random scale of 0.5 to 2, a crop, a flip.

    Args:
        size: Height and width of the result; a smaller image is padded with black at the bottom and right.
        base_size: Length of the shorter side at scale 1.
        ignore: Value of masks outside the image.

    Source: references/segmentation of https://github.com/pytorch/vision. There the flip comes before
    the crop; here it comes after, so that decoding can resize and crop.
    """
    resize = RandomResize(base_size // 2, 2 * base_size)
    crop = RandomCrop(size, position="top_left", fill_mask=ignore)
    return Recipe([resize, crop, HorizontalFlip(), Normalize()])


@friendly_arguments
def video_train(size: int = 224, *, shorter: tuple[int, int] = (256, 320)) -> Recipe:
    """Return the training recipe of SlowFast for video classifiers: a random length of the shorter side, a crop, a flip.

    All frames of a clip get one draw. SlowFast 8x8 takes Clips(num_frames=32, stride=2).

    Args:
        size: Height and width of the result.
        shorter: Smallest and largest length of the shorter side, both included.

    Source: Feichtenhofer et al. 2019, https://arxiv.org/abs/1812.03982, section 4, and transform.py in
    https://github.com/facebookresearch/SlowFast; the same steps with other sizes and means are those of
    references/video_classification in https://github.com/pytorch/vision.
    """
    lengths = tuple(range(shorter[0], shorter[1] + 1))
    return Recipe([RandomShortestSize(lengths), RandomCrop(size), HorizontalFlip(), _VIDEO])


@friendly_arguments
def video_eval(size: int = 256) -> Recipe:
    """Return an evaluation recipe for video classifiers: the middle square of each clip; nothing is random.

    Args:
        size: Length of the shorter side, and height and width of the result.

    Source: as ``video_train``; there three squares of each clip are evaluated, see ``video_test``.
    """
    return Recipe([Resize(size), CenterCrop(size), _VIDEO])


@friendly_arguments
def video_test(size: int = 256) -> Views:
    """Return evaluation views for video classifiers: three squares of each clip along its longer side; nothing is random.

    With ten clips, Clips(sampling="uniform", clips_per_video=10), these are the "30 views" of a video;
    dali_pipes.video.scores.ViewMean takes their mean.

    Args:
        size: Length of the shorter side, and height and width of the results: left, middle and right, or
            top, middle and bottom.

    Source: as ``video_train``, and uniform_crop in transform.py there, which rounds half a pixel of the
    middle up.
    """
    crops = [FixedCrop(size, position) for position in ("top_left", "center", "bottom_right")]
    return Views([Recipe([Resize(size), crop, _VIDEO]) for crop in crops])


_MAKERS: dict[str, Callable[..., Recipe | Views]] = {
    make.__name__: make
    for make in (
        deit3,
        detection,
        dino,
        imagenet_eval,
        imagenet_train,
        imagenet_train_jitter,
        segmentation,
        simclr,
        video_eval,
        video_test,
        video_train,
    )
}
PRESETS = tuple(_MAKERS)
"""The names of all presets."""


def make_preset(name: str, **options: Any) -> Recipe | Views:
    """Return the preset called ``name``, one of PRESETS.

    Args:
        name: Name of a function above.
        options: Arguments of that function, such as ``size``.

    Raises:
        RecipeError: The preset or option does not exist.
    """
    make = _MAKERS.get(name)
    if make is None:
        raise RecipeError(
            f"preset must be one of {', '.join(PRESETS)}, got {name!r}: "
            "choose one, or load a recipe file with Recipe.load(path)"
        )
    return make(**options)
