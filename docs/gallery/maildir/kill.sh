# Kills the constructor of mailbox.Maildir after its first mkdir, and calls it again. Needs strace.
set -eu
command -v strace >/dev/null || { echo "strace is not here"; exit 77; }
python=${PYTHON:-python3}
strace -f -o /dev/null -P "$PWD/box/tmp" -e trace=mkdir -e inject=mkdir:signal=KILL "$python" -c 'import mailbox; mailbox.Maildir("box")' || true
find box
for attempt in 1 2; do
    "$python" -c 'import mailbox; mailbox.Maildir("box").add("message")' 2>&1 | tail -n 1 | tee -a said
done
[ "$(grep -c FileNotFoundError said)" = 2 ]
