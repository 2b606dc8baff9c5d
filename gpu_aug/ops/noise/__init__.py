"""Operations that add noise or compression artefacts."""
