import re
from pathlib import Path
from xml.etree import ElementTree

from matplotlib.figure import Figure

from tornlog.reports.plotting import (
    KINDS,
    colour_steps,
    detection_figure,
    inline_svg,
    put_latency_figure,
    save_figure,
    save_table,
)


def draw_pictures(directory: Path) -> list[Path]:
    def figure() -> Figure:
        drawn = Figure(figsize=(2, 2))
        drawn.subplots().plot([1, 2], [3, 4], color=KINDS[0])
        return drawn

    return save_figure(figure, directory, "line")


def test_equal_plots_have_equal_bytes(tmp_path: Path) -> None:
    one, other = draw_pictures(tmp_path / "one"), draw_pictures(tmp_path / "other")

    assert [path.name for path in one] == ["line.png", "line.svg"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
    assert one[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in one[1].read_bytes()


def test_a_table_has_a_header_and_rows(tmp_path: Path) -> None:
    path = save_table(("a", "b"), [(1, "x,y"), (2.5, "")], tmp_path / "new", "table")

    assert path.read_text() == 'a,b\n1,"x,y"\n2.5,\n'


def test_colours_of_increasing_values_become_darker() -> None:
    def light(colour: str) -> int:
        return sum(bytes.fromhex(colour[1:]))

    assert len(colour_steps(1)) == 1
    for count in (2, 3, 4):
        assert sorted(colour_steps(count), key=light, reverse=True) == list(colour_steps(count))
        assert len(set(colour_steps(count))) == count


ROW = {"sync_flush": True, "disk": "xfs", "producers": 1, "p50_us": 0, "p99_us": 900}


def inline_picture(name: str = "one") -> str:
    return inline_svg(lambda: detection_figure([1, 5, 200], 4), name)


def test_an_inline_picture_has_no_background() -> None:
    svg = inline_picture()
    assert svg.startswith("<svg ")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "<metadata" not in svg
    assert "#ffffff" not in svg.lower()


def test_an_inline_picture_has_selectable_text_and_the_colours_of_the_page() -> None:
    svg = inline_picture()
    assert "seeds</text>" in svg
    assert "var(--soft, #59636e)" in svg
    assert "var(--sync, #0072B2)" in svg
    bare = re.sub(r"var\([^)]*\)", "", svg)
    assert not re.findall(r"#[0-9a-f]{6}\b", bare, re.IGNORECASE)


def test_two_pictures_of_a_page_have_no_common_element_id() -> None:
    def names(svg: str) -> set[str]:
        return set(re.findall(r'\bid="([^"]*)"', svg))

    one, other = inline_picture("one"), inline_picture("other")
    assert names(one)
    assert not names(one) & names(other)
    assert {link[1:] for link in re.findall(r'href="([^"]*)"', one)} <= names(one)
    assert set(re.findall(r"url\(#([^)]*)\)", one)) <= names(one)


def test_equal_inline_plots_have_equal_bytes() -> None:
    assert inline_picture() == inline_picture()


def test_latencies_are_drawn_by_disk_flush_mode_and_producers() -> None:
    rows = [ROW, {**ROW, "sync_flush": False}, {**ROW, "disk": "btrfs", "producers": 3}]
    svg = inline_svg(lambda: put_latency_figure(rows), "latency")
    for text in ("xfs", "btrfs", "sync flush", "async flush", "1 producer", "3 producers"):
        assert f">{text}</text>" in svg
    assert len(re.findall(r"stroke-width: 2.2", svg)) == len(rows) + 2, "each once, and each colour once explained"
