"""Batches as JAX and CuPy arrays: their values, what is shared, how long it lives, and errors in words."""

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import Batch, Execution, LoaderError
from dali_pipes.integrations.dlpack import _require_jax_device, to_cupy, to_jax
from gpu_aug import CutMix, HorizontalFlip, RandomResizedCrop, Recipe
from gpu_aug.views import Views
from readers import Dataset, open_dataset
from tests.support.loaders import loader_maker
from tests.support.small import make_small

jax = pytest.importorskip("jax")

DTYPES = [torch.uint8, torch.float16, torch.bfloat16, torch.float32]
RECIPE = Recipe([RandomResizedCrop((24, 16)), HorizontalFlip()])


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> Dataset:
    """Small pictures of three classes."""
    return make_small(jpeg, 16)


load = loader_maker(RECIPE)


@pytest.fixture
def batch(dataset: Dataset) -> Batch:
    """The first batch of that loader."""
    return next(iter(load(dataset)))


def aligned(batch: Batch) -> Batch:
    """The batch in memory that begins at a multiple of 64 bytes, as torch's own does and JAX asks for."""
    images = batch.images.clone(memory_format=torch.preserve_format)
    assert images.data_ptr() % 64 == 0
    return Batch(images, batch.labels, batch.indices, batch.keys, batch.valid)


def as_numpy(array: Any) -> np.ndarray:
    return np.asarray(array).astype(np.float32)


def expected_images(batch: Batch) -> np.ndarray:
    return batch.images.float().numpy().transpose(0, 2, 3, 1)


@pytest.mark.parametrize(("convert", "module"), [(to_jax, "jax"), (to_cupy, "cupy")])
@pytest.mark.parametrize("wrap", [lambda batch: batch.images, lambda batch: [batch]])
def test_what_is_no_batch_is_refused(
    batch: Batch, convert: Any, module: str, wrap: Callable[[Batch], Any]
) -> None:
    """A tensor or a list of batches: the sentence says what is wanted."""
    pytest.importorskip(module)

    with pytest.raises(
        LoaderError, match=rf"to_{module} takes a Batch .*, got (Tensor|list); give"
    ):
        convert(wrap(batch))


class TestJax:
    @pytest.mark.parametrize("channels_last", [True, False])
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_values(self, dataset: Dataset, dtype: torch.dtype, channels_last: bool) -> None:
        """Images are [B, H, W, 3] of every type and layout, with labels and validity."""
        batch = next(
            iter(load(dataset, dtype=dtype, execution=Execution(channels_last=channels_last)))
        )
        arrays = to_jax(batch)

        assert {name: (array.shape, str(array.dtype)) for name, array in arrays.items()} == {
            "images": ((4, 24, 16, 3), str(dtype).removeprefix("torch.")),
            "labels": ((4,), "int32"),
            "valid": ((4,), "bool"),
        }
        assert np.array_equal(as_numpy(arrays["images"]), expected_images(batch))
        assert arrays["labels"].tolist() == batch.labels.tolist()
        assert arrays["valid"].tolist() == [True] * 4

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_channels_last_is_not_copied(self, dataset: Dataset, dtype: torch.dtype) -> None:
        """The array begins where the tensor does; under channels_last=False it does not."""
        batch = aligned(next(iter(load(dataset, dtype=dtype))))
        planes = aligned(
            next(iter(load(dataset, dtype=dtype, execution=Execution(channels_last=False))))
        )

        assert to_jax(batch)["images"].unsafe_buffer_pointer() == batch.images.data_ptr()
        assert to_jax(planes)["images"].unsafe_buffer_pointer() != planes.images.data_ptr()

    @pytest.mark.parametrize(
        ("channels_last", "helper_process"),
        [(True, False), (False, False), pytest.param(True, True, marks=pytest.mark.long)],
    )
    def test_the_loaders_memory_is_shared(
        self, dataset: Dataset, channels_last: bool, helper_process: bool
    ) -> None:
        """Batches as the loader hands them over begin at multiples of 64 bytes, where JAX takes them without a copy."""
        options: dict[str, Any] = {
            "execution": Execution(channels_last=channels_last, helper_process=helper_process)
        }
        views = Views([RECIPE, Recipe([RandomResizedCrop(size=(7, 9))])])
        with load(dataset, views, batch_size=3, **options) as loader:
            batches = list(loader)

        images = [view for batch in batches for view in batch.views]
        assert (len(images), [view.data_ptr() % 64 for view in images]) == (10, [0] * 10)
        if channels_last:
            shared = [to_jax(batch)["images"].unsafe_buffer_pointer() for batch in batches]
            assert shared == [batch.images.data_ptr() for batch in batches]

    @pytest.mark.parametrize("helper_process", [False, pytest.param(True, marks=pytest.mark.long)])
    def test_arrays_outlive_their_batch(self, dataset: Dataset, helper_process: bool) -> None:
        """Arrays that are held stay as they were while the loader makes three more batches."""
        with load(
            dataset, batch_size=2, execution=Execution(helper_process=helper_process)
        ) as loader:
            loop = iter(loader)
            batch = next(loop)
            expected = expected_images(batch).copy()
            held = to_jax(batch)["images"]
            del batch
            others = [expected_images(next(loop)) for _ in range(3)]

        assert np.array_equal(as_numpy(held), expected)
        assert not any(np.array_equal(other, expected) for other in others)

    def test_soft_labels(self, dataset: Dataset) -> None:
        """Labels of mixed samples keep their float32."""
        batch = next(iter(load(dataset, Recipe([RandomResizedCrop(8), CutMix(num_classes=3)]))))

        np.testing.assert_array_equal(to_jax(batch)["labels"], batch.labels.numpy(), strict=True)

    def test_views(self, dataset: Dataset) -> None:
        """Several views come as a list, whose first is the images."""
        views = Views([Recipe([RandomResizedCrop(size)]) for size in (16, 8)])
        arrays = to_jax(next(iter(load(dataset, views))))

        assert [view.shape for view in arrays["views"]] == [(4, 16, 16, 3), (4, 8, 8, 3)]
        assert np.array_equal(arrays["images"], arrays["views"][0])

    def test_targets(self, tmp_path: Any, jpeg: Callable[..., bytes]) -> None:
        """Boxes and keypoints are lists with an array per sample, of its number of them."""
        for number in range(4):
            (tmp_path / f"{number}.jpg").write_bytes(jpeg(24, 16, seed=number))
            targets = {"boxes": [[1, 2, 9, 20]] * number, "labels": [5] * number}
            (tmp_path / f"{number}.json").write_text(json.dumps(targets))
        batch = next(iter(load(open_dataset(tmp_path), shuffle="none", dtype=torch.float32)))
        arrays = to_jax(batch)

        for array, boxes in zip(arrays["boxes"], batch.boxes, strict=True):
            assert np.array_equal(array, boxes.numpy())
        assert {str(labels.dtype) for labels in arrays["box_labels"]} == {"int32"}

    def test_without_a_gpu(self) -> None:
        """A batch on a GPU that JAX does not see is refused with what to install."""
        if jax.default_backend() != "cpu":
            pytest.skip("this JAX sees a GPU")
        with pytest.raises(LoaderError, match=r"on cuda:0, but JAX has no such device, only \[Cpu"):
            _require_jax_device(torch.device("cuda", 0))


