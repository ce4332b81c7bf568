from pathlib import Path

from matplotlib.figure import Figure

from tornlog.reports.plotting.save import save_figure, save_table
from tornlog.reports.plotting.style import KINDS, house_style, steps


def draw(directory: Path) -> list[Path]:
    with house_style():
        figure = Figure(figsize=(2, 2))
        figure.subplots().plot([1, 2], [3, 4], color=KINDS[0])
        return save_figure(figure, directory, "line")


def test_the_same_picture_has_the_same_bytes(tmp_path: Path) -> None:
    one, other = draw(tmp_path / "one"), draw(tmp_path / "other")

    assert [path.name for path in one] == ["line.png", "line.svg"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
    assert one[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in one[1].read_bytes()


def test_a_table_is_a_header_and_rows(tmp_path: Path) -> None:
    path = save_table(("a", "b"), [(1, "x,y"), (2.5, "")], tmp_path / "new", "table")

    assert path.read_text() == 'a,b\n1,"x,y"\n2.5,\n'


def test_colours_of_growing_numbers_grow_darker() -> None:
    def light(colour: str) -> int:
        return sum(bytes.fromhex(colour[1:]))

    assert len(steps(1)) == 1
    for count in (2, 3, 4):
        assert sorted(steps(count), key=light, reverse=True) == list(steps(count))
        assert len(set(steps(count))) == count
