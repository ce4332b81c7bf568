"""The example of docs/store.md is run, over real files, and gives what its comments say."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "store.md"


def test_the_store_is_a_library_as_the_page_shows(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    small = "mapped_file_size_commit_log=1 << 20, max_hash_slot_num=100, max_index_num=400, "
    smaller = example.replace('StoreConfig("mq", ', f'StoreConfig("mq", {small}')
    assert smaller != example

    done = subprocess.run([sys.executable, "-c", smaller], cwd=tmp_path, capture_output=True, text=True, check=False)

    printed = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert (printed[0], printed[-1], len(printed)) == ("PutMessageStatus.PUT_OK", "True", 5)
