"""HDF5 files."""

from readers.formats.hdf5.dataset import Hdf5Dataset

__all__ = ["Hdf5Dataset"]
