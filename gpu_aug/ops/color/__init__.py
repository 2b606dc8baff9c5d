"""Operations that change values and leave pixels where they are."""
