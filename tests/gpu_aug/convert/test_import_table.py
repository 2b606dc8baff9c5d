"""docs/imports.md says what becomes of every transform of Albumentations and torchvision."""

import warnings
from pathlib import Path

import pytest
from torchvision.transforms import v2

from gpu_aug.convert import convert
from tests.gpu_aug.convert.test_convert import build_albumentations, build_torchvision
from tests.support.pipelines import ALBUMENTATIONS, TORCHVISION

PAGE = Path(__file__).resolve().parents[3] / "docs" / "imports.md"
HEAD = """# Leave Albumentations or torchvision

Give the pipeline that you have to `Recipe.from_albumentations` or `Recipe.from_torchvision`. The recipe draws from the same
distributions and gives the same pixels within [measured tolerances](agreement.md).

```python
import albumentations as A
import cv2
from gpu_aug import GaussianBlur, Recipe
from gpu_aug.convert import convert

class MocoBlur(A.ImageOnlyTransform):                                # your own code: a recipe cannot look into it
    def apply(self, img, **params):
        return cv2.GaussianBlur(img, (5, 5), 1.0)

pipeline = A.Compose([A.RandomCrop(32, 32), MocoBlur(p=0.5), A.ToGray(p=0.1), A.Normalize()])
replaced = {MocoBlur: lambda step: GaussianBlur(5, (0.1, 2.0), p=step.p)}
print(convert(pipeline, translate=replaced))                         # a table: each step, its operation, what differs
recipe = Recipe.from_albumentations(pipeline, translate=replaced)
transform = recipe.transform(seed=0)                                 # callable, where the pipeline was called
```

What cannot mean the same is refused by name, with the reason and the nearest alternative. For a class or function of your own the
error shows the line of `translate=` to write. Images are in [0, 1] here, so a function `(x - 127.5) / 128` on values from 0 to 255
is `Normalize(0.5, 128 / 255)`. A function that only converts types is replaced by None, and `strict=False` calls any other that keeps
the size of images on the CPU.

| you have | here |
| --- | --- |
| `pipeline(image=image, mask=mask)` | `transform({"image": image, "mask": mask})`; images alone: `transform(image)` |
| `Dataset`, `DataLoader` | [`Loader(dataset, recipe)`](integrations.md#from-torchvision-and-the-dataloader) |
| a file that `A.save` wrote | the same call with its path, or `gpu-aug recipe convert pipeline.yaml -o recipe.yaml` |
| `bbox_params=A.BboxParams("coco", label_fields=["category"], min_area=16)` | kept: formats and filters; give `category` as `box_labels` |
| `keypoint_params=A.KeypointParams("xy")` | kept; give labels as `keypoint_labels`; other formats are refused |
| `additional_targets={"other": "image", "mask2": "mask"}` | `{"image": ..., "images": {"other": ...}, "masks": [...]}` of `transform` and `gpu_aug.apply`, with equal draws; a `Loader` reads one image per sample |
| your class, or a function in a `Lambda` | `translate={Class or function: lambda step: ...}`, which returns an operation, a step of the library, a list of these, or None for nothing; also inside `OneOf` or `RandomApply` |
| `A.Lambda(mask=function)` | the function on the masks before the recipe; `translate={function: lambda step: None}` |
| `CutMix`, `MixUp` in `collate_fn` | one import with the pipeline of the images, which makes one size: `Recipe.from_torchvision([pipeline, mix])` |
| `FiveCrop`, `TenCrop` and a `Lambda` that stacks | `Views`; `translate={transforms.Lambda: lambda step: transforms.ToTensor()}` |
| `TwoCropsTransform(pipeline)` | `Views([Recipe.from_torchvision(pipeline)] * 2)` |
| `Compose(seed=...)`, `ReplayCompose` | the seed of `transform` or the loader; draws are functions of seed, epoch and index |
| `weights.transforms()`, timm's crop, erasing, conversions | read as the transforms they stand for; timm's policies are refused |
| a step that shall run in its own library on the CPU | `strict=False` for all that are refused; rain, fog and others below marked "foreign" always do |
| the pipeline back | `recipe.to_albumentations()`, `recipe.to_kornia()` |
| AlbumentationsX | neither used nor read: its licence (AGPL) does not allow it here |

What differs from the libraries:

- On uint8 images they round after each transform; a recipe rounds where a transform works in 8 bits by definition, or the
  pipeline says so (`ToDtype(torch.uint8, scale=True)`, `A.FromFloat()`). torchvision's rules are those of its tensor kernels, but for
  bicubic policies, which are Pillow's.
- Where a library stops because an image is smaller than a crop, the recipe pads it. Masks take the nearest pixel.
- Boxes and keypoints lie on the picture. Albumentations' own boxes lie half a pixel beside it after `SafeRotate`, and one after
  `Affine(fit_output=True)`; boxes and keypoints half a pixel after `OpticalDistortion`; keypoints a quarter of a pixel after
  `LongestMaxSize` that halves an image.
- `transform` returns an image in the type that the pipeline returns; masks, boxes and keypoints are returned as tensors.
- Containers keep their nesting, probabilities and weights. What stands as "changed" below differs in what is said beside it.

The tables have every class of Albumentations 2.0.7 and 2.0.8 and of torchvision v2 with usual arguments. They are written by
`pytest tests/gpu_aug/convert/test_import_table.py --write-imports`.
"""
# Characters of an operation in the table; of longer ones the arguments are left out.
LONGEST = 70
NEED_ONE_SIZE = ("CutMix", "MixUp")


def rows() -> list[tuple[str, str, str, str]]:
    """Library, class, outcome, and what it became or why not."""
    found = []
    for library, cases, build in (
        ("Albumentations", ALBUMENTATIONS, build_albumentations),
        ("torchvision", TORCHVISION, build_torchvision),
    ):
        for name, args in cases:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                built = build(name, args)
                if name in NEED_ONE_SIZE:
                    built = v2.Compose([v2.Resize((64, 64)), built])
                _, lines = convert(built)
            # What the whole pipeline needs behind its last step stands last.
            own = next(
                line for line in reversed(lines) if line.path.rpartition(" > ")[2].startswith(name)
            )
            words = ", ".join(
                f"{key}={'function' if callable(value) else value}" for key, value in args.items()
            )
            note = own.note
            if own.outcome == "kept" and len(note) > LONGEST:
                note = f"{note.partition('(')[0]}(...)"
            found.append((library, f"{name}({words})", own.outcome, note))
    return found


def page() -> str:
    """The text of docs/imports.md."""
    parts = [HEAD]
    table = rows()
    for library in ("Albumentations", "torchvision"):
        mine = [row for row in table if row[0] == library]
        kept = sum(outcome != "refused" for _, _, outcome, _ in mine)
        parts.append(f"\n## {library}: {kept} of {len(mine)} rows have an equal\n")
        parts.append("| transform | outcome | became, or why not |\n| --- | --- | --- |")
        parts += [
            f"| `{call}` | {outcome} | {note.replace('|', chr(92) + '|')} |"
            for _, call, outcome, note in mine
        ]
    return "\n".join(parts) + "\n"


def test_the_page_is_what_the_importers_do(request: pytest.FixtureRequest) -> None:
    """The page in the documentation is the one that this run makes."""
    made = page()
    if request.config.getoption("--write-imports"):
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(made, encoding="utf-8")

    assert PAGE.read_text(encoding="utf-8") == made
