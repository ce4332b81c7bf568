# Kills fjall between the creation of its first journal and the call that gives it its length. Needs strace.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
: "${PROGRAM:?cargo build in this folder makes it}"
# The first ftruncate is not made any more: SIGKILL comes as it is entered.
strace -f -o /dev/null -e trace=ftruncate -e inject=ftruncate:signal=KILL:when=1 "$PROGRAM" write sync-data || true
find db -type f -printf '%f has %s bytes; '
echo
for attempt in 1 2; do
    echo "{\"directory\": \"$PWD\", \"acknowledged\": []}" | "$PROGRAM" check | tee said
    grep -q unusable said
done
