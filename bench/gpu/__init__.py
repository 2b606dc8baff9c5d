"""``make gpu``: one short visit to a machine with a GPU that teaches as much as it can."""
