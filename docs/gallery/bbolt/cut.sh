# bbolt writes the four pages of a new database by one call. A kill inside leaves some, and they are never opened again.
set -eu
. "$(dirname "$0")/../common/kill_inside_write.sh"
kill_inside_write
"${PROGRAM:?go build in this folder makes it}" make sync
truncate -s 4096 db  # as after a kill at the first page
echo "{\"directory\": \"$PWD\", \"acknowledged\": []}" | "$PROGRAM" check | tee said
grep -q unusable said
