"""The loader on a GPU: the samples, draws and verdicts of the CPU, and pixels within the decoders' tolerance."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from dali_pipes import Loader
from gpu_aug import (
    CenterCrop,
    CutMix,
    HorizontalFlip,
    MixUp,
    RandomResizedCrop,
    Recipe,
    Resize,
)
from gpu_aug.views import Views
from readers import Dataset, open_dataset
from tests.support.loaders import (
    assert_same_images,
    images_by_index,
    loader_maker,
    rows_of,
    write_images,
)

pytestmark = pytest.mark.needs_cuda
DEVICE = "cuda"
DECODERS = ["cpu", pytest.param("dali", marks=pytest.mark.needs_dali)]
PLAIN = Recipe([RandomResizedCrop(96), HorizontalFlip()])


@pytest.fixture(scope="module")
def dataset(photos: list[Path]) -> Dataset:
    """Twelve photographs."""
    return open_dataset(photos)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, photos: list[Path]) -> Dataset:
    """The photographs, two of them damaged: one cut short, one with nonsense for Huffman tables."""
    images = [path.read_bytes() for path in photos]
    images[2] = images[2][: len(images[2]) // 2]
    at = images[5].index(b"\xff\xc4") + 5
    images[5] = images[5][:at] + b"\xff" * 16 + images[5][at + 16 :]
    return write_images(tmp_path_factory.mktemp("faulty"), images, labels=[0] * len(photos))


load = loader_maker(
    PLAIN, dtype=torch.float32, shuffle="none", last_batch="partial", device=DEVICE, decoder="auto"
)


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Within the tolerance of a GPU decode (4/255 per pixel) and of DALI's border (16/255)."""
    gap = (actual - expected).abs() * 255
    assert gap.mean() < 1
    assert gap[:, 3:-3, 3:-3].max() <= 6
    assert gap.max() <= 20


@pytest.mark.parametrize("decoder", DECODERS)
def test_batches_are_the_cpus(dataset: Dataset, decoder: str) -> None:
    """On the GPU every sample has the picture it has on the CPU; its neighbour has another one."""
    expected = images_by_index(load(dataset, device="cpu", decoder="cpu"))
    actual = images_by_index(load(dataset, decoder=decoder))

    assert actual.keys() == expected.keys()
    for index, image in actual.items():
        assert_close(image, expected[index])
        with pytest.raises(AssertionError):
            assert_close(image, expected[(index + 1) % len(expected)])


def test_pixels_without_dali_are_the_cpus(dataset: Dataset) -> None:
    """Decoded on the CPU and augmented on the GPU, pictures differ by rounding alone."""
    expected = images_by_index(load(dataset, device="cpu", decoder="cpu"))
    actual = images_by_index(load(dataset, decoder="cpu"))

    assert max((actual[i] - expected[i]).abs().max() for i in expected) < 1e-5


@pytest.mark.parametrize("decoder", DECODERS)
def test_batch_lies_on_the_device(dataset: Dataset, decoder: str) -> None:
    """Images and labels are on the GPU, float32 and channels last by default."""
    loader = Loader(dataset, Recipe.imagenet_train(), batch_size=4, device=DEVICE, decoder=decoder)
    batch = next(iter(loader))

    assert (batch.images.device.type, batch.labels.device.type) == (DEVICE, DEVICE)
    assert batch.images.dtype == torch.float32
    assert batch.images.shape == (4, 3, 224, 224)
    assert batch.images.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("policy", ["replace", "skip"])
@pytest.mark.parametrize("decoder", DECODERS)
def test_bad_samples(faulty: Dataset, decoder: str, policy: str) -> None:
    """Verdicts and substitutes are the CPU's, and the neighbours of a bad sample come through."""
    reference = load(faulty, device="cpu", decoder="cpu", on_bad_sample=policy)
    expected = list(reference)
    loader = load(faulty, decoder=decoder, on_bad_sample=policy)
    actual = list(loader)

    assert [b.indices.tolist() for b in actual] == [b.indices.tolist() for b in expected]
    assert loader.bad_samples == reference.bad_samples
    assert {record.index for record in loader.bad_samples} == {2, 5}
    for (_, image), (_, wanted) in zip(rows_of(actual), rows_of(expected), strict=True):
        assert_close(image, wanted)


@pytest.mark.needs_dali
def test_pixels_do_not_depend_on_the_batch(dataset: Dataset) -> None:
    """In batches larger and smaller than what the JPEG engine decodes at once."""
    small, large = (load(dataset, decoder="dali", batch_size=size) for size in (3, 12))
    assert_same_images(small, large)


@pytest.mark.needs_dali
def test_neighbours_are_bit_identical(faulty: Dataset, dataset: Dataset) -> None:
    """A bad sample does not change a bit of the samples beside it."""
    with_bad = images_by_index(load(faulty, decoder="dali", on_bad_sample="skip"))
    without = images_by_index(load(dataset, decoder="dali"))

    assert sorted(with_bad) == [index for index in range(12) if index not in (2, 5)]
    assert all(torch.equal(image, without[index]) for index, image in with_bad.items())


