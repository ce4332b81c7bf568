"""Seeds and store directories by the million, on Spark: sweeps, their analysis, the table source, the audit."""
