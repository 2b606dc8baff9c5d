"""Operations that change targets alone, in Albumentations: images stay as they are."""

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, Step, prepare
from gpu_aug.ops.boxes import OnTargets


@prepare.register
def _keep(_: OnTargets) -> Step:
    def keep(image: Image, _params: Params, _row: int) -> Image:
        return image

    return keep
