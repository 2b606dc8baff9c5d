"""`gpu-aug recipe`."""

import re
from pathlib import Path

from tests.support.commands import Run


def test_recipe_show_lists_operations_and_costs(run: Run, tmp_path: Path) -> None:
    """Every operation has a row, also those inside others, with a cost for each engine."""
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "version: 1\noperations:\n- RandomResizedCrop: 32\n- OneOf: [Grayscale, HorizontalFlip]\n- Normalize\n"
    )

    code, printed, _ = run("recipe", "show", path)

    assert code == 0
    for word in ("while decoding", "OneOf", "Grayscale", "HorizontalFlip", "Normalize", "32 x 32"):
        assert word in printed
    assert len(re.findall(r"\d\.\d\d", printed)) >= 8


def test_recipe_show_of_clips(run: Run, tmp_path: Path) -> None:
    """What chooses among frames is not done while decoding, the crop behind it is."""
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "version: 1\noperations:\n- TemporalReverse\n- RandomResizedCrop: 32\n- HorizontalFlip\n"
    )

    code, printed, _ = run("recipe", "show", path)

    rows = [
        line
        for line in printed.splitlines()
        if "RandomResizedCrop" in line or "Temporal" in line or "Flip" in line
    ]
    assert code == 0
    assert ["decoding" in row for row in rows] == [False, True, False]


def test_recipe_convert_writes_what_it_reports(run: Run, tmp_path: Path) -> None:
    """A saved Albumentations pipeline becomes a recipe file, with a line for every step."""
    import albumentations as A

    from gpu_aug import Recipe

    pipeline = A.Compose([A.RandomCrop(32, 32), A.OneOf([A.HorizontalFlip(), A.ToGray()], p=0.3)])
    A.save(pipeline, tmp_path / "a.yaml", data_format="yaml")

    code, printed, _ = run("recipe", "convert", tmp_path / "a.yaml", "-o", tmp_path / "r.yaml")

    assert code == 0
    for word in ("RandomCrop", "OneOf", "HorizontalFlip", "ToGray", "kept"):
        assert word in printed
    assert Recipe.load(tmp_path / "r.yaml") == Recipe.from_albumentations(pipeline)


def test_recipe_convert_refuses_by_name(run: Run, tmp_path: Path) -> None:
    """What has no equal is named with the reason, no file is written, and --keep-foreign keeps it."""
    import albumentations as A

    A.save(A.Compose([A.ToGray(method="pca", p=1.0)]), tmp_path / "a.json")
    out = tmp_path / "r.yaml"

    code, printed, error = run("recipe", "convert", tmp_path / "a.json", "-o", out)

    assert code == 2
    assert "ToGray" in printed
    assert "refused" in printed
    assert "1 of 1 steps have no equal here" in error
    assert not out.exists()
    assert run("recipe", "convert", tmp_path / "a.json", "-o", out, "--keep-foreign")[0] == 0
    assert "ToGray" in out.read_text()
