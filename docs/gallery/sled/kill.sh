# Kills sled as it writes a snapshot, and as it writes its configuration, and opens the database again. Needs strace.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
: "${PROGRAM:?cargo build in this folder makes it}"
# The log is written by pwrite64; snapshot and configuration by write. SIGKILL comes as the count-th is entered.
killed_at_write() {
    strace -f -o /dev/null -e trace=write -e inject=write:signal=KILL:when="$1" "$PROGRAM" write flush || true
    find db -type f -printf '%f has %s bytes; '
    echo
    echo "{\"directory\": \"$PWD\", \"acknowledged\": []}" | "$PROGRAM" check | tee said
    grep -q unusable said
}
"$PROGRAM" make flush
killed_at_write 1
rm -rf db
killed_at_write 2
