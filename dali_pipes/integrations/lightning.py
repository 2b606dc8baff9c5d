"""Loaders in a Lightning Trainer: their states go into its checkpoints, their epochs follow its own."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from dali_pipes.batch import Batch
from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.loader import Loader

try:
    from lightning import LightningDataModule
except ImportError as error:
    raise MissingPackageError(
        "dali_pipes.integrations.lightning needs Lightning, which is not installed: pip install 'gpu-aug[lightning]'"
    ) from error

Maker = Callable[[], Loader]
"""Makes a loader, when torch.distributed is there to tell its rank and world size."""

SeveralMaker = Callable[[], Loader | Sequence[Loader]]
"""The same, or several loaders, which Lightning goes through in turn and numbers by `dataloader_idx`."""


class LoaderModule(LightningDataModule):  # type: ignore[misc]  # a class of any type where Lightning is not checked
    """A DataModule of loaders that resumes exactly, in the middle of an epoch too.

    Each argument is called when the trainer asks for that loader, in every process::

        data = LoaderModule(
            train=lambda: Loader(photos, Recipe.imagenet_train(), batch_size=256),
            val=lambda: Loader.eval(others, Recipe.imagenet_eval(), batch_size=256),
        )
        trainer.fit(model, data, ckpt_path=...)

    So rank and world size are those of torch.distributed, and the device is the one that Lightning gave to the process.
    Training goes through the epochs in the trainer's order; every validation, test and prediction sees
    epoch 0, and so the same samples and draws, and so does training under `overfit_batches`. Lightning puts
    no DataLoader, sampler or collation around a loader.

    The loops give `Batch`, and `training_step` gets it. Lightning cannot tell the size of one:
    ``self.log(name, value, batch_size=len(batch))``. Strategies that start processes by pickling need functions with
    names, or functools.partial, instead of lambdas.

    Checkpoints go on exactly, also those of the end of a training whose `max_steps` ended it within an epoch: Lightning
    counts that epoch as done, which is taken back.

    Args:
        train: Makes the loader of `trainer.fit`.
        val: Makes that of the validations, or a list of loaders; None does without them.
        test: Makes that of `trainer.test`, or a list.
        predict: Makes that of `trainer.predict`, or a list.

    Example:
        >>> photos = open_dataset("photos/")
        >>> data = LoaderModule(
        ...     train=lambda: Loader(photos, Recipe.imagenet_train(size=64), batch_size=8),
        ...     val=lambda: Loader.eval(photos, Recipe.imagenet_eval(), batch_size=8),
        ... )
        >>> # Trainer(max_epochs=2).fit(model, data)
    """

    def __init__(
        self,
        *,
        train: Maker | None = None,
        val: SeveralMaker | None = None,
        test: SeveralMaker | None = None,
        predict: SeveralMaker | None = None,
    ) -> None:
        super().__init__()
        self._makers = {"train": train, "val": val, "test": test, "predict": predict}
        self._loaders: dict[str, list[Loader]] = {}
        self._state: dict[str, Any] = {}

    def train_dataloader(self) -> "TrainingEpochs":
        """Make the training loader, where the loaded checkpoint stands.

        Raises:
            StateMismatchError: The checkpoint belongs to another dataset, recipe, seed or version.
        """
        [loader] = self._make("train")
        saved, self._state = self._state, {}
        if saved:
            loader.load_state_dict(saved["loader"])
        return TrainingEpochs(loader, self.trainer, saved)

    def val_dataloader(self) -> "Epochs | list[Epochs]":
        """Make the loader of the validations, or several; within `trainer.fit` an empty list stands for none."""
        validate = self.trainer is not None and self.trainer.state.fn == "validate"
        return self._fixed("val") if validate or self._makers["val"] is not None else []

    def test_dataloader(self) -> "Epochs | list[Epochs]":
        """Make the loader of the tests, or several."""
        return self._fixed("test")

    def predict_dataloader(self) -> "Epochs | list[Epochs]":
        """Make the loader of the predictions, or several."""
        return self._fixed("predict")

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        """Move a batch that is not where the trainer is, but for what belongs on the host.

        Such a move is waited for. A loader on a GPU, and "auto" where there is one, needs none.
        """
        del dataloader_idx
        return batch if batch.images.device == device else batch.to(device)

    def state_dict(self) -> dict[str, Any]:
        """The state of the training loader, once there is one, for a checkpoint."""
        if "train" not in self._loaders:
            return {}
        [loader] = self._loaders["train"]
        progress = self.trainer.fit_loop.epoch_loop.batch_progress
        return {
            "loader": loader.state_dict(),
            "num_steps": len(loader),
            "ended": progress.is_last_batch
            or progress.current.ready >= self.trainer.num_training_batches,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state of a checkpoint for the training loader."""
        self._state = state_dict

    def teardown(self, stage: str) -> None:
        """End the loops that are under way, their threads and processes."""
        del stage
        for loaders in self._loaders.values():
            for loader in loaders:
                loader.close()

    def _make(self, name: str) -> list[Loader]:
        maker = self._makers[name]
        if maker is None:
            raise LoaderError(
                f"the trainer asks for {name} data, and LoaderModule has none; give it "
                f"LoaderModule({name}=lambda: Loader(dataset, recipe, batch_size=...))"
            )
        made: Any = maker()
        several = isinstance(made, list | tuple) and made and name != "train"
        loaders = list(made) if several else [made]
        for loader in loaders:
            if not isinstance(loader, Loader):
                raise LoaderError(
                    f"LoaderModule({name}=...) made a {type(loader).__name__}; give it a function without arguments "
                    f"that returns a Loader" + ("" if name == "train" else ", or a list of them")
                )
        for before in self._loaders.get(name, []):
            if before not in loaders:
                before.close()
        self._loaders[name] = loaders
        return loaders

    def _fixed(self, name: str) -> "Epochs | list[Epochs]":
        first, *others = [Epochs(loader, lambda: 0) for loader in self._make(name)]
        return [first, *others] if others else first


