"""Records of a run: its audit, its attempts and its bad samples; and the replay of one row of a batch."""
