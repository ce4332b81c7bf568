# LMDB writes both meta pages of a new database by one pwrite. A kill inside leaves the first, which is never opened again.
set -eu
. "$(dirname "$0")/../common/kill_inside_write.sh"
kill_inside_write
python=${PYTHON:-python3}
"$python" -c 'import lmdb; lmdb.open("db").close()'
truncate -s 4096 db/data.mdb  # as a kill between the two pages leaves it
for attempt in 1 2; do
    "$python" -c 'import lmdb; lmdb.open("db"); print("opened")' 2>&1 | tail -n 1 | tee -a said
done
! grep -q opened said
