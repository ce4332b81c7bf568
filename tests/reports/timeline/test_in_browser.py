from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tornlog.reports.timeline.recording.record import RunRecording

pytestmark = pytest.mark.ci

Open = Callable[..., Any]

PIXELS = """() => {
  const canvas = document.getElementById("lanes");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Map();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] < 255) continue;
    const colour = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
    colours.set(colour, (colours.get(colour) || 0) + 1);
  }
  return Object.fromEntries(colours);
}"""
"""Script that counts the opaque pixels of each colour in the lanes."""

RULER_LABELS = """() => {
  const context = document.getElementById("lanes").getContext("2d");
  const drawn = [];
  context.fillText = function (words, x, y) {
    if (y < 10) drawn.push([words, x, x + this.measureText(words).width]);
    CanvasRenderingContext2D.prototype.fillText.call(this, words, x, y);
  };
  window.dispatchEvent(new Event("resize"));
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    delete context.fillText;
    done(drawn);
  })));
}"""
"""Script that draws the lanes again and returns the labels of the ruler with their positions."""


@pytest.fixture
def opened(browser: Browser, page_of: Callable[[RunRecording], Path]) -> Open:
    """Open the page of a run. Script errors and network requests fail the test."""

    @contextmanager
    def opened(
        run: RunRecording | Path, fragment: str = "", *, width: int = 1280, height: int = 900, scheme: Any = "light"
    ) -> Iterator[Page]:
        url = (run if isinstance(run, Path) else page_of(run)).as_uri()
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=width < 600
        )
        page = context.new_page()
        complaints: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(url + fragment)
        try:
            yield page
            wait_for_drawing(page)
            assert complaints == []
            assert [one for one in requests if not one.startswith((url, "data:"))] == []
        finally:
            context.close()

    return opened


