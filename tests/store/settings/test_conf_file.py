from tornlog.store.formats.java_properties import parse_properties
from tornlog.store.settings.conf_file import changed_text


def test_lines_are_split_as_in_java() -> None:
    text = "# page\x0c one\u2028 two\x85\nfirst=1\n# kept\nsecond=2\r\nthird=3\r"

    changed = changed_text(text, {"first": "10", "third": "30", "fourth": "4"})

    assert changed == "# page\x0c one\u2028 two\x85\nfirst=10\n# kept\nsecond=2\r\nthird=30\nfourth=4\n"
    assert [each[:2] for each in parse_properties(changed)] == [
        ("first", "10"),
        ("second", "2"),
        ("third", "30"),
        ("fourth", "4"),
    ]
