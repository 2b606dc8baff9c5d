"""Operations that wrap functions of the user and transforms of other libraries."""