def wait_for_drawing(page: Page) -> None:
    """Wait until all requested drawings are finished."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def visible_range(page: Page) -> tuple[float, float, float]:
    """Return the visible range and the length of the axis."""
    wait_for_drawing(page)
    data = page.evaluate("() => ({ ...document.getElementById('lanes').dataset })")
    return float(data["from"]), float(data["to"]), float(data["total"])


def selected_label(page: Page) -> str:
    wait_for_drawing(page)
    return str(page.evaluate("() => document.getElementById('lanes').dataset.selected"))


def test_timeline_lanes_are_drawn_in_many_colours(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        labels = page.locator("#labels .lane").all_text_contents()
        for expected in ("producer-1", "group-commit", "put", "commitlog/…2048", "checkpoint"):
            assert expected in labels
        assert page.locator("#labels .group").all_text_contents() == ["messages", "tasks", "locks held", "files"]
        colours = page.evaluate(PIXELS)
        assert sum(colours.values()) > 20_000
        assert len([colour for colour, pixels in colours.items() if pixels > 100]) > 8


def test_the_timeline_opens_with_the_whole_run_and_the_story_of_the_lost_message(
    opened: Open, lost: RunRecording
) -> None:
    with opened(lost) as page:
        start, end, total = visible_range(page)
        assert (start, end) == (0, total)
        name = lost.puts[lost.broken[0].puts[0]].name
        assert selected_label(page).startswith(f"{name} into")
        story = page.locator(".story li").all_text_contents()
        assert any("the file's name is not durable" in line for line in story)
        assert page.locator(".story li.bad").count() >= 3
        assert page.locator("tr.selected").inner_text().startswith(name)


def test_the_mouse_wheel_zooms_at_the_pointer(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        box = page.locator("#lanes").bounding_box()
        assert box
        page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 200)
        start, end, _ = visible_range(page)
        under = start + (end - start) * 0.75
        for _ in range(4):
            page.mouse.wheel(0, -300)
        nearer = visible_range(page)
        assert nearer[1] - nearer[0] < (end - start) / 3
        assert nearer[0] + (nearer[1] - nearer[0]) * 0.75 == pytest.approx(under, rel=0.02)
        page.mouse.wheel(0, 4000)
        assert visible_range(page)[:2] == pytest.approx((start, end))


def test_keys_zoom_move_and_fit_the_timeline(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        whole = visible_range(page)
        page.keyboard.press("+")
        page.keyboard.press("+")
        near = visible_range(page)
        assert near[1] - near[0] < (whole[1] - whole[0]) / 2
        page.keyboard.press("ArrowRight")
        moved = visible_range(page)
        assert moved[0] > near[0]
        assert moved[1] - moved[0] == pytest.approx(near[1] - near[0])
        page.keyboard.press("ArrowLeft")
        assert visible_range(page)[0] == pytest.approx(near[0])
        page.keyboard.press("-")
        assert visible_range(page)[1] - visible_range(page)[0] > near[1] - near[0]
        page.keyboard.press("f")
        assert visible_range(page) == whole


def test_dragging_moves_the_timeline(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        for _ in range(4):
            page.keyboard.press("+")
        before = visible_range(page)
        box = page.locator("#lanes").bounding_box()
        assert box
        x, y = box["x"] + box["width"] / 2, box["y"] + 300
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + box["width"] / 4, y, steps=4)
        page.mouse.up()
        after = visible_range(page)
        assert after[0] == pytest.approx(max(0, before[0] - (before[1] - before[0]) / 4), rel=0.05)


def test_a_click_selects_the_event_under_the_pointer(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        page.keyboard.press("Escape")
        assert selected_label(page) == ""
        box = page.locator("#lanes").bounding_box()
        lane = page.locator("#labels .lane", has_text="machines").bounding_box()
        assert box
        assert lane
        page.mouse.click(box["x"] + 40, lane["y"] + lane["height"] / 2)
        assert selected_label(page) == "life-0, killed"
        assert "life-0, killed" in page.locator("#details").inner_text()


def test_hovering_over_an_event_shows_its_name(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        box = page.locator("#lanes").bounding_box()
        lane = page.locator("#labels .lane", has_text="machines").bounding_box()
        assert box
        assert lane
        page.mouse.move(box["x"] + 60, lane["y"] + lane["height"] / 2)
        assert page.locator("#tip").inner_text().startswith("life-0, killed")
        page.mouse.move(5, 5)
        assert page.locator("#tip").is_hidden()


def test_search_finds_a_path_and_steps_through_the_results(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        page.keyboard.press("/")
        page.keyboard.type("checkpoint")
        found = [one.path for one in lost.operations if one.path.endswith("/checkpoint")]
        found += [one.lock for one in lost.holds if one.lock == "checkpoint"]
        assert page.locator("#matches").inner_text() == f"{len(found)} found"
        page.keyboard.press("Enter")
        assert page.locator("#matches").inner_text() == f"1 of {len(found)}"
        assert "checkpoint" in selected_label(page)
        page.keyboard.press("Escape")
        first = selected_label(page)
        page.keyboard.press("n")
        assert page.locator("#matches").inner_text() == f"2 of {len(found)}"
        assert "checkpoint" in selected_label(page) != first
        page.keyboard.press("N")
        assert selected_label(page) == first
        page.locator("#search").fill("no such thing")
        assert page.locator("#matches").inner_text() == "nothing found"


@pytest.mark.parametrize("text", ["group-commit", "m0.1.0", "sync directory", "put_ok", "power cut"])
def test_tasks_messages_operations_and_cuts_are_found(opened: Open, lost: RunRecording, text: str) -> None:
    with opened(lost) as page:
        page.locator("#search").fill(text)
        page.locator("#next").click()
        start, end, total = visible_range(page)
        assert end - start < total
        assert text.split("_")[0] in page.locator("#details").inner_text().lower()


def test_pressing_v_shows_the_violation(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        for _ in range(6):
            page.keyboard.press("+")
        page.keyboard.press("v")
        start, end, total = visible_range(page)
        assert selected_label(page).startswith("DUR: ")
        assert start > total / 4
        assert end > total * 0.95
        page.keyboard.press("Escape")
        page.locator("#to-violation").click()
        assert selected_label(page).startswith("DUR: ")


def test_pressing_c_shows_the_crash_and_its_losses(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        page.keyboard.press("c")
        assert selected_label(page).startswith("life-0: power cut (strict-posix)")
        assert "name lost: create commitlog/…" in page.locator("#details").inner_text()
        assert page.locator("#cuts .cut").count() == len(lost.cuts)
        assert page.locator("#cuts .s-l").count() > 0
        assert page.locator("#cuts .s-d").count() > 0
        assert "the file is gone: its name was not durable" in page.locator("#cuts").inner_text()


def test_pressing_t_shows_the_whole_run_on_a_time_axis(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        page.keyboard.press("t")
        start, end, total = visible_range(page)
        assert (start, end) == (0, total)
        assert total >= lost.moments[-1].now_ns
        assert page.locator("#by-time").get_attribute("aria-pressed") == "true"
        for _ in range(40):
            page.keyboard.press("+")
        assert visible_range(page)[1] - visible_range(page)[0] < 1_000, "what happens in one ns is told apart"
        page.keyboard.press("f")
        page.locator("#by-order").click()
        assert visible_range(page)[2] < len(lost.moments) * 2


@pytest.mark.parametrize("axis", ["order", "time"])
@pytest.mark.parametrize("zooms", [0, 6, 14, 40])
def test_ruler_labels_are_drawn_once_and_do_not_overlap(
    opened: Open, lost: RunRecording, axis: str, zooms: int
) -> None:
    with opened(lost, f"#axis={axis}") as page:
        for _ in range(zooms):
            page.keyboard.press("+")
        wait_for_drawing(page)
        labels = page.evaluate(RULER_LABELS)
        assert labels
        words = [label for label, _, _ in labels]
        assert len(words) == len(set(words))
        assert zooms or len(words) > 3
        for (_, _, end), (_, start, _) in pairwise(labels):
            assert end + 8 < start


def test_the_ruler_of_a_probed_program_shows_each_step_once(opened: Open, probed: RunRecording) -> None:
    with opened(probed) as page:
        assert [words for words, _, _ in page.evaluate(RULER_LABELS)] == [f"step {step}" for step in range(5)]


def test_the_timeline_page_lists_its_keys(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        page.keyboard.press("?")
        assert page.locator("#keys").is_visible()
        assert "jump to the violation" in page.locator("#keys").inner_text()
        page.keyboard.press("?")
        assert page.locator("#keys").is_hidden()
        page.locator("#help").click()
        page.keyboard.press("Escape")
        assert page.locator("#keys").is_hidden()


def test_light_and_dark_themes_differ_and_the_url_can_choose(opened: Open, lost: RunRecording) -> None:
    grounds = {}
    for scheme, fragment in (("light", ""), ("dark", ""), ("light", "#theme=dark"), ("dark", "#theme=light")):
        with opened(lost, fragment, scheme=scheme) as page:
            ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
            grounds[scheme, fragment] = (ground, page.screenshot())
    assert grounds["light", ""][0] != grounds["dark", ""][0]
    assert grounds["light", ""][1] != grounds["dark", ""][1]
    assert grounds["light", "#theme=dark"][0] == grounds["dark", ""][0]
    assert grounds["dark", "#theme=light"][0] == grounds["light", ""][0]


def test_the_timeline_follows_a_change_of_the_theme(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        light = page.evaluate(PIXELS)
        page.emulate_media(color_scheme="dark")
        wait_for_drawing(page)
        assert page.evaluate(PIXELS) != light


@pytest.mark.parametrize("mutant", ["no-dir-fsync-on-rollover", "stale-tail-after-truncate"])
def test_a_timeline_at_phone_width_does_not_scroll_sideways(
    opened: Open, broken_by: Callable[[str], RunRecording], mutant: str
) -> None:
    with opened(broken_by(mutant), width=400, height=800) as page:
        assert page.evaluate("() => document.documentElement.scrollWidth") == 400
        canvas = page.locator("#lanes").bounding_box()
        assert canvas
        assert canvas["width"] == 400
        page.keyboard.press("v")
        page.locator("#to-cut").tap()
        assert page.evaluate("() => document.documentElement.scrollWidth") == 400


def test_the_url_can_select_what_the_timeline_shows(opened: Open, lost: RunRecording) -> None:
    with opened(lost, "#violation") as page:
        assert selected_label(page).startswith("DUR: ")
    name = lost.puts[lost.broken[0].puts[0]].name
    with opened(lost, f"#put={name}&axis=time") as page:
        assert selected_label(page).startswith(f"{name} into")
        assert page.locator("#by-time").get_attribute("aria-pressed") == "true"
    with opened(lost, "#from=100&to=200") as page:
        start, end, total = visible_range(page)
        assert 0 < start < end < total
    with opened(lost, "#search=checkpoint") as page:
        assert page.locator("#matches").inner_text().endswith("found")


def test_clicking_a_line_of_a_story_goes_to_its_moment(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        page.locator(".story button", has_text="power cut").click()
        start, end, total = visible_range(page)
        assert end - start < total
        name = lost.puts[lost.broken[0].puts[0]].name
        assert selected_label(page).startswith(f"{name} into"), "the story goes on"


def test_groups_of_lanes_can_be_collapsed(opened: Open, lost: RunRecording) -> None:
    with opened(lost) as page:
        before = page.locator("#labels .lane").count()
        page.locator("#labels .group", has_text="files").click()
        assert page.locator("#labels .lane").count() < before
        page.locator("#labels .group", has_text="files").click()
        assert page.locator("#labels .lane").count() == before


def test_the_timeline_of_a_run_without_violations_has_none_to_show(opened: Open, held: RunRecording) -> None:
    with opened(held) as page:
        assert page.locator("#to-violation").is_hidden()
        page.keyboard.press("v")
        page.keyboard.press("c")
        assert "power cut" in selected_label(page)
        assert page.locator("#ledger .bad").count() == 0
        assert page.locator("#ledger .good").count() > 0


@pytest.mark.parametrize(
    "spoilt",
    [
        "<script>console.error('planted')</script>",
        "<script>throw new Error('planted')</script>",
        "<img src='http://127.0.0.1:9/planted.png'>",
    ],
)
def test_a_page_with_script_errors_or_network_requests_fails_the_test(
    opened: Open, lost: RunRecording, page_of: Callable[[RunRecording], Path], tmp_path: Path, spoilt: str
) -> None:
    html = page_of(lost).read_text().replace("</body>", f"{spoilt}</body>")
    for number, text in enumerate((html, html.replace("Content-Security-Policy", "x-no-policy"))):
        page = tmp_path / f"spoilt-{number}.html"
        page.write_text(text)
        with pytest.raises(AssertionError), opened(page):
            pass


def test_the_timeline_of_a_long_run_is_drawn(opened: Open, long: RunRecording) -> None:
    with opened(long) as page:
        assert sum(page.evaluate(PIXELS).values()) > 20_000
        for key in ("+", "+", "ArrowRight", "t", "f"):
            page.keyboard.press(key)
        assert visible_range(page)[0] == 0


def test_a_run_that_ends_at_its_crash_shows_the_last_operations(opened: Open, ended_at_its_crash: RunRecording) -> None:
    with opened(ended_at_its_crash) as page:
        assert selected_label(page).startswith("POS: ")
        assert "Last changes of commitlog/…" in page.locator("#details").inner_text()
        assert page.locator("#cuts .s-x").count() > 0


def test_a_probed_program_has_lanes_for_promises_threads_and_files(opened: Open, probed: RunRecording) -> None:
    with opened(probed) as page:
        labels = page.locator("#labels .lane").all_inner_texts()
        assert labels == ["machines", "promises", "save", "io", "check.py", "new"]
        assert selected_label(page) == "check: 'one' is lost"
        assert "rename of new to value undone" in page.locator("#details").inner_text()
        page.fill("#search", "rename")
        page.keyboard.press("Enter")
        assert selected_label(page).startswith("rename new to value")
        assert "save.py:3, rename" in page.locator("#details").inner_text()


def test_a_probed_program_has_steps_instead_of_times(opened: Open, probed: RunRecording) -> None:
    with opened(probed, "#axis=time") as page:
        assert not page.locator("#by-time").is_visible()
        assert page.evaluate("() => document.getElementById('lanes').dataset.axis") == "order"
        assert " ms" not in page.locator("body").inner_text()


def test_clicking_a_promise_in_the_table_selects_it(opened: Open, probed: RunRecording) -> None:
    with opened(probed) as page:
        page.locator("#ledger button", has_text="one").click()
        assert selected_label(page) == "promised: one"


def test_the_pages_of_a_long_file_show_their_position(opened: Open, probed: RunRecording) -> None:
    (cut,) = probed.cuts
    far = cut.files[0]._replace(path="far", before="w" * 8, after="l" * 8, pages=(7,), bytes_before=9_000_000, more=2)
    run = replace(probed, cuts=[replace(cut, files=[far])], digest="far")
    with opened(run) as page:
        assert page.locator("#cuts .sector").first.get_attribute("title").startswith("[28672, 29184)")
        assert "2 more pages were not durable" in page.locator("#cuts").inner_text()
