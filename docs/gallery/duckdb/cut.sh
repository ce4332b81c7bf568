# DuckDB's checkpoint writes a metadata block over the one in use, 256 KiB by one call. A kill inside leaves parts of both.
# Needs strace; `pip install duckdb==2.0.0`.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
. "$(dirname "$0")/../common/kill_inside_write.sh"
kill_inside_write
python=${PYTHON:-python3}
cat > write.py <<'END'
import duckdb
database = duckdb.connect("db", config={"threads": 1})
for number in range(3):
    database.execute("INSERT INTO rows VALUES (?)", [number])
    print("committed", number, flush=True)
database.close()
END
read='import duckdb; print("found", duckdb.connect("db").execute("SELECT number FROM rows").fetchall())'
# What is there before, and behind, the write at 12288: the process is killed as it enters a later call that writes.
at() {
    rm -f db db.wal
    "$python" -c 'import duckdb; duckdb.connect("db").execute("CREATE TABLE rows (number INTEGER)")'
    strace -f -o trace -e trace=pwrite64 -e inject=pwrite64:signal=KILL:when="$1" "$python" write.py > said 2>&1 || true
}
for count in 1 2 3 4 5 6; do
    at "$count"
    if grep -q '262144, 12288' trace; then break; fi
done
cp db before; cp db.wal wal
at $((count + 1))
cp db behind
cat said
cp before db; cp wal db.wal
"$python" -c "$read" 2>&1 | tail -n 1
cp before db; cp wal db.wal
dd if=behind of=db bs=4096 skip=3 seek=3 count=1 conv=notrunc status=none  # the first page of the write is there
"$python" -c "$read" 2>&1 | grep -o 'Corrupt database file: [a-z ]*\|found.*' | head -n 1 | tee found
! grep -q found found
