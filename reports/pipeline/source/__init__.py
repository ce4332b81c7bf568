"""Spark data source for store directories: `spark.read.format("rocketmq").load(directory)`.

The source reads any directory of RocketMQ 4.9 or tornlog, on any file system that pyarrow.fs opens. `rocketmq` defines
the source, `source_options` its options, and most other modules one table each.
"""
