"""All tables of an analysis, by name, and the files that keep them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from .coverage import coverage
from .detection import detections, mutants
from .pass_rates import pass_rates
from .put_latency import put_latency


def analysed(rows: DataFrame) -> dict[str, pa.Table]:
    """Return every table that rows give: the same rows, the same tables, whatever Spark's partitions."""
    by_scenario = detections(rows)
    return {
        "pass_rates": pass_rates(rows),
        "mutants": mutants(rows, by_scenario),
        "detections": by_scenario,
        "coverage": coverage(rows),
        "put_latency": put_latency(rows),
    }


def write_tables(tables: dict[str, pa.Table], directory: Path) -> list[Path]:
    """Write each table to a Parquet file of its name in a directory that is made if need be; return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in tables.items():
        paths.append(directory / f"{name}.parquet")
        pq.write_table(table, paths[-1])
    return paths
