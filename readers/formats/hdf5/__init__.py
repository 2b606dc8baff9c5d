"""HDF5 files, whose datasets of equal length are the columns of samples."""
