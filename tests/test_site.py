"""The site: the sources of its generated pages fit the code, and it builds without a warning."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT, Page

sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import benchmark_pages
import gallery_families
import gallery_pictures
import gallery_settings

from gpu_aug import Operation
from gpu_aug.presets import PRESETS

FOLDER = ROOT / "docs" / "gallery"
COMMAND = "python docs/_ext/gallery_pictures.py"


@pytest.fixture(scope="module")
def pictures() -> dict:
    return json.loads((FOLDER / "pictures.json").read_text())


def test_every_operation_is_on_one_page_of_the_gallery() -> None:
    """Every operation and preset has pictures, and nothing else has."""
    shown = [
        name
        for family in gallery_families.FAMILIES.values()
        for name in gallery_families.operations(family)
    ]

    # Other tests define some of their own.
    ours = sorted(
        name for name, made in Operation._classes.items() if made.__module__.startswith("gpu_aug.")
    )
    assert sorted(shown) == ours
    assert sorted(gallery_settings.SHOWN) == ours
    assert sorted(gallery_settings.PRESETS_SHOWN) == sorted(PRESETS)


def test_the_pictures_are_of_the_operations_as_they_are(pictures: dict) -> None:
    """Pictures belong to the present fingerprints; a changed meaning or default needs new ones."""
    expected = {
        name: [recipe.fingerprint for _, recipe in recipes]
        for name, recipes in gallery_pictures.shown_recipes().items()
    }
    found = {name: [one["recipe"] for one in told] for name, told in pictures.items()}

    changed = [name for name in expected if expected[name] != found.get(name)]
    assert changed == [], f"draw them again: {COMMAND} {' '.join(changed)}"
    assert found.keys() == expected.keys()


def test_every_picture_is_there_and_small(pictures: dict) -> None:
    """Pictures are part of the repository, so together they stay below 1.5 MB."""
    files = {one["file"] for told in pictures.values() for one in told}

    assert files == {path.name for path in FOLDER.glob("*.webp")}
    assert sum(path.stat().st_size for path in FOLDER.glob("*.webp")) < 1_500_000


def test_every_result_of_a_benchmark_is_shown() -> None:
    """Those of GPUs are in docs/gpu.md."""
    files = {path.stem for path in benchmark_pages.RESULTS.glob("*.json")}

    assert {name for name in files if not name.startswith("gpu-")} == set(benchmark_pages.SHOWN)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with warnings as errors and return its folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "--quiet", "--fail-on-warning"]
    done = subprocess.run([*command, "docs", str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.mark.long
def test_the_site_builds(site: Path) -> None:
    """It has a search, and an llms.txt with a list of pages and all common programs."""
    assert "detection" in (site / "searchindex.js").read_text()
    llms = (site / "llms.txt").read_text()
    assert "gallery/factors.html" in llms
    assert "## Common tasks" in llms
    assert all(block.text in llms for block in Page("docs/tasks.md").blocks)
    assert "](reading.html)" in llms  # links lead to pages of the site
    assert "](../" not in llms


@pytest.mark.long
def test_pages_need_no_network_and_describe_pictures(site: Path) -> None:
    """Pages load nothing from other hosts, and every picture has an alternative text."""
    pages = {path.name: path.read_text() for path in site.rglob("*.html")}

    assert [name for name, page in pages.items() if loaded_from_other_hosts(page)] == []
    assert [name for name, page in pages.items() if without_text(page)] == []


def test_a_page_that_needs_the_network_is_noticed() -> None:
    """Negative control: a script of another host and a picture without a text are found; links may lead anywhere."""
    page = '<a href="https://x.org"><script async src="https://x.org/a.js"></script><img src="a.png" alt="">'

    assert loaded_from_other_hosts(page) == ["https://x.org/a.js"]
    assert without_text(page) == ['<img src="a.png" alt="">']


def loaded_from_other_hosts(page: str) -> list[str]:
    """Return the URLs that a page loads from other hosts."""
    loaded = r'<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)="((?:https?:)?//[^"]*)"'
    return re.findall(loaded, page)


def without_text(page: str) -> list[str]:
    """Return the picture tags of a page without an alternative text."""
    return [tag for tag in re.findall(r"<img\b[^>]*>", page) if not re.search(r'alt="[^"]', tag)]


@pytest.mark.long
def test_a_wrong_link_fails(tmp_path: Path) -> None:
    """Negative control: a page that leads nowhere is an error."""
    (tmp_path / "conf.py").write_text('extensions = ["myst_parser"]\nnitpicky = True\n')
    (tmp_path / "index.md").write_text("# Page\n\n[there](nowhere.md)\n")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "--quiet", "--fail-on-warning"]
    done = subprocess.run([*command, ".", "out"], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
