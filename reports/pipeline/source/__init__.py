"""Spark data source for store directories: `spark.read.format("rocketmq").load(directory)`.

It reads stores of RocketMQ 4.9 and tornlog on any file system that pyarrow.fs opens. The module `rocketmq` defines the
source, and `source_options` its options.
"""