class Epochs:
    """A loader whose every loop is an epoch of a given number.

    Args:
        loader: The loader to iterate over.
        epoch: Returns the number; asked when the first batch is.
    """

    def __init__(self, loader: Loader, epoch: Callable[[], int]) -> None:
        self.loader = loader
        self._epoch = epoch

    def __iter__(self) -> Iterator[Batch]:
        """Begin the epoch with the first batch: Lightning makes loops that it never reads."""
        self.loader.set_epoch(self._epoch())
        yield from self.loader

    def __len__(self) -> int:
        """Steps of a whole epoch, also where a loop is the rest of one; so Lightning counts."""
        return len(self.loader)


class TrainingEpochs(Epochs):
    """Epochs that go on where a loaded state stands.

    Lightning takes a loader with `state_dict` and `load_state_dict` for one that can resume, and keeps what
    they return beside the module's state. They are empty: the module's state is all there is.

    Args:
        loader: The loader to iterate over, which has loaded the state.
        trainer: The trainer whose epochs it follows.
        saved: What `LoaderModule.state_dict` returned, from a checkpoint; empty where there is none.
    """

    def __init__(self, loader: Loader, trainer: Any, saved: Mapping[str, Any]) -> None:
        # The number of Lightning's epoch may be ahead: by one where a checkpoint was saved by hand after `max_steps` had
        # ended an epoch, for Lightning then goes through an empty one.
        self._ahead = 0
        super().__init__(
            loader, lambda: 0 if trainer.overfit_batches else trainer.current_epoch - self._ahead
        )
        self._trainer, self._saved = trainer, saved
        state = saved.get("loader", {"consumed": 0})
        # Whether the state was taken between the first and the last batch of an epoch ...
        self._is_within = state["consumed"] > 0 and state["epoch"] == loader.epoch
        # ... and not because limit_train_batches, or a hook of the user, ends all epochs there.
        self._is_cut = self._is_within and not saved.get("ended", True)
        self._reopen()

    def __iter__(self) -> Iterator[Batch]:
        """Begin the epoch, or go on within it, with the first batch.

        Raises:
            LoaderError: Lightning would go on within an epoch that has another number of steps now.
        """
        counted = self._trainer.fit_loop.epoch_loop.batch_progress.current.ready
        before = self._saved.get("num_steps", len(self.loader))
        if (counted or self._is_cut) and before != len(self.loader):
            raise LoaderError(
                f"Lightning goes on after step {counted} of an epoch that had {before} steps and has "
                f"{len(self.loader)} here; resume with the batch_size and the number of processes of the "
                f"checkpoint, or from one of ModelCheckpoint(save_on_train_epoch_end=True)"
            )
        if counted and counted >= self._trainer.num_training_batches:
            return  # Under max_steps Lightning asks an epoch that had ended when it was saved for one more batch.
        if self._saved:
            if self._is_within and not counted:  # Lightning begins the next epoch
                self._warn_of_the_rest(self._saved["loader"])
                self.loader.set_epoch(self.loader.epoch + 1)
            self._ahead = self._trainer.current_epoch - self.loader.epoch
            self._saved = {}
        yield from super().__iter__()

    def _reopen(self) -> None:
        """Let Lightning go on within the epoch of the state, if it has counted it as done: `max_steps` ended in it."""
        progress = self._trainer.fit_loop.epoch_progress
        if self._is_cut and 0 < progress.current.ready == progress.current.processed:
            for counts in (progress.total, progress.current):
                counts.processed = counts.completed = counts.ready - 1
            self._trainer.fit_loop.restarting = True

    def _warn_of_the_rest(self, state: Mapping[str, Any]) -> None:
        if self._is_cut:
            warnings.warn(
                f"the checkpoint stands within epoch {state['epoch']}, after {state['consumed']:,} of "
                f"{state['length']:,} samples, and Lightning begins the next, so the others are left out; to go on within "
                f"it resume from a checkpoint of ModelCheckpoint(every_n_train_steps=...), or make the optimizer "
                f"without trainer.estimated_stepping_batches",
                stacklevel=2,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take nothing."""
