# Shows that a kill can end a write of several pages at any page: one write(2) of 1 GiB is killed, and its file is shorter.
# Read by scripts that then cut a file of their own at a page, as such a kill leaves it.
kill_inside_write() {
    for milliseconds in 100 150 200 250 300 400 500; do
        "${PYTHON:-python3}" -c '
import os, sys
data = bytes(1 << 30)
file = os.open("long", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
print("writing", flush=True)
os.write(file, data)
os.close(file)' > started & writer=$!
        while ! [ -s started ]; do sleep 0.01; done
        sleep "$(printf '0.%03d' "$milliseconds")"
        kill -KILL "$writer" 2>/dev/null || true
        wait "$writer" 2>/dev/null || true
        bytes=$(stat -c %s long)
        rm -f long started
        if [ "$bytes" -gt 0 ] && [ "$bytes" -lt $((1 << 30)) ]; then
            echo "one write of $((1 << 30)) bytes, killed: the file has $bytes, which is $((bytes / 4096)) pages and $((bytes % 4096)) bytes"
            return 0
        fi
    done
    echo "no kill came inside a write"
    return 1
}
