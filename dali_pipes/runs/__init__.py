"""Record a run (audit, attempts and bad samples), and make one row of a batch again (replay)."""
