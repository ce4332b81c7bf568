#!/bin/bash
# Be what Spark asks its image for: an executor, for the word `executor`; any other command as it is.
set -eu
[ "${1:-}" = executor ] || exec "$@"

options=()  # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ... in that order
number=0
while name=SPARK_JAVA_OPT_$number && [ -n "${!name:-}" ]; do
    options+=("${!name}")
    number=$((number + 1))
done

exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-/opt/spark/conf}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
