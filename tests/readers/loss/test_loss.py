"""Every format in every situation where data could be lost without a word."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import tests.readers.loss
from readers.detect.registry import FORMATS
from tests.readers.formats.conftest import no_pauses  # noqa: F401  (used by every test here)
from tests.support.loss import Cell, NotApplicable

# A recipe with upright boxes, or without boxes, warns of data with oriented ones.
pytestmark = pytest.mark.filterwarnings("ignore:the data has oriented boxes:UserWarning")
KINDS = (
    *("labels", "class_numbers", "frames", "ends", "transient", "stores", "contents", "limits"),
    "first_sample",
)
TABLE: dict[str, dict[str, Cell]] = {
    found.name: importlib.import_module(f"tests.readers.loss.{found.name}").CELLS
    for found in pkgutil.iter_modules(tests.readers.loss.__path__)
    if not found.name.startswith("test_")
}


def test_every_kind_is_here() -> None:
    assert tuple(kind for kind in KINDS if kind in TABLE) == KINDS
    assert TABLE.keys() == set(KINDS)
    assert {kind for kind in KINDS if TABLE[kind].keys() != set(FORMATS)} == set()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format_name", FORMATS)
def test_nothing_is_lost_silently(kind: str, format_name: str, tmp_path: Path) -> None:
    cell = TABLE[kind][format_name]

    if isinstance(cell, NotApplicable):
        assert cell.reason.endswith("."), "a reason is a sentence"
    else:
        cell(tmp_path)
