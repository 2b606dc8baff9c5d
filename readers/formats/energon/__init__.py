"""WebDataset shards with the metadata of Megatron-Energon."""
