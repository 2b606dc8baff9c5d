"""Arrow files, and what Hugging Face's datasets save."""

from readers.arrow.dataset import ArrowDataset

__all__ = ["ArrowDataset"]
