#!/bin/sh
# Shows a finding with the public RocketMQ jars alone: docs/findings/reproduce.sh NAME. Needs Maven and a JDK, 11 or later.
# JARS: a directory with rocketmq-store, in the finding's version, and what it needs, if there is one already.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
finding="$here/${1:?expected the name of a finding: $(cd "$here" && ls -d */ | tr -d / | tr '\n' ' ')}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
version=$(sed -n 's/^version=//p' "$finding/finding.properties")
jars=${JARS:-$scratch/jars}
if [ ! -d "$jars" ]; then
    cp "$here/pom.xml" "$scratch"
    mvn -q -B -f "$scratch/pom.xml" -Drocketmq.version="$version" dependency:copy-dependencies \
        -DoutputDirectory="$jars" -DincludeScope=runtime
fi
case $version in
    4.*) program=Reproduce.java ;;
    *) program=Start5.java ;;
esac
tar -xzf "$finding/store.tar.gz" -C "$scratch"
# RocketMQ gives maps back by reflection, which Java has to allow since 16.
opens="--add-opens java.base/java.nio=ALL-UNNAMED --add-opens java.base/jdk.internal.ref=ALL-UNNAMED"
# shellcheck disable=SC2086
java $opens -Duser.home="$scratch" -cp "$jars/*" "$here/$program" "$scratch/store" \
    "$finding/finding.properties" 2>"$scratch/log" || {
    code=$?
    cat "$scratch/log" >&2
    exit $code
}
