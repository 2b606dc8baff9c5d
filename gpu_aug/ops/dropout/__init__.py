"""Operations that paint over parts of an image."""
