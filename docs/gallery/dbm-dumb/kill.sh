# Kills dbm.dumb inside its second sync(), and looks for the entries of the first one. Needs strace.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
python=${PYTHON:-python3}
cat > write.py <<'END'
import dbm.dumb
database = dbm.dumb.open("db", "c")
for number in range(2):
    database[str(number)] = "kept"
    database.sync()
    print("synced", number, flush=True)
END
for count in $(seq 10); do
    rm -f db.* said
    strace -f -o /dev/null -P db.dir -e trace=openat -e inject=openat:signal=KILL:when="$count" "$python" write.py > said || true
    left=$(ls db.* | tr '\n' ' ')
    found=$("$python" -c 'import dbm.dumb; print(sorted(dbm.dumb.open("db", "c").keys()))')
    echo "killed at open $count of db.dir, $(tail -n 1 said): left $left, found $found"
    if grep -q "synced 0" said && [ "$found" = "[]" ]; then exit 0; fi
done
exit 1
