"""WebDataset shards that Megatron-Energon has prepared."""
