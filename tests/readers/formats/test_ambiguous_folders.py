"""Folders that could be meant in two ways are refused, with the calls to write."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from readers import SourceError, open_dataset
from tests.support.opening import open_with_warning

_VOC = (
    "<annotation><filename>a.jpg</filename><object><name>gadget</name><bndbox><xmin>1</xmin><ymin>1</ymin>"
    "<xmax>5</xmax><ymax>5</ymax></bndbox></object></annotation>"
)


@pytest.mark.parametrize("record", ["extra.tar", "extra.parquet"])
def test_annotations_beside_a_record_file(
    jpeg: Callable[..., bytes], tmp_path: Path, record: str
) -> None:
    """Both calls are named; the name of the format decides."""
    (tmp_path / "a.jpg").write_bytes(jpeg(20, 20, seed=1))
    (tmp_path / "a.xml").write_text(_VOC)
    (tmp_path / record).write_bytes(bytes(1024))
    with pytest.raises(SourceError, match="holds files of voc and extra") as refused:
        open_dataset(tmp_path)
    assert f"open_dataset({str(tmp_path)!r}, format='voc')" in str(refused.value)
    assert f"open_dataset({str(tmp_path / record)!r})" in str(refused.value)
    assert open_with_warning("coordinates", tmp_path, format="voc").class_names == ("gadget",)


def test_a_folder_of_annotations_alone(tmp_path: Path) -> None:
    """The call that opens its file is named."""
    (tmp_path / "images").mkdir()
    (tmp_path / "annotations").mkdir()
    path = tmp_path / "annotations" / "instances.json"
    path.write_text(json.dumps({"images": [], "annotations": [], "categories": []}))
    with pytest.raises(SourceError) as refused:
        open_dataset(path.parent)
    assert f"as in open_dataset({str(path)!r})" in str(refused.value)
