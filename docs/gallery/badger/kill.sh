# Kills badger between the creation of a file and the call that sets its length, and opens the database again. Needs strace.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
: "${PROGRAM:?go build in this folder makes it}"
for count in 1 2 3 4 5 6 7 8; do
    rm -rf db
    "$PROGRAM" make sync
    # The count-th ftruncate is not made any more: SIGKILL comes as it is entered.
    strace -f -o /dev/null -e trace=ftruncate -e inject=ftruncate:signal=KILL:when="$count" "$PROGRAM" write sync || true
    empty=$(find db -empty -type f -printf '%f ')
    said=$(echo "{\"directory\": \"$PWD\", \"acknowledged\": []}" | "$PROGRAM" check)
    echo "killed at ftruncate $count; files of no bytes: ${empty:-none}; then: $said"
    case $said in *unusable*) exit 0 ;; esac
done
exit 1
