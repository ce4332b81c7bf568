# Kills queuelib while a queue is closed, and opens it again. Needs strace; `pip install queuelib==1.10.0`.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
python=${PYTHON:-python3}
cat > put.py <<'END'
from queuelib import FifoDiskQueue
queue = FifoDiskQueue("queue")
queue.push(b"kept")
queue.close()
print("closed", flush=True)
END
"$python" put.py
strace -f -o /dev/null -P queue/info.json -e trace=write -e inject=write:signal=KILL "$python" put.py || true
ls -l queue | awk '{print $5, $9}'
"$python" -c 'from queuelib import FifoDiskQueue; print(FifoDiskQueue("queue").pop())' 2>&1 | tail -n 1 | tee found
grep -q JSONDecodeError found
