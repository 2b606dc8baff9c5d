"""docs/imports.md says what becomes of every transform of Albumentations and torchvision."""

import warnings
from pathlib import Path

import pytest
from torchvision.transforms import v2

from gpu_aug.convert import convert
from tests.gpu_aug.convert.test_convert import build_albumentations, build_torchvision
from tests.support.pipelines import ALBUMENTATIONS, TORCHVISION

PAGE = Path(__file__).resolve().parents[3] / "docs" / "imports.md"
HEAD = """# What can be imported

`Recipe.from_albumentations(pipeline)` and `Recipe.from_torchvision(pipeline)` make a recipe of a pipeline: the same laws of the
draws, the same pixels. What cannot mean the same is refused by name, with the reason; `strict=False` keeps it as a
step that runs in its own library on the CPU. This table has every class of Albumentations 2.0.7 and 2.0.8 and of torchvision v2 with
arguments that its users give, and is written by the tests: `pytest tests/gpu_aug/convert/test_import_table.py --write-imports`.
What stands as "changed" is an operation whose law differs in what is said beside it; `gpu_aug.convert.convert` tells it of a pipeline of
your own. `weights.transforms()` of torchvision, and timm's crop, erasing and conversions, are read as the transforms they stand for.
Where a library stops with an error because an image is smaller than a crop, the recipe pads it. torchvision's rules are
those of its tensor kernels. `ToDtype(scale=False)` becomes the Normalize of its row only where no Normalize follows it.
Boxes are those of Albumentations but for two transforms, of which its own lie beside its picture: after
`SafeRotate` by half a pixel, after `Affine(fit_output=True)` by one. Those of a recipe lie on the picture.
Containers (`Compose`, `OneOf`, `SomeOf`, `RandomOrder`, `Sequential`, `RandomApply`, `RandomChoice`) keep their nesting,
probabilities and weights.
"""
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
            found.append((library, f"{name}({words})", own.outcome, own.note))
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
