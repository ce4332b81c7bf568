# Kills ZODB's pack() between its two renames, and opens the storage again. Needs strace; `pip install ZODB==6.4`.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
python=${PYTHON:-python3}
cat > write.py <<'END'
import transaction
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage
database = DB(FileStorage("Data.fs"))
root = database.open().root()
for number in range(3):
    root[number] = "kept"
    transaction.commit()
    print("committed", number, flush=True)
database.pack()
END
cat > read.py <<'END'
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage
print("found", dict(DB(FileStorage("Data.fs")).open().root()))
END
strace -f -o /dev/null -P "$PWD/Data.fs.pack" -P Data.fs.pack -e trace=rename -e inject=rename:signal=KILL "$python" write.py || true
ls Data.fs*
"$python" read.py | tee found
grep -q "found {}" found
