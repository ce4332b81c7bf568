# Kills a writer with libver="latest" after its flush(), and opens the file again. `pip install h5py==3.16.0`.
set -eu
python=${PYTHON:-python3}
for libver in earliest latest; do
    rm -f said
    "$python" -c '
import sys, time
from h5py import File
file = File("rows.h5", "w", libver=sys.argv[1])
file["rows"] = range(8)
file.flush()
print("flushed", flush=True)
time.sleep(60)' "$libver" > said & writer=$!
    while ! [ -s said ] && kill -0 "$writer" 2>/dev/null; do sleep 0.01; done
    kill -KILL "$writer"
    wait "$writer" 2>/dev/null || true
    "$python" -c 'from h5py import File; print(File("rows.h5", "r")["rows"][:])' 2>&1 | tail -n 1 | tee "found-$libver"
done
grep -q "6 7" found-earliest
grep -q "file is already open for write" found-latest
