# Kills zict while it replaces a value, and opens its directory again. Needs strace; `pip install zict==3.0.0`.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
python=${PYTHON:-python3}
cat > write.py <<'END'
from zict import File
mapping = File("mapping")
mapping["key"] = b"old"
print("stored", flush=True)
mapping["key"] = b"new"
END
# key#1 is the file of the new value. SIGKILL comes as its creation is entered.
strace -f -o /dev/null -P 'mapping/key#1' -e trace=openat -e inject=openat:signal=KILL "$python" write.py || true
ls mapping
"$python" -c 'from zict import File; print("found", dict(File("mapping")))' | tee found
grep -q "found {}" found
