"""The stages of one batch: fetch, decode, augment; in threads or in a helper process."""
