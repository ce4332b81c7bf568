# Kills semidbm while a database is made, before the first bytes of its file, and opens it again.
# Needs strace; `pip install semidbm==0.5.1`.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
python=${PYTHON:-python3}
export PYTHONDONTWRITEBYTECODE=1  # so that the first write of the process is that to the database
strace -f -o /dev/null -e trace=write -e inject=write:signal=KILL:when=1 \
    "$python" -c 'import semidbm; semidbm.open("db", "c").close()' || true
stat -c '%s bytes in %n' db/data
for attempt in 1 2; do
    "$python" -c 'import semidbm; semidbm.open("db", "c"); print("opened")' 2>&1 | tail -n 1 | tee -a said
done
! grep -q opened said
