"""Convert the fields of a sample to values: targets, masks, labels, maps and further fields."""
