"""Operations that mix each pixel with its neighbors."""
