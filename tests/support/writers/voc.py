"""Pascal VOC as torchvision reads it: a list of pictures, and XML for each."""

from pathlib import Path

from readers.formats.voc.survey import CLASSES
from tests.support.writers import Expected, Written, size_of, write_images

FORMAT = "voc"
CHECKED_AGAINST = "torchvision"
OPTIONS = {"classes": CLASSES}  # without them a damaged annotation is refused
_NAMES = ("bird", "cat", "dog")


def write(folder: Path, samples: list[Written]) -> Path:
    root = folder / "VOCdevkit" / "VOC2012"
    write_images(root / "JPEGImages", samples)
    for inside in ("Annotations", "ImageSets/Main"):
        (root / inside).mkdir(parents=True)
    for sample in samples:
        width, height = size_of(sample)
        sides = {"xmin": 1, "ymin": 2, "xmax": width, "ymax": height - 1}
        box = "".join(f"<{side}>{value}</{side}>" for side, value in sides.items())
        (root / "Annotations" / f"{sample.name}.xml").write_text(
            f"<annotation><filename>{sample.name}.jpg</filename><size><width>{width}</width><height>{height}</height>"
            f"<depth>3</depth></size><object><name>{_NAMES[sample.label % 3]}</name><bndbox>{box}</bndbox></object></annotation>"
        )
    listed = "".join(f"{sample.name}\n" for sample in samples)
    (root / "ImageSets" / "Main" / "train.txt").write_text(listed)
    return root


def expected(source: Path) -> list[Expected]:
    from torchvision.datasets import VOCDetection

    read = VOCDetection(source.parent.parent, "2012", "train")
    return [Expected(Path(path).stem, Path(path).read_bytes(), -1) for path in read.images]


def damage(source: Path) -> Path:
    name = (source / "ImageSets" / "Main" / "train.txt").read_text().split()[11]
    path = source / "Annotations" / f"{name}.xml"
    path.write_text(path.read_text()[:-20])
    return source
