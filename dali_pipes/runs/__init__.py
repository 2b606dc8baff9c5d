"""Records of a run (audit, attempts and bad samples), and the replay of one row of a batch."""
