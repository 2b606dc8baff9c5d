"""The stages of a batch (fetch, decode, augment), and who carries them out: threads or helper processes."""
