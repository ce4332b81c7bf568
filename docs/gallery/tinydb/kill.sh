# Kills TinyDB between the sync and the truncation of a write that makes its file shorter. Needs strace; `pip install tinydb==4.9.0`.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
python=${PYTHON:-python3}
cat > write.py <<'END'
from tinydb import TinyDB
database = TinyDB("db.json")
database.insert({"kept": 1})
database.table("drafts").insert({"draft": "x" * 100})
print("stored", flush=True)
database.drop_table("drafts")
END
# The first two writes are truncated, too, where they end; the third is the one that makes the file shorter.
touch db.json  # so that strace knows its descriptor
strace -f -o /dev/null -P "$PWD/db.json" -e trace=ftruncate -e inject=ftruncate:signal=KILL:when=3 "$python" write.py || true
"$python" -c 'from tinydb import TinyDB; print(TinyDB("db.json").all())' 2>&1 | tail -n 1 | tee found
grep -q JSONDecodeError found
