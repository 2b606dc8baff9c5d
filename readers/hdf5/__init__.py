"""HDF5 files."""

from readers.hdf5.dataset import Hdf5Dataset

__all__ = ["Hdf5Dataset"]
