"""WebDataset shards that Megatron-Energon has prepared."""

from readers.formats.energon.dataset import EnergonDataset

__all__ = ["EnergonDataset"]
