# MVStore writes both blocks of a new file's header by one call. A kill inside leaves the first, which is never opened again.
set -eu
. "$(dirname "$0")/../common/kill_inside_write.sh"
kill_inside_write
: "${COMMAND:?make gallery-confirm sets it}"
eval "$COMMAND make sync"
truncate -s 4096 db.mv  # as a kill between the two blocks leaves it
for attempt in 1 2; do
    echo "{\"directory\": \"$PWD\", \"acknowledged\": []}" | eval "$COMMAND check" | tee said
    grep -q unusable said
done
