"""WebDataset shards that Megatron-Energon prepared."""
