"""Pictures inside of pages: they are part of the page, in its colours and without its names."""

import re
from xml.etree import ElementTree

from tornlog.reports.plotting.detection import detection_figure
from tornlog.reports.plotting.inline import inline_svg
from tornlog.reports.plotting.put_latency import put_latency_figure

ROW = {"sync_flush": True, "disk": "xfs", "producers": 1, "p50_us": 0, "p99_us": 900}


def drawn(name: str = "one") -> str:
    return inline_svg(lambda: detection_figure([1, 5, 200], 4), name)


def test_a_picture_is_an_element_without_a_ground_of_its_own() -> None:
    svg = drawn()
    assert svg.startswith("<svg ")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "<metadata" not in svg
    assert "#ffffff" not in svg.lower()


def test_its_text_is_text_and_its_colours_are_those_of_the_page() -> None:
    svg = drawn()
    assert "seeds</text>" in svg
    assert "var(--soft, #59636e)" in svg
    assert "var(--sync, #0072B2)" in svg
    bare = re.sub(r"var\([^)]*\)", "", svg)
    assert not re.findall(r"#[0-9a-f]{6}\b", bare, re.IGNORECASE)


def test_two_pictures_of_a_page_share_no_name() -> None:
    def names(svg: str) -> set[str]:
        return set(re.findall(r'\bid="([^"]*)"', svg))

    one, other = drawn("one"), drawn("other")
    assert names(one)
    assert not names(one) & names(other)
    assert {link[1:] for link in re.findall(r'href="([^"]*)"', one)} <= names(one)
    assert set(re.findall(r"url\(#([^)]*)\)", one)) <= names(one)


def test_the_same_picture_has_the_same_bytes() -> None:
    assert drawn() == drawn()


def test_latencies_are_drawn_by_disk_flush_mode_and_producers() -> None:
    rows = [ROW, {**ROW, "sync_flush": False}, {**ROW, "disk": "btrfs", "producers": 3}]
    svg = inline_svg(lambda: put_latency_figure(rows), "latency")
    for text in ("xfs", "btrfs", "sync flush", "async flush", "1 producer", "3 producers"):
        assert f">{text}</text>" in svg
    assert len(re.findall(r"stroke-width: 2.2", svg)) == len(rows) + 2, (
        "each once, and each colour once explained"
    )
