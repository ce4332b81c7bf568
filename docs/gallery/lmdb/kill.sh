# Kills a commit of LMDB with WRITEMAP between two stores to its meta page, and opens the database again.
# Needs gdb, objdump and an x86-64; `pip install lmdb==3.0.0`.
set -eu
command -v gdb >/dev/null && command -v objdump >/dev/null || { echo "gdb or objdump is not here"; exit 77; }
python=${PYTHON:-python3}
cat > write.py <<'END'
import lmdb
environment = lmdb.open("db", map_size=1 << 20, writemap=True)
for number in range(3):
    with environment.begin(write=True) as transaction:
        for row in range(8):
            transaction.put(b"k%d-%d" % (number, row), b"x" * 100)
    print("committed", number, flush=True)
END
cat > read.py <<'END'
import lmdb
with lmdb.open("db", map_size=1 << 20).begin() as transaction:
    print("found", sorted({key[:2].decode() for key, _ in transaction.cursor()}))
END
# The transaction's number is at 0x80 of the meta page, the end of the main table's record at 0x68: the second is stored last.
library=$("$python" -c 'import lmdb.cpython; print(lmdb.cpython.__file__)')
place=$(objdump -d "$library" | grep -A1 -E 'mov +%r[a-z0-9]+,0x80\(%r' | grep -m1 -E 'movups %xmm[0-9]+,0x68\(' | cut -d: -f1 | tr -d ' ') || true
[ -n "$place" ] || { echo "this build stores the number last"; exit 77; }
objdump -d "$library" | grep -B1 -E "^ +$place:" | cut -f1,3
cat > kill.gdb <<END
set breakpoint pending on
handle SIGSEGV nostop noprint pass
catch load $(basename "$library")
run
python
import gdb
maps = open(f"/proc/{gdb.selected_inferior().pid}/maps")
base = next(int(line.split("-")[0], 16) for line in maps if "lmdb/cpython" in line)
gdb.execute("delete")
gdb.execute(f"break *{base + 0x$place:#x}")
end
continue
ignore 2 1
continue
kill
END
gdb -q -batch -x kill.gdb --args "$python" write.py 2>/dev/null | grep committed || true
"$python" read.py 2>&1 | tail -n 1 | tee found
! grep -q "k0.*k1" found