@pytest.mark.parametrize("decoder", DECODERS)
def test_many_batches_stay_aligned(faulty: Dataset, decoder: str) -> None:
    """After many batches with bad samples every row is still the sample it claims to be."""
    options = {"on_bad_sample": "replace", "shuffle": "global", "max_bad_samples": 10_000}
    loader = load(faulty, decoder=decoder, batch_size=3, **options)
    reference = load(faulty, device="cpu", decoder="cpu", batch_size=3, **options)
    for _ in range(8):
        for batch, expected in zip(loader, reference, strict=True):
            assert torch.equal(batch.indices, expected.indices)
            for image, wanted in zip(batch.images.cpu(), expected.images, strict=True):
                assert_close(image, wanted)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(("first", "second"), [(DEVICE, "cpu"), ("cpu", DEVICE)])
@pytest.mark.parametrize("batch_size", [4, 2])
def test_resume_on_another_device(
    dataset: Dataset, decoder: str, first: str, second: str, batch_size: int
) -> None:
    """A run goes on in the middle of its second epoch on a machine with, or without, a GPU, and in other batches."""
    options = {"decoder": decoder, "shuffle": "global"}
    whole = load(dataset, device="cpu", **{**options, "decoder": "cpu"})
    expected = rows_of([*whole, *whole, *whole])
    begun = load(dataset, device=first, **options)
    found = rows_of([*begun, next(iter(begun))])
    resumed = load(dataset, device=second, batch_size=batch_size, **options)
    resumed.load_state_dict(json.loads(json.dumps(begun.state_dict())))
    found += rows_of([*resumed, *resumed])

    assert [index for index, _ in found] == [index for index, _ in expected]
    for (_, image), (_, wanted) in zip(found, expected, strict=True):
        assert_close(image, wanted)


@pytest.mark.parametrize("decoder", DECODERS)
def test_memory_reused_by_the_step_is_safe(dataset: Dataset, decoder: str) -> None:
    """A step that allocates and frees much gives the same sums with and without waiting for the GPU."""

    def sums(*, wait: bool) -> list[float]:
        found = []
        loader = load(dataset, decoder=decoder, recipe=Recipe.imagenet_train())
        for _ in range(8):
            for batch in loader:
                if wait:
                    torch.cuda.synchronize()
                scratch = [torch.full_like(batch.images, float(n)) for n in range(4)]
                found.append((batch.images.double() * scratch[1]).sum())
                del scratch, batch
        return torch.stack(found).tolist()

    assert sums(wait=True) == sums(wait=False)


RAGGED = Recipe([Resize(120), HorizontalFlip(1), CenterCrop(96)])
MIXED = Recipe([RandomResizedCrop(96), CutMix(num_classes=1), MixUp(num_classes=1)])
SEVERAL = Views([PLAIN, RAGGED, Recipe([HorizontalFlip(), RandomResizedCrop(64)])])


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(
    "recipe", [RAGGED, MIXED, SEVERAL], ids=["several sizes", "mixed", "several views"]
)
def test_other_recipes_are_the_cpus(faulty: Dataset, decoder: str, recipe: Recipe | Views) -> None:
    """Images of several sizes, mixed samples and views are those of the CPU, beside bad samples, too."""
    options = {"recipe": recipe, "on_bad_sample": "skip", "batch_size": 3}
    expected = list(load(faulty, device="cpu", decoder="cpu", **options))
    actual = list(load(faulty, decoder=decoder, **options))

    for batch, wanted in zip(actual, expected, strict=True):
        assert torch.equal(batch.indices, wanted.indices)
        assert torch.equal(batch.labels.cpu(), wanted.labels)
        for view, other in zip(batch.views, wanted.views, strict=True):
            assert view.device.type == DEVICE
            for image, same in zip(view.cpu(), other, strict=True):
                assert_close(image, same)
    with pytest.raises(AssertionError):
        assert_close(actual[0].images[0].cpu(), expected[1].images[0])


@pytest.mark.parametrize("decoder", DECODERS)
def test_targets_are_the_cpus(tmp_path: Path, photos: list[Path], decoder: str) -> None:
    """Masks, boxes and keypoints lie on the GPU and are those of the CPU, to the bit."""
    for number, path in enumerate(photos):
        (tmp_path / f"{number:02d}.jpg").write_bytes(path.read_bytes())
        with Image.open(path) as opened:
            size = opened.size
        Image.new("L", size, number).save(tmp_path / f"{number:02d}.mask.png")
        found = {"boxes": [[5, 6, 70, 80]] * (number % 3), "keypoints": [[60, 50]]}
        (tmp_path / f"{number:02d}.json").write_text(json.dumps(found))
    dataset = open_dataset(tmp_path)
    expected = list(load(dataset, device="cpu", decoder="cpu"))
    for batch, wanted in zip(load(dataset, decoder=decoder), expected, strict=True):
        assert batch.masks.device.type == DEVICE
        assert torch.equal(batch.masks.cpu(), wanted.masks)
        for name in ("boxes", "keypoints"):
            for one, other in zip(getattr(batch, name), getattr(wanted, name), strict=True):
                assert one.device.type == DEVICE
                assert torch.equal(one.cpu(), other)
