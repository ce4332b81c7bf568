# Kills BuntDB inside the write of a transaction of 8 keys, and counts its keys in the next Open.
set -eu
: "${PROGRAM:?go build in this folder makes it}"
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    rm -f db
    "$PROGRAM" make large
    "$PROGRAM" write large > said & writer=$!
    while ! [ -s db ] && kill -0 "$writer" 2>/dev/null; do sleep 0.002; done
    kill -KILL "$writer" 2>/dev/null || true
    wait "$writer" 2>/dev/null || true
    bytes=$(stat -c %s db)
    echo "{\"directory\": \"$PWD\", \"acknowledged\": []}" | "$PROGRAM" check > found
    echo "killed with $bytes bytes in the file, $(wc -l < said) transactions committed; then: $(cat found)"
    if ! [ -s said ] && grep -q '"part: ' found; then exit 0; fi
done
exit 1
