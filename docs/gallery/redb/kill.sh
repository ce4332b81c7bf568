# Kills redb between the call that gives a new file its length and the first that writes to it. Needs strace.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
: "${PROGRAM:?cargo build in this folder makes it}"
# The first pwrite64 is not made any more: SIGKILL comes as it is entered.
strace -f -o /dev/null -e trace=pwrite64 -e inject=pwrite64:signal=KILL:when=1 "$PROGRAM" write immediate || true
stat -c 'the file has %s bytes' db
for attempt in 1 2; do
    echo "{\"directory\": \"$PWD\", \"acknowledged\": []}" | "$PROGRAM" check | tee said
    grep -q unusable said
done
