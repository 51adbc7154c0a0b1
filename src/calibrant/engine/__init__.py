"""Tallies where the data lives: any frame that narwhals reads, DuckDB and Spark included."""
