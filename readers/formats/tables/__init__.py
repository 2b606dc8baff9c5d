"""Conversion of Arrow tables to samples, used for Parquet, Arrow and Lance data."""
