"""Loaders in training loops of libraries that `make` does not install: run by `make test-all` where they are."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.example_data import make_example_data

_BEGIN = """
import torch
from dali_pipes import Loader
from gpu_aug import Recipe
from readers import open_dataset
loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=32), batch_size=4, device="cpu")
"""
_KERAS = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
def forever(loader):
    while True:
        for images, labels in loader:
            yield images.permute(0, 2, 3, 1), labels
layers = [keras.layers.Input((32, 32, 3)), keras.layers.Flatten(), keras.layers.Dense(2)]
model = keras.Sequential(layers)
model.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
fitted = model.fit(forever(loader), steps_per_epoch=len(loader), epochs=2, verbose=0)
assert len(fitted.history["loss"]) == 2
"""
_TIMM = """
import timm.optim, timm.utils
model = timm.create_model("resnet18", num_classes=2, pretrained=False)
optimizer = timm.optim.create_optimizer_v2(model, "sgd", lr=1e-3)
meter = timm.utils.AverageMeter()
for input, target in loader:
    loss = torch.nn.functional.cross_entropy(model(input), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    meter.update(loss.item(), input.size(0))
assert meter.count == 36
"""


@pytest.mark.long
@pytest.mark.parametrize(("library", "program"), [("keras", _KERAS), ("timm", _TIMM)])
def test_a_loader_serves_the_loop_of(library: str, program: str, tmp_path: Path) -> None:
    if find_spec(library) is None:
        pytest.skip(f"needs {library}")
    make_example_data(tmp_path)
    program = _BEGIN + program
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
