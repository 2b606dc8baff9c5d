"""Operations that move pixels: flips, crops, resizes, warps and borders."""
