"""Where the rows of a test are: in memory, in a file of the folder, or in a table of a database."""

import ibis


def in_memory(rows, folder):
    """The rows themselves."""
    return rows


def as_parquet(rows, folder):
    """A Parquet file of them."""
    rows.to_parquet(folder / "frame.parquet")
    return folder / "frame.parquet"


def as_csv(rows, folder):
    """A text file of them."""
    rows.to_csv(folder / "frame.csv", index=False)
    return folder / "frame.csv"


def as_ibis(rows, folder):
    """A table of them that Ibis reads."""
    return ibis.memtable(rows)
