# Kills RocketMQ between the creation of a queue's file and the call that extends it: load() is false from then on. Needs strace.
set -eu
: "${COMMAND:?make gallery-confirm sets it}"
command -v strace > /dev/null || { echo "strace is not on the PATH"; exit 77; }
eval "$COMMAND make sync"
file=store/consumequeue/T/0/00000000000000000000
# Killed as it enters the call: the file has not been extended.
(eval "exec strace -f -qq -o trace -e trace=ftruncate -P '$PWD/$file' -e inject=ftruncate:signal=KILL $COMMAND write sync") 2> err || true
echo "killed at ftruncate; $file has $(stat -c %s "$file") bytes"
[ "$(stat -c %s "$file")" = 0 ]
for attempt in 1 2; do
    echo "{\"directory\": \"$PWD\", \"acknowledged\": []}" | eval "$COMMAND check" | tee said
    grep -q "load() is false" said
done
