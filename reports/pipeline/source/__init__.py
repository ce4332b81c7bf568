"""Store directories as Spark tables: `spark.read.format("rocketmq").load(directory)`.

Any directory that RocketMQ 4.9 or tornlog wrote, on any file system that pyarrow.fs opens. rocketmq has the source and
its options, the other modules one table each.
"""
