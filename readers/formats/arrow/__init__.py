"""Arrow files, including those saved by Hugging Face datasets."""

from readers.formats.arrow.dataset import ArrowDataset

__all__ = ["ArrowDataset"]
