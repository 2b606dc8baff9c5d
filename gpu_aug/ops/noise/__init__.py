"""Operations that add noise, or degrade 8-bit values."""