class TestCupy:
    def test_a_batch_on_the_cpu_is_refused(self, batch: Batch) -> None:
        """The error names the loader's device and what to give instead."""
        pytest.importorskip("cupy")
        with pytest.raises(LoaderError, match=r'got images on cpu; give Loader\(device="cuda"\)'):
            to_cupy(batch)

    @pytest.mark.needs_cuda
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_values_and_place(self, dataset: Dataset, dtype: torch.dtype) -> None:
        """Arrays lie in the batch's memory, in the shape that to_jax gives."""
        pytest.importorskip("cupy")
        batch = next(iter(load(dataset, device="cuda", dtype=dtype)))
        arrays = to_cupy(batch)

        assert arrays["images"].shape == (4, 24, 16, 3)
        assert arrays["images"].data.ptr == batch.images.data_ptr()
        on_host = Batch(batch.images.cpu(), batch.labels, batch.indices, batch.keys, batch.valid)
        assert np.array_equal(as_numpy(arrays["images"].get()), expected_images(on_host))
        assert arrays["labels"].get().tolist() == batch.labels.tolist()
        assert arrays["valid"].get().tolist() == [True] * 4

    @pytest.mark.needs_cuda
    def test_arrays_outlive_their_batch_on_another_stream(self, dataset: Dataset) -> None:
        """What a stream of CuPy's still reads is not overwritten by the loader's next batches."""
        cupy = pytest.importorskip("cupy")
        loop = iter(load(dataset, device="cuda", batch_size=2, dtype=torch.float32))
        batch = next(loop)
        expected = expected_images(
            Batch(batch.images.cpu(), batch.labels, batch.indices, batch.keys, batch.valid)
        ).sum()
        with cupy.cuda.Stream(non_blocking=True):
            images = to_cupy(batch)["images"]
            del batch
            wait = cupy.RawKernel(
                'extern "C" __global__ void wait(){long long t=clock64();while(clock64()-t<200000000);}',
                "wait",
            )
            wait((1,), (1,), ())
            total = images.sum()
            del images
            for _ in range(3):
                next(loop)
            assert float(total.get()) == pytest.approx(float(expected), rel=1e-4)

    @pytest.mark.needs_cuda
    def test_jax_takes_the_gpus_memory(self, dataset: Dataset) -> None:
        """A JAX with a GPU shares a batch there."""
        try:
            jax.local_devices(backend="gpu")
        except RuntimeError:
            pytest.skip("this JAX has no GPU")
        batch = next(iter(load(dataset, device="cuda")))
        assert to_jax(batch)["images"].unsafe_buffer_pointer() == batch.images.data_ptr()


@pytest.mark.parametrize(
    ("name", "package", "sentence"),
    [
        ("to_jax", "jax", "to_jax needs JAX, which is not installed: pip install 'gpu-aug[jax]'"),
        ("to_cupy", "cupy", "pip install 'gpu-aug[cupy12]' for CUDA 12"),
    ],
)
def test_a_missing_package(
    batch: Batch, monkeypatch: pytest.MonkeyPatch, name: str, package: str, sentence: str
) -> None:
    """One sentence says how to install it."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=re.escape(sentence)):
        {"to_jax": to_jax, "to_cupy": to_cupy}[name](batch)
