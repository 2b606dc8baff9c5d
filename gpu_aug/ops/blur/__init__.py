"""Operations that compute each pixel from its neighbours: blurs and sharpening."""
